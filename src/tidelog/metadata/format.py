"""What formatting a data directory writes, and what a new cluster's log begins with.

Contents only: the caller has the disk. The files are Apache Kafka's, so that either can start on a
directory that the other formatted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidelog.metadata.features import ELR_VERSION, FEATURES, KRAFT_VERSION, METADATA_VERSION
from tidelog.metadata.image import BROKER_RESOURCE, RESERVED_UUIDS
from tidelog.metadata.records.cluster import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from tidelog.metadata.snapshot import snapshot_content
from tidelog.types import Uuid, format_uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    Voter,
    VotersRecord,
)

if TYPE_CHECKING:
    from tidelog.env import Rng

META_PROPERTIES = "meta.properties"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
METADATA_DIRECTORY = "__cluster_metadata-0"
INITIAL_VOTERS_CHECKPOINT = f"{METADATA_DIRECTORY}/00000000000000000000-0000000000.checkpoint"

TRANSACTIONS_SINCE = 13
"""The metadata.version (3.6-IV1) that knows transactions of records."""

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def random_uuid(rng: Rng) -> Uuid:
    """A version 4 uuid that is not reserved and whose text no command line takes for an option."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = Uuid(bytes(raw))
        if not is_reserved(uuid) and not format_uuid(uuid).startswith("-"):
            return uuid


def is_reserved(uuid: Uuid) -> bool:
    """Whether Kafka keeps the id for itself: no topic and no directory may have it."""
    return int.from_bytes(uuid, "big") < RESERVED_UUIDS


def meta_properties(cluster_id: str, node_id: int, directory_id: Uuid, wall_ms: int) -> bytes:
    """Whose directory it is."""
    lines = [
        "#",
        f"#{java_date(wall_ms)}",
        f"node.id={node_id}",
        f"directory.id={format_uuid(directory_id)}",
        "version=1",
        f"cluster.id={cluster_id}",
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def java_date(wall_ms: int) -> str:
    """java.util.Date.toString in UTC; strftime would follow the locale."""
    then = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=wall_ms)
    day, month = DAYS[then.weekday()], MONTHS[then.month - 1]
    return f"{day} {month} {then.day:02} {then:%H:%M:%S} UTC {then.year}"


def feature_records() -> list[Message]:
    """The levels that a new cluster starts with; metadata.version first, then by name."""
    names = sorted(FEATURES, key=lambda name: (name != METADATA_VERSION, name))
    return [
        FeatureLevelRecord(name=name, feature_level=FEATURES[name].level_default)
        for name in names
        if name != KRAFT_VERSION and FEATURES[name].level_default
    ]


def bootstrap_checkpoint(wall_ms: int) -> bytes:
    """What the first leader of the quorum copies into the log."""
    return snapshot_content(feature_records(), epoch=0, last_timestamp_ms=0, written_at_ms=wall_ms)


def bootstrap_transaction(records: Sequence[Message], min_insync_replicas: int) -> list[Message]:
    """The first batch of a new cluster: the bootstrap records, and the cluster-wide value that
    eligible leader replicas need, in one transaction where the level knows of such."""
    levels = {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}
    if levels.get(METADATA_VERSION, 0) < TRANSACTIONS_SINCE:
        return list(records)
    defaults = ConfigRecord(
        resource_type=BROKER_RESOURCE,
        resource_name="",
        name="min.insync.replicas",
        value=str(min_insync_replicas),
    )
    return [
        BeginTransactionRecord(name="Bootstrap records"),
        *records,
        *([defaults] if levels.get(ELR_VERSION) else []),
        EndTransactionRecord(),
    ]


def voter(node_id: int, directory_id: Uuid, listener: str, host: str, port: int) -> Voter:
    """A voter of a dynamic quorum, at one address."""
    supported = FEATURES[KRAFT_VERSION]
    return Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=(Endpoint(name=listener, host=host, port=port),),
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=supported.level_min, max_supported_version=supported.level_max
        ),
    )


def initial_voters_checkpoint(voters: Sequence[Voter], wall_ms: int) -> bytes:
    """The snapshot before the first record, by which the voters of a dynamic quorum know each
    other (KIP-853)."""
    return snapshot_content(
        [],
        epoch=0,
        last_timestamp_ms=wall_ms,
        written_at_ms=wall_ms,
        quorum_records=[
            KRaftVersionRecord(version=0, kraft_version=1),
            VotersRecord(version=0, voters=tuple(voters)),
        ],
    )


def formatted_directory(
    cluster_id: str,
    node_id: int,
    directory_id: Uuid,
    wall_ms: int,
    *,
    initial_voters: Sequence[Voter] = (),
) -> dict[str, bytes]:
    """The files of a new data directory, by name, in the order to write them. Initial voters are
    for the metadata directory of a dynamic quorum's controllers; a static quorum has its voters
    from the configuration."""
    files = {BOOTSTRAP_CHECKPOINT: bootstrap_checkpoint(wall_ms)}
    if initial_voters:
        files[INITIAL_VOTERS_CHECKPOINT] = initial_voters_checkpoint(initial_voters, wall_ms)
    # Last: where it is, nobody formats again.
    files[META_PROPERTIES] = meta_properties(cluster_id, node_id, directory_id, wall_ms)
    return files
