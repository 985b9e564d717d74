"""What is answered to a request to the controller as a whole: nobody is active, or not in time."""

from __future__ import annotations

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID
from tidelog.wire.api import ApiKey, response_class
from tidelog.wire.declare import Message


def refuse(message: Message, code: ErrorCode) -> Message:
    """The same error for all that was asked."""
    refused = refuse_each(message, code)
    return refuse_whole(message, code) if refused is None else refused


def refuse_each(message: Any, code: ErrorCode) -> Message | None:
    """Where an answer has no error of its own, only those of its elements. What a request is made
    of is imported here: a node that starts need not wait for all of them."""
    match message.API_KEY:
        case ApiKey.CREATE_TOPICS:
            from tidelog.wire.messages import create_topics

            return create_topics.CreateTopicsResponse(
                topics=tuple(
                    create_topics.CreatableTopicResult(
                        name=one.name, error_code=code, error_message=None
                    )
                    for one in message.topics
                )
            )
        case ApiKey.DELETE_TOPICS:
            from tidelog.wire.messages import delete_topics

            named = [(name, ZERO_UUID) for name in message.topic_names]
            return delete_topics.DeleteTopicsResponse(
                responses=tuple(
                    delete_topics.DeletableTopicResult(
                        name=name, topic_id=topic_id, error_code=code
                    )
                    for name, topic_id in (
                        *named,
                        *((one.name, one.topic_id) for one in message.topics),
                    )
                )
            )
        case ApiKey.CREATE_PARTITIONS:
            from tidelog.wire.messages import create_partitions

            return create_partitions.CreatePartitionsResponse(
                results=tuple(
                    create_partitions.CreatePartitionsTopicResult(name=one.name, error_code=code)
                    for one in message.topics
                )
            )
        case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return _refuse_configs(message, code)
        case ApiKey.ELECT_LEADERS:
            return _refuse_elections(message, code)
    return None


def _refuse_elections(message: Any, code: ErrorCode) -> Message:
    """As a whole, and each: version 0 knows errors of partitions alone."""
    from tidelog.wire.messages import elect_leaders

    return elect_leaders.ElectLeadersResponse(
        error_code=code,
        replica_election_results=tuple(
            elect_leaders.ReplicaElectionResult(
                topic=one.topic,
                partition_result=tuple(
                    elect_leaders.PartitionResult(
                        partition_id=number, error_code=code, error_message=None
                    )
                    for number in one.partitions
                ),
            )
            for one in message.topic_partitions or ()
        ),
    )


def fitted(answer: Any, version: int) -> Message:
    """What a version can carry: the message does not let the rest fall silently."""
    fits = answer.API_KEY != ApiKey.ELECT_LEADERS or version > 0 or not answer.error_code
    told: Message = answer if fits else answer.replace(error_code=ErrorCode.NONE)
    return told


def _refuse_configs(message: Any, code: ErrorCode) -> Message:
    from tidelog.wire.messages import alter_configs, incremental_alter_configs

    is_incremental = message.API_KEY == ApiKey.INCREMENTAL_ALTER_CONFIGS
    module: Any = incremental_alter_configs if is_incremental else alter_configs
    refused = tuple(
        module.AlterConfigsResourceResponse(
            error_code=code,
            error_message=None,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in message.resources
    )
    answer: Message = response_class(message.API_KEY)(responses=refused)
    return answer


OTHER_FIELDS: dict[int, dict[str, Any]] = {
    ApiKey.UPDATE_FEATURES: {"error_message": None},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"error_message": None, "responses": ()},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"error_message": None, "topics": ()},
    ApiKey.DESCRIBE_QUORUM: {"topics": ()},
    ApiKey.UNREGISTER_BROKER: {"error_message": None},
    ApiKey.ADD_RAFT_VOTER: {"error_message": None},
    ApiKey.REMOVE_RAFT_VOTER: {"error_message": None},
    ApiKey.BROKER_REGISTRATION: {},
    ApiKey.BROKER_HEARTBEAT: {"should_shut_down": False},
    ApiKey.ALLOCATE_PRODUCER_IDS: {"producer_id_start": 0, "producer_id_len": 0},
    ApiKey.ALTER_PARTITION: {"topics": ()},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {"directories": ()},
    ApiKey.CONTROLLER_REGISTRATION: {"error_message": None},
}
"""What a refusal has to say beside its error."""


def refuse_whole(message: Message, code: ErrorCode) -> Message:
    key = message.API_KEY
    assert key is not None
    return response_class(key)(error_code=code, **OTHER_FIELDS[key])
