"""What holds after every decision, over lives that chance writes; and some lives in particular."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.controller.chance import CONFIG, OPERATIONS, Life
from tests.unit.metadata.lives import broker, change, features, partition, uuid
from tests.unit.metadata.lives import config as config_record

from tidelog.controller.brokers import fence, unfence, unregister_broker
from tidelog.controller.config_changes import alter_configs_incrementally
from tidelog.controller.partitions import PartitionChanges
from tidelog.controller.registration import register_broker
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

STEPS = 600


def check(image, before):
    """The controller's invariants, and how one state may follow another."""
    changes = PartitionChanges(image, CONFIG)
    for topic in image.topics.values():
        raw = int(image.topic_configs(topic.name).get("min.insync.replicas", "2"))
        assert changes.rules(topic.topic_id).min_isr <= raw
        for number, state in topic.partitions.items():
            context = f"{topic.name}-{number}: {state}"
            replicas, isr = set(state.replicas), set(state.isr)
            elr = set(state.eligible_leader_replicas)
            assert len(replicas) == len(state.replicas) == len(state.directories), context
            assert len(isr) == len(state.isr) and isr <= replicas, context
            assert elr <= replicas and not elr & isr, context
            assert state.leader == -1 or state.leader in isr, context
            assert state.leader == -1 or image.is_active(state.leader), context
            assert {*state.adding_replicas, *state.removing_replicas} <= replicas, context
            if len(isr) >= raw or not image.elr_is_on:
                assert not elr, context
            is_kept = not image.elr_is_on and len(isr) == 1 and state.leader == -1
            assert is_kept or all(image.is_active(one) for one in isr), context
            was = before.partition_by_id(topic.topic_id, number)
            assert state.leader_epoch - was.leader_epoch in range(4), context
            assert state.partition_epoch - was.partition_epoch in range(4), context
            if state.leader != was.leader:
                assert state.leader_epoch > was.leader_epoch, context
            if state.leader_epoch > was.leader_epoch or state.isr != was.isr:
                assert state.partition_epoch > was.partition_epoch, context
    for one in image.brokers.values():
        known = before.brokers.get(one.broker_id)
        assert known is None or one.broker_epoch >= known.broker_epoch


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_what_holds_after_every_decision(seed, elr):
    life = Life(seed, elr=elr)
    done = []
    for number in range(STEPS):
        before = life.image
        done.append(life.step())
        try:
            check(life.image, before)
        except AssertionError as error:
            raise AssertionError(f"after step {number}, {done[-1]}: {error}") from error
    assert set(done) == set(OPERATIONS)


# Lives in particular.


class Three:
    """Brokers 1, 2, 3 and a partition on all of them, with min.insync.replicas 2."""

    def __init__(self, *more, elr=True, **state):
        records = [
            *(one for one in features() if elr or "eligible" not in one.name),
            *(broker(number) for number in (1, 2, 3)),
            TopicRecord(name="a", topic_id=uuid(1)),
            partition(1, 0, (1, 2, 3), **state),
            config_record(4, "", "min.insync.replicas", "2"),
            *more,
        ]
        self.image = replay_all(MetadataImage.empty(), records, 0, 1)

    def write(self, records):
        self.image = replay_all(self.image, records, self.image.offset + 1, 1)

    def fence(self, broker_id):
        self.write(finish(fence(self.image, broker_id, config())))

    def unfence(self, broker_id):
        self.write(finish(unfence(self.image, broker_id, config())))

    def restart(self, broker_id, *, cleanly, previous=-1):
        """A new process of a broker that was fenced."""
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=uuid(7000 + self.image.offset),
            listeners=(Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0),),
            features=tuple(
                Feature(name=name, min_supported_version=0, max_supported_version=30)
                for name in self.image.features
            ),
            rack=None,
            log_dirs=self.image.brokers[broker_id].log_dirs
            if broker_id in self.image.brokers
            else (uuid(2000 + broker_id),),
            previous_broker_epoch=self.image.broker_epoch(broker_id) if cleanly else previous,
        )
        decision = finish(
            register_broker(
                self.image,
                request,
                config(),
                cluster_id="c",
                next_offset=self.image.offset + 1,
                has_valid_session=False,
            )
        )
        assert decision.response.error_code == ErrorCode.NONE
        self.write(decision.records)

    @property
    def state(self):
        return self.image.partition("a", 0)

    @property
    def summary(self):
        state = self.state
        return state.leader, state.isr, state.eligible_leader_replicas


def test_the_last_one_loses_its_disk_and_the_eligible_one_leads():
    cluster = Three(isr=(1,), eligible_leader_replicas=(2,))
    for dead in (2, 3, 1):
        cluster.fence(dead)
    assert cluster.summary == (-1, (), (1, 2))
    cluster.restart(1, cleanly=False)
    cluster.unfence(1)
    assert cluster.summary == (-1, (), (2,))
    cluster.unfence(2)
    assert cluster.summary == (2, (2,), ())
    assert cluster.state.leader_recovery_state == 0


def test_the_last_one_stopped_cleanly_and_leads_again():
    cluster = Three(isr=(1,), eligible_leader_replicas=(2,))
    for dead in (2, 3, 1):
        cluster.fence(dead)
    cluster.restart(1, cleanly=True)
    cluster.unfence(1)
    assert cluster.summary == (1, (1,), (2,))
    assert cluster.state.leader_recovery_state == 0


def test_with_nobody_eligible_only_the_last_leader_is_asked():
    dead = {"isr": (), "leader": -1, "last_known_elr": (1,)}
    cluster = Three(broker(1, fenced=True), broker(2, fenced=True), **dead)
    cluster.unfence(2)
    assert cluster.summary == (-1, (), ())
    cluster.unfence(1)
    assert cluster.summary == (1, (1,), ())
    assert (cluster.state.leader_recovery_state, cluster.state.last_known_elr) == (1, ())


def test_without_elr_the_last_isr_is_kept():
    cluster = Three(elr=False)
    for dead in (3, 2, 1):
        cluster.fence(dead)
    assert cluster.summary == (-1, (1,), ())
    cluster.unfence(2)
    assert cluster.summary == (-1, (1,), ())
    cluster.unfence(1)
    assert cluster.summary == (1, (1,), ())


def test_another_least_isr_clears_the_eligible():
    cluster = Three(isr=(1,), eligible_leader_replicas=(2,))

    def alter(kind, name):
        request = IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(
                        AlterableConfig(name="min.insync.replicas", config_operation=0, value="1"),
                    ),
                ),
            ),
            validate_only=False,
        )
        decision = finish(alter_configs_incrementally(cluster.image, request, config()))
        cluster.write(decision.records)
        return decision.response.responses[0].error_code

    assert alter(4, "1") == ErrorCode.INVALID_CONFIG
    assert cluster.state.eligible_leader_replicas == (2,)
    assert alter(2, "a") == ErrorCode.NONE
    assert cluster.state.eligible_leader_replicas == ()


def test_who_is_alive_leads_if_the_topic_prefers_that():
    allowed = config_record(2, "a", "unclean.leader.election.enable", "true")
    cluster = Three(allowed, isr=(1, 2))
    cluster.fence(1)
    cluster.restart(1, cleanly=False)
    cluster.fence(2)
    assert cluster.summary == (3, (3,), ())
    assert cluster.state.leader_recovery_state == 1


def test_who_leads_from_the_elr_leaves_the_others_in_it():
    cluster = Three(isr=(), leader=-1, eligible_leader_replicas=(2, 3), last_known_elr=(2,))
    cluster.write([change(1, 0)])
    cluster.fence(2)
    cluster.unfence(2)
    assert cluster.summary == (2, (2,), (3,))


def test_an_unregistered_broker_that_registers_again_may_have_lost_anything():
    cluster = Three(isr=(1,), eligible_leader_replicas=(2,))
    cluster.fence(2)
    cluster.write(finish(unregister_broker(cluster.image, 2, config())).records)
    assert 2 not in cluster.image.brokers
    cluster.restart(2, cleanly=False, previous=20)
    assert cluster.state.eligible_leader_replicas == ()
