"""Bugs of replication: of leaders, followers, and who is in sync."""

from __future__ import annotations

from tests.sim.mutant import mutant

REPLICATION = (
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
        3,
        ("replica.isr", "if len(isr) > len(self.committed):", "if True:"),
    ),
    mutant(
        "join-the-isr-without-having-caught-up",
        5,
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
        2,
        ("broker.reading", "if fetched.last_fetched_epoch >= 0:", "if False:"),
    ),
    mutant(
        "keep-epochs-that-were-truncated",
        2,
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
        2,
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
        1,
        (
            "node",
            "                    self.waits_for_more = False\n",
            "                    self.waits_for_more = bool(self._woken.clear())\n",
        ),
    ),
    mutant(
        "wait-for-one-turn-after-the-other",
        1,
        (
            "node",
            "self.waits_for_more = event.__class__ is not TurnEnded",
            "self.waits_for_more = True",
        ),
    ),
    mutant(
        "call-all-committed-after-a-restart",
        5,
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
    mutant(
        "ask-for-isrs-without-waiting-for-the-answer",
        1,
        ("broker.alter_isr", "if not self._is_asking and self._retry_ms is None:", "if True:"),
    ),
    mutant(
        "change-an-isr-while-a-change-is-under-way",
        3,
        ("replica.isr", "self.pending is None\n            and replica", "replica"),
        ("replica.isr", "if self.pending is not None:", "if False:"),
    ),
    mutant(
        "forget-a-change-of-the-isr-that-the-controller-may-have-made",
        30,
        (
            "replica.isr_change",
            "if error in NOT_APPLIED:",
            "if error in (*NOT_APPLIED, *OVERTAKEN):",
        ),
    ),
    mutant(
        "forget-a-change-of-the-isr-whose-answer-is-lost",
        4,
        (
            "runtime.controller_channel",
            "if isinstance(answer, PeerFailure) or code == ErrorCode.NOT_CONTROLLER:",
            "if code == ErrorCode.NOT_CONTROLLER:",
        ),
        (
            "broker.alter_isr",
            "            self._ask_later(now)\n            return\n        answers",
            "            for partition, change in asked.items():\n"
            "                if is_under_way(partition, change):\n"
            "                    isr_change_refused(partition, ErrorCode.INELIGIBLE_REPLICA)\n"
            "            self._ask(now)\n"
            "            return\n"
            "        answers",
        ),
    ),
    mutant(
        "forget-followers-when-the-isr-changes",
        1,
        ("replica.isr", "self.remote.get(other) or RemoteReplica(other)", "RemoteReplica(other)"),
    ),
    mutant(
        "serve-fetches-of-a-process-that-is-gone",
        55,
        (
            "replica.isr",
            "return UNKNOWN < broker_epoch < self._brokers.broker_epoch(replica_id)",
            "return False",
        ),
    ),
    mutant(
        "followers-skip-what-consumers-ask-for",
        1,
        (
            "broker.reading",
            "                found = log.read(\n                    offset,\n",
            "                found = log.read(\n"
            "                    offset if partition.is_leader else end_offset - 1,\n",
        ),
    ),
)
