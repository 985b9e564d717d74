"""Formatting, against the files that Apache's tool wrote."""

from __future__ import annotations

import random

from tests.unit.metadata.captured import DISK, LIFE, without_times

from tidelog.metadata import format as formatting
from tidelog.metadata.batches import walk_metadata
from tidelog.metadata.format import (
    bootstrap_checkpoint,
    bootstrap_transaction,
    feature_records,
    formatted_directory,
    initial_voters_checkpoint,
    is_reserved,
    java_date,
    meta_properties,
    random_uuid,
    voter,
)
from tidelog.types import METADATA_TOPIC_ID, Uuid, format_uuid, parse_uuid
from tidelog.wire.messages.control_records import VotersRecord

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def test_meta_properties_is_the_captured_file():
    captured = (DISK / "static-controller.meta.properties").read_bytes()
    directory_id = parse_uuid("gwuPWpnoO3_rYksq3-ZmkA")
    # Sun Nov 15 21:19:07 UTC 2026
    assert meta_properties(CLUSTER_ID, 1, directory_id, 1794777547123) == captured


def test_dates_are_javas():
    assert java_date(0) == "Thu Jan 01 00:00:00 UTC 1970"


def test_bootstrap_checkpoint_is_the_captured_file():
    captured = (DISK / "static-controller.bootstrap.checkpoint").read_bytes()
    written = bootstrap_checkpoint(1794777547750)
    assert len(written) == len(captured) == 411
    assert without_times(written) == without_times(captured)


def test_initial_voters_are_the_captured_files():
    for name in ("standalone", "initial-controllers"):
        captured = (DISK / f"{name}.00000000000000000000-0000000000.checkpoint").read_bytes()
        logged = list(walk_metadata(captured))
        (voters,) = [one.record for one in logged if isinstance(one.record, VotersRecord)]
        remade = [
            voter(one.voter_id, one.voter_directory_id, point.name, point.host, point.port)
            for one in voters.voters
            for point in one.endpoints
        ]
        written = initial_voters_checkpoint(remade, logged[0].record.last_contained_log_timestamp)
        assert without_times(written) == without_times(captured)


def test_the_log_begins_as_a_captured_one():
    logged = [one.record for one in walk_metadata((DISK / LIFE).read_bytes())]
    assert bootstrap_transaction(feature_records(), 1) == logged[1:10]


def test_without_elr_there_is_no_cluster_wide_min_insync_replicas():
    records = [one for one in feature_records() if "eligible" not in one.name]
    assert len(bootstrap_transaction(records, 1)) == len(records) + 2


def test_the_files_of_a_directory():
    static = formatted_directory(CLUSTER_ID, 1, Uuid(b"\x22" * 16), 0)
    assert sorted(static) == ["bootstrap.checkpoint", "meta.properties"]
    voters = [voter(1, Uuid(b"\x22" * 16), "CONTROLLER", "h", 9093)]
    dynamic = formatted_directory(CLUSTER_ID, 1, Uuid(b"\x22" * 16), 0, initial_voters=voters)
    assert set(dynamic) - set(static) == {formatting.INITIAL_VOTERS_CHECKPOINT}


class Dull:
    """Gives reserved bytes, then bytes whose text opens with a dash, then proper ones."""

    def __init__(self):
        self.answers = [b"\xff" * 16, b"\xfb" * 16, b"\x01" * 16]

    def randbytes(self, size):
        return self.answers.pop(0)


def test_a_random_uuid_is_version_4_and_usable():
    rng = random.Random(1)
    for _ in range(200):
        uuid = random_uuid(rng)
        assert (uuid[6] >> 4, uuid[8] >> 6) == (4, 2)
        assert not format_uuid(uuid).startswith("-")
    dull = Dull()
    while dull.answers:
        assert not format_uuid(random_uuid(dull)).startswith("-")
    assert is_reserved(METADATA_TOPIC_ID)
    assert is_reserved(Uuid(bytes(15) + b"\x63"))
    assert not is_reserved(Uuid(bytes(15) + b"\x64"))
