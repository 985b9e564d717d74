"""Chooses a record's partition as Java's producer does, so that both put a key in one place."""

from __future__ import annotations


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Where every record of this key belongs."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned number."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    size = len(data)
    hashed = 0x9747B28C ^ size
    whole = size & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        hashed = (hashed * factor & mask) ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return hashed ^ hashed >> 15
