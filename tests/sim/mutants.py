"""Bugs to be planted, one at a time: the simulator must find each of them.

A mutant replaces text of modules as they are imported (`mutated.py`); nothing of it is in the
product. `seed` is one on which its violation was found, with the default nodes and seconds; `make
mutants` looks for such seeds afresh.
"""

from __future__ import annotations

from tests.sim.mutant import Mutant, mutant
from tests.sim.mutants_of_replication import REPLICATION

ALL: tuple[Mutant, ...] = (
    *REPLICATION,
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
        7,
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
        "let-another-process-into-the-isr-than-the-one-that-caught-up",
        96,
        (
            "controller.alter_partition",
            "is_same_process = epoch in (-1, image.broker_epoch(broker_id))",
            "is_same_process = True",
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
        30,
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
        7,
        (
            "raft.voters",
            "voter is not None and voter.voter_directory_id in (ZERO_UUID, key.directory_id)",
            "voter is not None",
        ),
    ),
    mutant(
        "lead-on-without-a-majority",
        3,
        (
            "raft.leading",
            "if now.monotonic_ms >= role.check_deadline_ms and quorum.others:",
            "if False:",
        ),
    ),
    mutant(
        "go-by-the-voters-of-old",
        7,
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
            "if isinstance(quorum.role, Leader) or not quorum.gate.is_open:",
            "if isinstance(quorum.role, Leader):",
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
        "stand-without-a-vote-of-ones-own",
        1,
        (
            "raft.quorum",
            "ElectionState(self.epoch + 1, voted=self.key)",
            "ElectionState(self.epoch + 1)",
        ),
    ),
    mutant(
        "ask-for-votes-before-ones-own-is-durable",
        1,
        (
            "raft.elections",
            "if quorum.gate.is_open and not role.is_won else []",
            "if not role.is_won else []",
        ),
    ),
    mutant(
        "vote-for-who-has-less",
        9,
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
        1,
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
