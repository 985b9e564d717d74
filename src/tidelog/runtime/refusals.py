"""What is answered to a request to the controller as a whole: nobody is active, or not in time."""

from __future__ import annotations

from typing import Any

from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    add_raft_voter,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    update_features,
)


def refuse(message: Message, code: ErrorCode) -> Message:
    """The same error for all that was asked."""
    refused = refuse_each(message, code)
    return refuse_whole(message, code) if refused is None else refused


def refuse_each(message: Message, code: ErrorCode) -> Message | None:
    """Where an answer has no error of its own, only those of its elements."""
    match message:
        case create_topics.CreateTopicsRequest():
            return create_topics.CreateTopicsResponse(
                topics=tuple(
                    create_topics.CreatableTopicResult(
                        name=one.name, error_code=code, error_message=None
                    )
                    for one in message.topics
                )
            )
        case delete_topics.DeleteTopicsRequest():
            named = [
                delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID)
                for name in message.topic_names
            ]
            return delete_topics.DeleteTopicsResponse(
                responses=tuple(
                    delete_topics.DeletableTopicResult(
                        name=one.name, topic_id=one.topic_id, error_code=code
                    )
                    for one in (*named, *message.topics)
                )
            )
        case create_partitions.CreatePartitionsRequest():
            return create_partitions.CreatePartitionsResponse(
                results=tuple(
                    create_partitions.CreatePartitionsTopicResult(name=one.name, error_code=code)
                    for one in message.topics
                )
            )
        case alter_configs.AlterConfigsRequest():
            return alter_configs.AlterConfigsResponse(
                responses=tuple(
                    alter_configs.AlterConfigsResourceResponse(error_code=code, **_resource(one))
                    for one in message.resources
                )
            )
        case incremental_alter_configs.IncrementalAlterConfigsRequest():
            return incremental_alter_configs.IncrementalAlterConfigsResponse(
                responses=tuple(
                    incremental_alter_configs.AlterConfigsResourceResponse(
                        error_code=code, **_resource(one)
                    )
                    for one in message.resources
                )
            )
    return None


def _resource(
    one: alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource,
) -> dict[str, Any]:
    return {
        "error_message": None,
        "resource_type": one.resource_type,
        "resource_name": one.resource_name,
    }


def refuse_whole(message: Message, code: ErrorCode) -> Message:
    match message:
        case update_features.UpdateFeaturesRequest():
            return update_features.UpdateFeaturesResponse(error_code=code, error_message=None)
        case elect_leaders.ElectLeadersRequest():
            return elect_leaders.ElectLeadersResponse(error_code=code, replica_election_results=())
        case alter_partition_reassignments.AlterPartitionReassignmentsRequest():
            return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
                error_code=code, error_message=None, responses=()
            )
        case list_partition_reassignments.ListPartitionReassignmentsRequest():
            return list_partition_reassignments.ListPartitionReassignmentsResponse(
                error_code=code, error_message=None, topics=()
            )
        case describe_quorum.DescribeQuorumRequest():
            return describe_quorum.DescribeQuorumResponse(error_code=code, topics=())
        case unregister_broker.UnregisterBrokerRequest():
            return unregister_broker.UnregisterBrokerResponse(error_code=code, error_message=None)
        case add_raft_voter.AddRaftVoterRequest():
            return add_raft_voter.AddRaftVoterResponse(error_code=code, error_message=None)
        case remove_raft_voter.RemoveRaftVoterRequest():
            return remove_raft_voter.RemoveRaftVoterResponse(error_code=code, error_message=None)
        case broker_registration.BrokerRegistrationRequest():
            return broker_registration.BrokerRegistrationResponse(error_code=code)
        case broker_heartbeat.BrokerHeartbeatRequest():
            return broker_heartbeat.BrokerHeartbeatResponse(error_code=code, should_shut_down=False)
        case allocate_producer_ids.AllocateProducerIdsRequest():
            return allocate_producer_ids.AllocateProducerIdsResponse(
                error_code=code, producer_id_start=0, producer_id_len=0
            )
        case alter_partition.AlterPartitionRequest():
            return alter_partition.AlterPartitionResponse(error_code=code, topics=())
        case assign_replicas_to_dirs.AssignReplicasToDirsRequest():
            return assign_replicas_to_dirs.AssignReplicasToDirsResponse(
                error_code=code, directories=()
            )
        case controller_registration.ControllerRegistrationRequest():
            return controller_registration.ControllerRegistrationResponse(
                error_code=code, error_message=None
            )
    raise AssertionError(f"{type(message).__name__} is not for the controller")
