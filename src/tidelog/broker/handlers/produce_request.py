"""What only requests for several partitions can get wrong, and what Kafka makes of it."""

from __future__ import annotations

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.types import Uuid
from tidelog.wire.batch import HEADER, TRANSACTIONAL
from tidelog.wire.batch_validation import Refusal, ValidBatch
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ATTRIBUTES_LOW_BYTE = 22


def names_several(message: ProduceRequest) -> bool:
    """Whether there is anything to look for: most requests are for one partition."""
    topics = message.topic_data
    return len(topics) > 1 or (len(topics) == 1 and len(topics[0].partition_data) > 1)


def named_once(message: ProduceRequest) -> ProduceRequest:
    """Of what is there twice for a partition, the last counts; the first is never stored."""
    topics: dict[tuple[str, Uuid], dict[int, PartitionProduceData]] = {}
    count = 0
    for topic in message.topic_data:
        partitions = topics.setdefault((topic.name, topic.topic_id), {})
        count += len(topic.partition_data)
        for data in topic.partition_data:
            partitions[data.index] = data
    if len(topics) == len(message.topic_data) and count == sum(map(len, topics.values())):
        return message
    return message.replace(
        topic_data=tuple(
            TopicProduceData(name=name, topic_id=topic_id, partition_data=tuple(found.values()))
            for (name, topic_id), found in topics.items()
        )
    )


def has_transactional(message: ProduceRequest) -> bool:
    """One such batch makes all of the request part of a transaction."""
    return any(
        _is_transactional(data.records)
        for topic in message.topic_data
        for data in topic.partition_data
    )


def _is_transactional(records: Any) -> bool:
    if isinstance(records, ValidBatch):
        return bool(records.attributes & TRANSACTIONAL)
    if isinstance(records, Refusal):
        return records.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if records is None or len(records) < HEADER.size:
        return False
    return bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL)
