"""Which decision an API asks for, and where its answer has errors.

Each makes records and an answer of the latest metadata; the controller has the records committed
before it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.controller import (
    alter_partition,
    brokers,
    config_changes,
    directories,
    elections,
    features,
    producer_ids,
    reassignments,
    registration,
    topic_changes,
    topics,
)
from tidelog.controller.decision import Decision, Refused
from tidelog.errors import ErrorCode
from tidelog.metadata.features import KRAFT_VERSION
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.slices import Slices
from tidelog.wire.api import ApiKey

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

Decide = Callable[["QuorumController", Any], Slices[Decision[Any]]]

COMMIT_TIMEOUT_MS = 30_000
"""Of requests that do not say how long their sender waits."""


class Decider(NamedTuple):
    """How an API is decided."""

    decide: Decide
    results: str = ""
    """The field of the answer whose elements have errors, if it has none itself."""


def _create_topics(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    rng = controller.runtime.rng
    return topics.create_topics(controller.latest, message, controller.config, rng)


def _delete_topics(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    return topic_changes.delete_topics(controller.latest, message, controller.config)


def _create_partitions(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    return topic_changes.create_partitions(controller.latest, message, controller.runtime.rng)


def _alter_configs(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    return config_changes.alter_configs(
        controller.latest, message, controller.static_config, node_id=controller.forwarder
    )


def _alter_incrementally(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    return config_changes.alter_configs_incrementally(
        controller.latest, message, controller.static_config, node_id=controller.forwarder
    )


def _update_features(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    yield 1
    raft = controller.metadata.raft
    decision = features.update_features(
        controller.latest,
        message,
        controller.static_config,
        voter_ids=raft.voters.ids,
        kraft_version=raft.kraft_version,
    )
    kraft_version = features.wanted_kraft_version(message)
    if decision.response.error_code or kraft_version in (None, raft.kraft_version):
        return decision
    assert kraft_version is not None
    error = raft.upgrade_kraft_version(kraft_version, controller.now)
    if error is not ErrorCode.NONE:
        why = (
            f"Invalid update version {kraft_version} for feature {KRAFT_VERSION}."
            " Not every voter has said yet that it supports it."
        )
        return features.refusal_of_all(Refused(error, why))
    # Once a record behind the quorum's own is committed, that one is.
    return decision._replace(records=[*decision.records, NoOpRecord()])


def _unregister_broker(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    return brokers.unregister_broker(controller.latest, message.broker_id, controller.config)


def _allocate_producer_ids(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    yield 1
    return producer_ids.allocate_producer_ids(controller.latest, message)


def _register_controller(controller: QuorumController, message: Any) -> Slices[Decision[Any]]:
    yield 1
    return registration.register_controller(controller.latest, message)


def _by_image_and_config(
    decide: Callable[..., Slices[Decision[Any]]],
) -> Decide:
    return lambda controller, message: decide(controller.latest, message, controller.config)


DECIDERS: dict[int, Decider] = {
    ApiKey.CREATE_TOPICS: Decider(_create_topics, "topics"),
    ApiKey.DELETE_TOPICS: Decider(_delete_topics, "responses"),
    ApiKey.CREATE_PARTITIONS: Decider(_create_partitions, "results"),
    ApiKey.ALTER_CONFIGS: Decider(_alter_configs, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Decider(_alter_incrementally, "responses"),
    ApiKey.UPDATE_FEATURES: Decider(_update_features, "results"),
    ApiKey.UNREGISTER_BROKER: Decider(_unregister_broker),
    ApiKey.ALLOCATE_PRODUCER_IDS: Decider(_allocate_producer_ids),
    ApiKey.CONTROLLER_REGISTRATION: Decider(_register_controller),
    ApiKey.ELECT_LEADERS: Decider(_by_image_and_config(elections.elect_leaders)),
    ApiKey.ALTER_PARTITION: Decider(_by_image_and_config(alter_partition.alter_partition)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Decider(
        _by_image_and_config(reassignments.alter_partition_reassignments)
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Decider(
        _by_image_and_config(directories.assign_replicas_to_dirs)
    ),
}
