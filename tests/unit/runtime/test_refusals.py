"""A request to the controller that nobody answers is refused in the form of its own answer."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.quorum_controller.decisions import DECIDERS
from tidelog.quorum_controller.handlers.envelope import FORWARDABLE
from tidelog.runtime.refusals import OTHER_FIELDS, refuse
from tidelog.types import ZERO_UUID
from tidelog.wire.api import APIS, ApiKey, request_class, response_class
from tidelog.wire.codec import encode
from tidelog.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
TOPIC = create_topics.CreatableTopic(
    name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
)
WITH_ELEMENTS = {
    "topics": create_topics.CreateTopicsRequest(topics=(TOPIC,)),
    "responses": delete_topics.DeleteTopicsRequest(
        topics=(delete_topics.DeleteTopicState(name="t", topic_id=ZERO_UUID),), timeout_ms=1
    ),
    "results": create_partitions.CreatePartitionsRequest(
        topics=(create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None),),
        timeout_ms=1,
        validate_only=False,
    ),
}
RESOURCES = (
    alter_configs.AlterConfigsRequest(
        resources=(
            alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=()),
        ),
        validate_only=False,
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=(
            incremental_alter_configs.AlterConfigsResource(
                resource_type=2, resource_name="t", configs=()
            ),
        ),
        validate_only=False,
    ),
)


@pytest.mark.parametrize("field", WITH_ELEMENTS)
def test_each_element_is_refused(field):
    answer = refuse(WITH_ELEMENTS[field], TIMED_OUT)
    (one,) = getattr(answer, field)
    assert (one.name, one.error_code) == ("t", TIMED_OUT)


@pytest.mark.parametrize("request_message", RESOURCES)
def test_each_resource_is_refused(request_message):
    answer = refuse(request_message, TIMED_OUT)
    assert type(answer) is response_class(request_message.API_KEY)
    (one,) = answer.responses
    assert (one.resource_type, one.resource_name, one.error_code) == (2, "t", TIMED_OUT)


@pytest.mark.parametrize("key", OTHER_FIELDS)
def test_a_whole_answer_is_refused_and_can_be_sent(key):
    # Nothing is asked of the request but what it is.
    message = request_class(key).__new__(request_class(key))
    answer = refuse(message, TIMED_OUT)
    assert answer.error_code == TIMED_OUT
    assert encode(answer, APIS[key].versions[1])


def test_whatever_the_controller_decides_can_be_refused():
    elements = {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
    }
    assert {*DECIDERS, *FORWARDABLE} - elements <= {*OTHER_FIELDS}
