"""Bugs to be planted, one at a time: the simulator must find each of them.

A mutant replaces text of modules as they are imported (`mutated.py`); nothing of it is in the
product. `seed` is one on which its violation was found, with the default nodes and seconds; `make
mutants` looks for such seeds afresh.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What one module reads, and what it is to read."""

    module: str
    old: str
    new: str


class Mutant(NamedTuple):
    """One bug."""

    name: str
    seed: int
    changes: tuple[Change, ...]

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(change.module for change in self.changes)


def mutant(name: str, seed: int, *changes: tuple[str, str, str]) -> Mutant:
    return Mutant(name, seed, tuple(Change(f"tidelog.{one[0]}", *one[1:]) for one in changes))


ALL = (
    # Replication.
    mutant(
        "truncate-to-the-high-watermark",
        1,
        (
            "broker.followed",
            "if not partition.log.leader_epochs.epochs:",
            "if True:",
        ),
        (
            "broker.followed",
            "epoch, latest = self.leader_epoch, own.leader_epochs.latest",
            "epoch, latest = self.leader_epoch, -1",
        ),
    ),
    mutant(
        "acknowledge-before-the-isr-has-it",
        1,
        (
            "broker.delayed_produce",
            "if partition.high_watermark < required_offset:",
            "if partition.log.log_end_offset < required_offset:",
        ),
    ),
    mutant(
        "forget-the-epoch-entry-of-a-new-leader",
        1,
        (
            "replica.partition",
            "self.log.leader_epochs.assign(leader_epoch, self.epoch_start_offset)",
            "pass",
        ),
    ),
    mutant(
        "serve-above-the-high-watermark",
        1,
        (
            "broker.reading",
            "        return partition.high_watermark\n\n    def _read(",
            "        return partition.log.log_end_offset\n\n    def _read(",
        ),
    ),
    mutant(
        "high-watermark-of-the-leader-alone",
        1,
        ("replica.isr", "replica.broker_id in self.maximal\n", "False\n"),
    ),
    mutant(
        "high-watermark-below-min-isr",
        1,
        (
            "replica.partition",
            "if len(self.followers.committed) < self.min_isr:",
            "if len(self.followers.committed) < 0:",
        ),
    ),
    mutant(
        "count-a-removal-from-the-isr-before-it-is-sure",
        4,
        ("replica.isr", "if len(isr) > len(self.committed):", "if True:"),
    ),
    mutant(
        "join-the-isr-without-having-caught-up",
        1,
        ("replica.isr", "and replica.log_end_offset >= end_offset_min\n", "\n"),
    ),
    mutant(
        "serve-fetches-of-another-epoch",
        1,
        (
            "replica.partition",
            "if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:",
            "if True:",
        ),
    ),
    mutant(
        "report-no-divergence",
        4,
        ("broker.reading", "if fetched.last_fetched_epoch >= 0:", "if False:"),
    ),
    mutant(
        "keep-epochs-that-were-truncated",
        1,
        (
            "log.leader_epochs",
            "        while self.start_offsets and self.start_offsets[-1] >= end_offset:\n"
            "            self._pop()\n",
            "        pass\n",
        ),
    ),
    mutant(
        "keep-a-stale-fetch-session",
        2,
        (
            "broker.fetch_session",
            "                    self.partitions[key] = fetched\n"
            "                fetched.update(asked)\n",
            "                    self.partitions[key] = fetched\n"
            "                    fetched.update(asked)\n",
        ),
    ),
    mutant(
        "a-followers-high-watermark-moves-by-a-flush",
        1,
        (
            "replica.partition",
            "        if not self.is_leader:\n            return False\n        end",
            "        end",
        ),
    ),
    mutant(
        "lead-before-the-metadata-knows-the-process",
        1,
        (
            "broker.metadata_follower",
            "is_known = own is not None and own.incarnation_id == broker.lifecycle.incarnation_id",
            "is_known = own is not None",
        ),
    ),
    mutant(
        "keep-what-diverges",
        1,
        (
            "replica.following",
            "        target = min(own_end, end_offset)\n    truncate_to(partition, target)\n",
            "        target = min(own_end, end_offset)\n",
        ),
    ),
    mutant(
        "followers-forget-epochs",
        1,
        (
            "log.log",
            "            if batch.partition_leader_epoch > self.leader_epochs.latest:\n",
            "            if False:\n",
        ),
    ),
    mutant(
        "forget-who-waits-for-the-end-of-a-turn",
        3,
        (
            "node",
            "                    self.waits_for_more = False\n",
            "                    self.waits_for_more = bool(self._woken.clear())\n",
        ),
    ),
    mutant(
        "wait-for-one-turn-after-the-other",
        3,
        (
            "node",
            "self.waits_for_more = event.__class__ is not TurnEnded",
            "self.waits_for_more = True",
        ),
    ),
    mutant(
        "call-all-committed-after-a-restart",
        1,
        (
            "broker.hosting",
            "high_watermark=log_dir.high_watermarks.get(key, 0),",
            "high_watermark=opened.log_end_offset,",
        ),
    ),
    mutant(
        "followers-delete-nothing",
        2,
        ("replica.following", "if start > own.log_start_offset:", "if False:"),
    ),
    # Idempotence.
    mutant(
        "append-a-retry-again",
        1,
        (
            "log.producer_state",
            "                return known\n        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER",
            "                return None\n        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER",
        ),
    ),
    mutant(
        "accept-sequences-out-of-order",
        1,
        (
            "log.producer_state",
            "                return known\n        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER",
            "                return known\n        return None",
        ),
    ),
    mutant(
        "followers-do-not-learn-of-producers",
        1,
        (
            "log.log",
            "            if batch.producer_id >= 0:\n                replay_batch(",
            "            if False:\n                replay_batch(",
        ),
    ),
    # The controller.
    mutant(
        "elect-from-outside-the-isr",
        1,
        (
            "controller.partition_change",
            "return in_sync and node in self.replicas and self.is_acceptable(node)",
            "return node in self.replicas and self.is_acceptable(node)",
        ),
    ),
    mutant(
        "elect-a-fenced-broker",
        1,
        (
            "controller.partition_change",
            "return in_sync and node in self.replicas and self.is_acceptable(node)",
            "return node in self.before.isr and node in self.replicas",
        ),
    ),
    mutant(
        "let-a-fenced-broker-into-the-isr",
        1,
        (
            "controller.alter_partition",
            "if not image.is_active(broker_id) or not is_same_process:",
            "if False:",
        ),
        (
            "replica.isr",
            "if replica.broker_epoch is None or not self._brokers.is_active(replica.broker_id):\n"
            "            return False\n"
            "        return replica.broker_epoch in (",
            "if True:\n            return True\n        return replica.broker_epoch in (",
        ),
    ),
    mutant(
        "keep-a-restarted-broker-in-the-isr",
        1,
        (
            "controller.registration",
            "was_clean = existing is not None and request.previous_broker_epoch ==",
            "was_clean = existing is not None and -1 <=",
        ),
    ),
    mutant(
        "claim-the-epoch-of-the-process-before",
        8,
        (
            "loading",
            "epoch = node.broker.broker_epoch if node.config.is_broker else -1",
            "epoch = role.image.broker_epoch(role.node_id)",
        ),
    ),
    mutant(
        "leave-producer-ids-out-of-snapshots",
        1,
        ("metadata.snapshot", "if image.next_producer_id:", "if False:"),
    ),
    # The quorum.
    mutant(
        "take-a-voter-with-a-new-disk-for-the-old-one",
        16,
        (
            "raft.voters",
            "voter is not None and voter.voter_directory_id in (ZERO_UUID, key.directory_id)",
            "voter is not None",
        ),
    ),
    mutant(
        "lead-on-without-a-majority",
        20,
        (
            "raft.leading",
            "if now.monotonic_ms >= role.check_deadline_ms and quorum.others:",
            "if False:",
        ),
    ),
    mutant(
        "go-by-the-voters-of-old",
        16,
        (
            "raft.leading",
            "                quorum.history.note(offset, record)\n",
            "                pass\n",
        ),
    ),
    mutant(
        "fetch-before-the-epoch-is-durable",
        1,
        (
            "raft.following",
            "if not quorum.gate.is_open or self.download",
            "if self.download",
        ),
    ),
    mutant(
        "vote-twice-in-an-epoch",
        3,
        (
            "raft.elections",
            "        if voted is not None:\n            return",
            "        if voted is not None and voted.id == candidate.id:\n            return",
        ),
    ),
    mutant(
        "tell-a-vote-before-it-is-durable",
        1,
        (
            "raft.quorum",
            "self.gate.when_open(lambda now: answer(message))",
            "answer(message)",
        ),
    ),
    mutant(
        "vote-for-who-has-less",
        4,
        (
            "raft.elections",
            "is_up_to_date = (asked.last_offset_epoch, asked.last_offset) >= quorum.last",
            "is_up_to_date = True",
        ),
    ),
    mutant(
        "commit-without-a-majority",
        1,
        ("raft.progress", "ends[len(ends) // 2]", "ends[0]"),
    ),
    mutant(
        "commit-records-of-earlier-epochs",
        4,
        (
            "raft.leading",
            "end <= max(role.start_offset, role.high_watermark or 0)",
            "end <= (role.high_watermark or 0)",
        ),
    ),
    mutant(
        "count-what-the-leader-has-not-flushed",
        1,
        (
            "raft.leading",
            "own_id, quorum.log.recovery_point)",
            "own_id, quorum.log.log_end_offset)",
        ),
    ),
    mutant(
        "fetch-before-the-flush",
        1,
        (
            "raft.following",
            "return quorum.is_log_durable or not (quorum.config.is_controller or quorum.has_cut)",
            "return True",
        ),
    ),
)

MUTANTS = {one.name: one for one in ALL}
