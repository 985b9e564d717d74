"""Which voters the log and its snapshots name, read at the start and as the log grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.log.log import Log
from tidelog.metadata.batches import read_metadata
from tidelog.raft.config import RaftConfig
from tidelog.raft.snapshots import BOOTSTRAP, Snapshots
from tidelog.raft.voters import BEFORE_THE_LOG, VoterHistory, static_voters
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_BYTES_MAX = 8 << 20


def load_history(config: RaftConfig, metadata: Log, snapshots: Snapshots) -> VoterHistory:
    """Of the configuration, the format, the latest snapshot and the log behind it. Raises
    DecodeError."""
    history = VoterHistory(static_voters(config.static_voters, config.listener_name))
    for record in snapshots.quorum_records(BOOTSTRAP):
        history.note(BEFORE_THE_LOG, record)
    offset = metadata.log_start_offset
    if snapshots.latest is not None:
        offset = snapshots.latest.end_offset
        for record in snapshots.quorum_records(snapshots.latest):
            history.note(offset - 1, record)
    while offset < metadata.log_end_offset:
        found = metadata.read(offset, metadata.log_end_offset, READ_BYTES_MAX)
        assert found is not None
        offset = note_voters(history, found.read(), offset)
    return history


def note_voters(history: VoterHistory, batches: Buffer, offset: Offset) -> Offset:
    """Control records among batches of the log, from an offset on; returns where they end."""
    for batch in BatchWalk(batches, check_crc=False):
        if batch.is_control and batch.base_offset >= offset:
            for logged in read_metadata(batch):
                history.note(logged.offset, logged.record)
        offset = max(offset, batch.next_offset)
    return offset
