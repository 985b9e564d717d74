"""The first Ctrl-C ends the input, the second the command."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.node import SCRIPT, SECONDS_MAX, run, up

from tidelog.cli.interrupts import Interrupts


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def waiting(what: str) -> bytes:
    return f"\nWaiting for {what}; Ctrl-C again ends at once\n".encode()


def test_the_first_ends_the_input_and_is_told_what_is_waited_for(capfd):
    seen = []
    with Interrupts(lambda: "an answer") as interrupts:
        for item in interrupts.reading(range(5)):
            seen.append(item)
            if item == 2:
                interrupt()
                seen.append("is not broken off")
        assert interrupts.have_come
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    assert seen == [0, 1, 2, "is not broken off"]
    assert capfd.readouterr().err.encode() == waiting("an answer")


def test_reading_is_broken_off_at_once(capfd):
    def source() -> Iterator[int]:
        yield 1
        interrupt()
        raise AssertionError("nobody reads on")

    with Interrupts(str) as interrupts:
        assert list(interrupts.reading(source())) == [1]
    assert interrupts.have_come
    assert capfd.readouterr().err == ""


def test_afterwards_all_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(str) as interrupts:
        assert list(interrupts.reading([1, 2])) == [1, 2]
    assert not interrupts.have_come
    assert signal.getsignal(signal.SIGINT) is before


def wait_until_unread(port: int) -> None:
    """Until there is something at a port that the process there has not read."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, _, state, queues, *_ = line.split()
            is_connection = local.endswith(f":{port:04X}") and state == "01"
            if is_connection and int(queues.split(":")[1], 16):
                return
        threading.Event().wait(0.01)
    raise AssertionError("nobody sends")


@pytest.mark.slow
@pytest.mark.parametrize("is_again", [True, False])
def test_a_producer_waits_for_its_records_after_the_first_but_not_after_the_second(
    tmp_path, is_again
):
    with up(tmp_path) as command:
        server = ("--bootstrap-server", command.servers, "--topic", "t")
        assert run("produce", *server, stdin="made\n").returncode == 0
        with subprocess.Popen(
            [SCRIPT, "produce", *server],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as producer:
            assert producer.stdin is not None
            assert producer.stderr is not None
            producer.stdin.write("first\n")
            producer.stdin.flush()
            read = run("consume", *server, "--from-beginning", "--max-messages", "2")
            assert read.stdout == "made\nfirst\n"
            os.kill(command.node, signal.SIGSTOP)
            producer.stdin.write("second\n")
            producer.stdin.flush()
            wait_until_unread(command.port)
            producer.send_signal(signal.SIGINT)
            assert producer.stderr.readline() == "\n"
            what = "1 record to be acknowledged, for 120 s at most"
            assert producer.stderr.readline() == f"Waiting for {what}; Ctrl-C again ends at once\n"
            if is_again:
                producer.send_signal(signal.SIGINT)
                said = "Not acknowledged, though perhaps written: 1 record\n"
                assert producer.communicate(timeout=SECONDS_MAX)[1] == said
            os.kill(command.node, signal.SIGCONT)
            assert producer.wait(SECONDS_MAX) == 130
