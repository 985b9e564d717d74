"""Snapshot files: the layout is Apache's, and a large one is cut into batches."""

from __future__ import annotations

from tests.unit.metadata.captured import DISK, without_times
from tests.unit.metadata.lives import config

from tidelog.metadata.batches import walk_metadata
from tidelog.metadata.snapshot import BATCH_RECORDS_MAX, snapshot_content, snapshot_name
from tidelog.wire.batch import BatchWalk
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

QUORUM = (KRaftVersionRecord, VotersRecord)


def test_a_captured_snapshot_is_written_again_but_for_its_times():
    name = "dynamic-quorum.00000000000000000302-0000000001.checkpoint"
    content = (DISK / name).read_bytes()
    logged = list(walk_metadata(content))
    records = [one.record for one in logged]
    assert isinstance(records[0], SnapshotHeaderRecord)
    assert isinstance(records[-1], SnapshotFooterRecord)
    remade = snapshot_content(
        [record for record in records[1:-1] if not isinstance(record, QUORUM)],
        epoch=1,
        last_timestamp_ms=records[0].last_contained_log_timestamp,
        written_at_ms=logged[0].timestamp,
        quorum_records=[record for record in records if isinstance(record, QUORUM)],
    )
    assert len(remade) == len(content)
    assert without_times(remade) == without_times(content)
    assert name.endswith(snapshot_name(302, 1))


def test_many_records_make_many_batches_with_dense_offsets():
    records = [config(2, "a", f"name-{number}", "1") for number in range(2 * BATCH_RECORDS_MAX + 1)]
    content = snapshot_content(records, epoch=3, last_timestamp_ms=5, written_at_ms=6)
    assert len(list(BatchWalk(content))) == 5
    logged = list(walk_metadata(content))
    assert [one.offset for one in logged] == list(range(len(records) + 2))
    assert {one.epoch for one in logged} == {3}
    assert [one.record for one in logged[1:-1]] == records
