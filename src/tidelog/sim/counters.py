"""How often things happened: faults, and branches that are rarely taken."""

from __future__ import annotations

SOMETIMES = (
    "a broker handed its leaderships over",
    "a broker was fenced",
    "a change of an ISR had no answer",
    "a change of an ISR was refused",
    "a committed batch lost by an unclean election",
    "a committed batch lost on every disk",
    "a consumer was fenced by its epoch",
    "a consumer was sent to a follower",
    "a fetch came late from a process that was gone",
    "a follower truncated its log",
    "a follower waited for the end of a turn",
    "a follower was behind its consumer",
    "a follower's high watermark fell by a truncation",
    "a leader began an epoch",
    "a leader of the quorum resigned",
    "a leader was elected from the ELR",
    "a log could not be read",
    "a metadata log began with a snapshot",
    "a metadata log was cut behind a snapshot",
    "a partition lost its leader",
    "a pre-vote was granted",
    "a reassignment ended",
    "a reassignment was taken back",
    "a snapshot was fetched",
    "a vote was given",
    "a voter became the quorum's leader",
    "a voter truncated the metadata log",
    "a voter was added",
    "a voter was removed",
    "acks=all took too long",
    "acks=all was refused below min.insync.replicas",
    "an ISR grew",
    "an ISR shrank",
    "an unclean election",
    "the last known leader was elected",
)
"""Rare branches that a long run must have taken."""


class Counters:
    """Names are found as they come."""

    def __init__(self) -> None:
        self.faults: dict[str, int] = {}
        self.branches: dict[str, int] = {}

    def injected(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def reached(self, branch: str) -> None:
        self.branches[branch] = self.branches.get(branch, 0) + 1

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())
