"""Death is asked of the socket; silence is the backstop."""

from __future__ import annotations

import pytest
from tests.unit.metadata.lives import broker, partition, uuid
from tests.unit.metadata.lives import config as config_record
from tests.unit.quorum_controller.cluster import Cluster

from tidelog.errors import ErrorCode
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.metadata.records.topics import PartitionChangeRecord, TopicRecord
from tidelog.quorum_controller.fencing import (
    PROBE_INTERVAL_MS,
    PROBE_INTERVAL_MS_MIN,
    RETRY_MS,
)

TIMEOUT_MS = 9000
QUIET = {"metadata_max_idle_interval_ms": "0"}


def started(*more, **options):
    cluster = Cluster(*more, **QUIET, **options).start()
    cluster.answer_probes()
    for broker_id in (1, 2, 3):
        cluster.beat(broker_id)
    cluster.metadata.records.clear()
    return cluster


def test_a_new_controller_looks_for_everybody_in_service_at_once():
    cluster = Cluster(broker(4, fenced=True), **QUIET).start()
    assert cluster.probes.ports() == [9001, 9002, 9003]
    cluster.answer_probes(9001)
    assert cluster.fenced() == [1, 4]
    state = cluster.latest.partition("a", 0)
    assert (state.leader, state.isr) == (2, (2, 3))


def test_the_broker_of_the_controllers_own_process_is_alive():
    cluster = Cluster(node_id=2, **QUIET).start()
    assert cluster.probes.ports() == [9001, 9003]


def test_who_does_not_refuse_is_looked_for_until_it_is_heard_of():
    cluster = Cluster(**QUIET).start()
    cluster.answer_probes()
    assert cluster.fenced() == []
    cluster.beat(1)
    cluster.sleep(PROBE_INTERVAL_MS)
    assert cluster.probes.ports() == [9002, 9003]
    cluster.answer_probes(9002)
    assert cluster.fenced() == [2]


def test_everybody_has_a_fresh_session():
    cluster = Cluster(**QUIET).start()
    cluster.sleep(TIMEOUT_MS)
    assert cluster.fenced() == []
    cluster.sleep(1)
    assert cluster.fenced() == [1, 2, 3]


def test_a_broken_connection_and_nobody_who_listens():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    assert cluster.probes.ports() == [9001]
    cluster.answer_probes(9001)
    assert cluster.fenced() == [1]
    change, fence = cluster.metadata.records
    assert isinstance(change, PartitionChangeRecord)
    assert fence == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1)


def test_a_process_that_ends_closes_its_listener_a_moment_later():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes()
    assert cluster.probes.ports() == []
    cluster.sleep(PROBE_INTERVAL_MS)
    cluster.answer_probes(9001)
    assert cluster.fenced() == [1]


def test_looks_are_frequent_at_first():
    """A process that ends is gone a few milliseconds later; another may never be."""
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    for interval_ms in (PROBE_INTERVAL_MS_MIN, 20, 40, 80, 160, PROBE_INTERVAL_MS, 250, 250):
        assert cluster.probes.ports() == [9001]
        cluster.answer_probes()
        cluster.sleep(interval_ms - 1)
        assert cluster.probes.ports() == []
        cluster.sleep(1)


def test_who_only_lost_its_connection_comes_back_by_another():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    cluster.beat(1, connection=101)
    cluster.answer_probes(9001)
    assert cluster.fenced() == []
    cluster.active.disconnected(100, cluster.now)  # not its last one any more
    assert cluster.probes.ports() == []
    cluster.active.disconnected(101, cluster.now)
    assert cluster.probes.ports() == [9001]


def test_connections_of_clients_are_nobodys():
    cluster = started()
    cluster.active.disconnected(555, cluster.now)
    assert cluster.probes.ports() == []


def test_who_is_heard_of_before_its_turn_is_not_fenced():
    cluster = started()
    cluster.is_deciding = True
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes(9001)
    cluster.beat(1, connection=101)
    cluster.is_deciding = False
    cluster.settle()
    assert cluster.fenced() == []
    cluster.sleep(TIMEOUT_MS + 1)
    assert 1 in cluster.fenced(), "its session goes on"


def test_silence():
    cluster = started()
    cluster.beat_for(TIMEOUT_MS, 2, 3)
    assert cluster.fenced() == []
    cluster.sleep(1)
    assert cluster.fenced() == [1]
    cluster.beat_for(3 * TIMEOUT_MS, 2, 3)
    assert cluster.fenced() == [1]
    assert cluster.beat(1).is_fenced is False, "it may come back"
    assert cluster.fenced() == []


def test_two_go_silent_together_and_the_second_decision_sees_the_first():
    topic = [TopicRecord(name="b", topic_id=uuid(2)), partition(2, 0, (1, 2))]
    cluster = started(*topic)
    cluster.beat_for(TIMEOUT_MS, 3)
    cluster.sleep(1)
    assert cluster.fenced() == [1, 2]
    state = cluster.latest.partition("b", 0)
    # Broker 2 led for a moment: had both been decided on the same image, its ISR would be empty
    # in one leap, or both would still lead something.
    assert (state.leader, state.isr, state.leader_epoch) == (-1, (), 2)
    assert set(state.eligible_leader_replicas) == {2}
    assert cluster.latest.partition("a", 0).leader == 3


def test_a_fencing_that_cannot_be_written_is_tried_again():
    cluster = started()
    cluster.metadata.error = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes(9001)
    assert cluster.fenced() == []
    cluster.metadata.error = ErrorCode.NONE
    cluster.sleep(RETRY_MS)
    cluster.answer_probes(9001)
    assert cluster.fenced() == [1]


def test_silence_that_cannot_be_written_is_tried_again():
    cluster = started()
    cluster.metadata.error = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.sleep(TIMEOUT_MS + 1)
    cluster.metadata.error = ErrorCode.NONE
    assert cluster.fenced() == []
    cluster.sleep(RETRY_MS + 1)
    assert cluster.fenced() == [1, 2, 3]


def test_nothing_is_fenced_by_who_is_not_active_any_more():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    cluster.active.stop()
    cluster.answer_probes(9001)
    cluster.sleep(2 * TIMEOUT_MS)
    assert cluster.metadata.records == []
    cluster.active.start(cluster.now)
    assert cluster.probes.ports() == [9001, 9002, 9003]


# Registration.


def test_a_live_process_keeps_others_from_its_id():
    cluster = started()
    refused = cluster.register(1, port=5)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.beat_for(TIMEOUT_MS, 2, 3)
    cluster.sleep(1)
    accepted = cluster.register(1, port=5)
    assert accepted.error_code == ErrorCode.NONE
    assert cluster.beat(1, epoch=10).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_dead_process_keeps_nobody_out():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    refused = cluster.register(1, port=5)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.answer_probes(9001)
    assert cluster.register(1, port=5).error_code == ErrorCode.NONE


def test_nor_does_one_whose_fencing_waits_for_its_turn():
    cluster = started()
    cluster.is_deciding = True
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes(9001)
    assert cluster.fenced() == []
    assert cluster.register(1, port=5).error_code == ErrorCode.NONE
    cluster.is_deciding = False
    cluster.settle()
    assert cluster.latest.brokers[1].broker_epoch != 10


def test_a_process_that_stopped_cleanly_keeps_nobody_out():
    cluster = started()
    while not cluster.beat(1, want_shut_down=True).should_shut_down:
        for broker_id in (2, 3):
            cluster.beat(broker_id)
    cluster.active.disconnected(100, cluster.now)
    refused = cluster.register(1, port=5)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.answer_probes(9001)
    assert cluster.register(1, port=5).error_code == ErrorCode.NONE


def test_who_listens_where_a_lost_one_did_has_taken_its_place():
    """A node that starts again so fast that a look finds the new process at the old address."""
    cluster = started()
    assert cluster.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes()
    assert cluster.register(1).error_code == ErrorCode.NONE


def test_after_a_failover_a_restarted_process_registers_at_once():
    cluster = Cluster(**QUIET).start()
    cluster.answer_probes()
    assert cluster.register(1).error_code == ErrorCode.NONE


def test_a_refused_newcomer_has_the_old_process_looked_for():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes()
    assert cluster.probes.ports() == []
    refused = cluster.register(1, port=5)
    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.probes.ports() == [9001]


def test_however_often_a_newcomer_asks_looks_do_not_multiply():
    cluster = started()
    cluster.active.disconnected(100, cluster.now)
    looks = 0
    for _ in range(40):
        cluster.register(1, port=5)
        for _ in range(5):
            looks += len(cluster.probes.ports())
            cluster.answer_probes()
            cluster.sleep(10)
    assert looks <= 40 + 6 + 2000 // PROBE_INTERVAL_MS


def test_who_comes_and_goes_is_looked_for_at_once_and_by_one_at_a_time():
    cluster = started()
    for _ in range(20):
        cluster.active.disconnected(100, cluster.now)
        assert cluster.probes.ports() == [9001]
        cluster.answer_probes()
        cluster.sleep(5)
        cluster.beat(1)
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes()
    cluster.sleep(10)
    assert cluster.probes.ports() == [9001]


def test_a_new_process_has_a_session_of_its_own():
    cluster = started()
    cluster.sleep(TIMEOUT_MS + 1)
    assert cluster.register(1, connection=8).error_code == ErrorCode.NONE
    assert cluster.is_fenced(1)
    again = cluster.register(1, connection=9, port=5)
    assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.active.disconnected(8, cluster.now)
    cluster.answer_probes(9001)
    assert cluster.register(1, connection=9, port=5).error_code == ErrorCode.NONE


# Controlled shutdown.


def test_a_broker_goes_when_all_have_applied_that_it_leads_nothing():
    cluster = started()
    answer = cluster.beat(1, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (False, False)
    offset = cluster.latest.offset
    assert cluster.latest.partition("a", 0).leader == 2
    cluster.beat(2, offset=offset)
    cluster.beat(3, offset=offset - 1)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is False
    cluster.beat(3, offset=offset)
    answer = cluster.beat(1, want_shut_down=True)
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert cluster.fenced() == [1]


def test_who_is_dead_need_not_know():
    cluster = started()
    cluster.beat(1, want_shut_down=True)
    cluster.beat(2)
    cluster.active.disconnected(300, cluster.now)
    cluster.answer_probes(9003)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is True


def test_two_stop_at_once():
    cluster = started()
    cluster.beat(1, want_shut_down=True)
    cluster.beat(2, want_shut_down=True)
    assert cluster.latest.partition("a", 0).leader == 3
    cluster.beat(3)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is True
    assert cluster.beat(2, want_shut_down=True).should_shut_down is True


def test_a_broker_that_was_fenced_has_not_begun_to_stop():
    cluster = started()
    cluster.beat(1, want_shut_down=True)
    cluster.beat(1, want_shut_down=True, want_fence=True)
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is True
    assert cluster.is_fenced(1)
    assert cluster.beat(1).is_fenced is False
    assert cluster.beat(1).should_shut_down is False


def test_who_is_in_service_but_unknown_has_read_nothing():
    cluster = started()
    offset_min = cluster.active.sessions.active_offset_min(cluster.latest)
    assert offset_min == cluster.latest.offset
    cluster.active.sessions.forget(2)
    assert cluster.active.sessions.active_offset_min(cluster.latest) == -1


def test_after_a_failover_all_must_know_what_the_new_controller_knows():
    cluster = started()
    cluster.beat(1, want_shut_down=True)
    cluster.active.stop()
    cluster.active.start(cluster.now)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is False
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.beat(1, want_shut_down=True).should_shut_down is True


# The rest of the active controller.


def test_records_that_say_nothing():
    cluster = Cluster().start()
    cluster.sleep(499)
    assert cluster.metadata.records == []
    cluster.sleep(1)
    assert cluster.metadata.records == [NoOpRecord()]
    cluster.sleep(1000)
    assert cluster.metadata.records == [NoOpRecord()], "the first is not committed yet"
    cluster.metadata.commit(cluster.now)
    cluster.sleep(500)
    assert cluster.metadata.records == [NoOpRecord()] * 2
    cluster.metadata.commit(cluster.now)
    cluster.active.stop()
    cluster.sleep(2000)
    assert len(cluster.metadata.records) == 2
    assert cluster.metadata.unawaited == cluster.metadata.records


def test_a_no_op_that_cannot_be_written_is_not_waited_for():
    cluster = Cluster().start()
    cluster.metadata.error = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.sleep(600)
    cluster.metadata.error = ErrorCode.NONE
    cluster.sleep(500)
    assert cluster.metadata.records == [NoOpRecord()]


@pytest.mark.parametrize("times", [1, 3])
def test_activated_again_it_does_everything_once(times):
    cluster = Cluster()
    for _ in range(times):
        cluster.active.start(cluster.now)
        cluster.probes.asked.clear()
    cluster.sleep(500)
    assert cluster.metadata.records == [NoOpRecord()]


def test_an_unclean_election_is_reported(caplog):
    topic = [
        TopicRecord(name="b", topic_id=uuid(2)),
        partition(2, 0, (1, 2), isr=(1,), leader_epoch=5),
        config_record(2, "b", "unclean.leader.election.enable", "true"),
    ]
    cluster = started(*topic)
    cluster.active.disconnected(100, cluster.now)
    cluster.answer_probes(9001)
    assert cluster.latest.partition("b", 0).leader == 2
    (said,) = [one.getMessage() for one in caplog.records if "unclean" in one.getMessage()]
    assert "broker 2 leads b-0 in leader epoch 6" in said
    assert "broker 1 had them last" in said


def test_a_process_that_starts_anew_does_not_wait_for_its_own_last_life():
    cluster = Cluster(node_id=1, **QUIET).start()
    assert cluster.register(1, connection=0, port=5).error_code == ErrorCode.NONE
    assert cluster.register(1, port=6).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
