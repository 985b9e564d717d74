"""UpdateFeatures in a cluster: everybody has to understand what comes. What a single node of
Apache Kafka answers is in tests/data/decisions.txt."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker
from tests.unit.metadata.lives import config as config_record

from tidelog.controller.features import update_features
from tidelog.metadata.delta import replay_all
from tidelog.metadata.features import FEATURES
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerFeature,
    ControllerFeature,
    RegisterControllerRecord,
)
from tidelog.metadata.records.cluster import ConfigRecord, FeatureLevelRecord
from tidelog.types import ZERO_UUID
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3
ELR = "eligible.leader.replicas.version"


def ranges(kind, **most):
    return tuple(
        kind(
            name=name,
            min_supported_version=feature.level_min,
            max_supported_version=most.get(name.partition(".")[0], feature.level_max),
        )
        for name, feature in FEATURES.items()
        if most.get(name.partition(".")[0]) != -1
    )


def controller(number, **most):
    return RegisterControllerRecord(
        controller_id=number,
        incarnation_id=ZERO_UUID,
        zk_migration_ready=False,
        end_points=(),
        features=ranges(ControllerFeature, **most),
    )


def cluster(*more, level=29, **levels):
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=level),
        *(FeatureLevelRecord(name=name, feature_level=one) for name, one in levels.items()),
        broker(1, features=ranges(BrokerFeature)),
        *(controller(number) for number in (1, 2, 3)),
        *more,
    ]
    return replay_all(MetadataImage.empty(), records, 0, 1)


def update(image, *updates, **options):
    keys = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    )
    request = UpdateFeaturesRequest(feature_updates=keys)
    decision = update_features(image, request, config(), voter_ids=(1, 2, 3), **options)
    message = decision.response.error_message
    if message is not None:
        assert decision.records == []
        assert decision.response.error_code == 95
        message = message.split("had an error: ")[1]
    return list(decision.records), message


def test_everybody_understands():
    records, message = update(cluster(), ("metadata.version", 30, UPGRADE))
    assert message is None
    assert records == [FeatureLevelRecord(name="metadata.version", feature_level=30)]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            broker(2, features=ranges(BrokerFeature, metadata=29)),
            "Broker 2 only supports versions 7-29",
        ),
        (
            broker(2, fenced=True, features=ranges(BrokerFeature, metadata=29)),
            "Broker 2 only supports versions 7-29",
        ),
        (
            broker(2, features=ranges(BrokerFeature, metadata=-1)),
            "Broker 2 does not support this feature.",
        ),
        (controller(2, metadata=29), "Controller 2 only supports versions 7-29"),
        (controller(2, metadata=-1), "Controller 2 does not support this feature."),
    ],
)
def test_somebody_does_not(more, complaint):
    _, message = update(cluster(more), ("metadata.version", 30, UPGRADE))
    assert message == f"Invalid update version 30 for feature metadata.version. {complaint}"


def test_a_voter_that_nobody_knows():
    request = UpdateFeaturesRequest(
        feature_updates=(
            FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1),
        )
    )
    decision = update_features(cluster(), request, config(), voter_ids=(1, 4))
    assert "controller 4 has not registered" in decision.response.error_message
    # Before controllers registered, nobody could know.
    old = update_features(cluster(level=14), request, config(), voter_ids=(1, 4))
    assert old.response.error_code == 0


@pytest.mark.parametrize(
    ("current", "level", "is_possible"),
    [(29, 28, True), (29, 23, True), (29, 22, False), (30, 29, False), (16, 15, True)],
)
def test_back_to_a_level_that_loses_nothing(current, level, is_possible):
    records, message = update(cluster(level=current), ("metadata.version", level, SAFE))
    assert (message is None) == is_possible == bool(records)
    if not is_possible:
        assert message.startswith(f"Unsupported metadata.version downgrade from {current} to")


def test_a_level_that_needs_another():
    _, message = update(cluster(level=22), (ELR, 1, UPGRADE))
    assert message == (
        f"Invalid update version 1 for feature {ELR}. {ELR} could not be set to 1 because it"
        " depends on metadata.version level 23"
    )
    records, message = update(
        cluster(level=22), (ELR, 1, UPGRADE), ("metadata.version", 23, UPGRADE)
    )
    assert message is None
    assert [record.name for record in records[-2:]] == [ELR, "metadata.version"]


def test_eligible_leaders_need_one_least_isr_for_all():
    own = config_record(4, "1", "min.insync.replicas", "3")
    other = config_record(4, "1", "log.retention.ms", "3")
    records, _ = update(cluster(own, other), (ELR, 1, UPGRADE))
    assert records == [
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value=None),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    everywhere = config_record(4, "", "min.insync.replicas", "2")
    records, _ = update(cluster(everywhere), (ELR, 1, UPGRADE))
    assert records == [FeatureLevelRecord(name=ELR, feature_level=1)]


def test_what_is_finalized_already_is_no_record():
    records, message = update(cluster(), ("metadata.version", 29, UPGRADE))
    assert (records, message) == ([], None)
