"""Runs one node: opens its directory, listens, serves until told to stop, stops cleanly."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import resource
import signal
import socket
import sys

import uvloop

from tidelog.broker.broker import Broker
from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import Endpoint
from tidelog.disk import RealDisk
from tidelog.loading import CannotLoad, load_node, stop_node
from tidelog.server.admission import Admission, Refused
from tidelog.server.connection import Connection
from tidelog.server.scheduling import shorten_slices
from tidelog.server.shell import Shell, now

log = logging.getLogger("tidelog.server")

GC_ALLOCATIONS = 50_000
"""Between two looks for cycles: requests and answers have none."""
START_POLL_SECONDS = 0.001
START_POLL_SECONDS_MAX = 0.05
"""A quorum may be away for hours: whoever waits for it shall cost nothing."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAVE_SECONDS_MAX = 15.0
"""What others get to take over in."""
LEAVE_TOLD_SECONDS = 1.0
"""Whoever waits for a node's end for longer wants to know why."""
STOP_SECONDS_MAX = 10.0
"""What requests in flight get to be answered in, and slow readers to read."""


def run(config: BrokerConfig, cluster_id: str | None = None) -> int:
    """Blocks until SIGTERM or SIGINT; the exit code. Empty directories are formatted for the
    cluster of that id."""
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s %(message)s",
    )
    raise_file_limit()
    shorten_slices()
    try:
        return uvloop.run(_serve(config, cluster_id))
    except CannotLoad as error:
        log.error("%s", error)
        return 1


async def _serve(config: BrokerConfig, cluster_id: str | None) -> int:
    disk = RealDisk()
    node = load_node(config, disk, random.SystemRandom(), now(), cluster_id)
    shell = Shell(
        node,
        disk,
        request_bytes_max=config.socket_request_max_bytes,
        idle_ms_max=config.connections_max_idle_ms,
    )
    admission = Admission()
    servers = {one: await _bind(shell, one, admission) for one in config.bound_endpoints}
    of_controllers = [one for one in config.bound_endpoints if one.name in config.controller_names]
    of_brokers = [one for one in config.bound_endpoints if one not in of_controllers]
    for endpoint in of_controllers:
        await _listen(servers[endpoint], endpoint)
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, shell.stop)
    # What is alive now lives as long as the process: the collector need not look at it again,
    # nor even once: next to nothing of it is garbage.
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS)
    gc.enable()
    shell.start()
    if config.is_broker:
        await _metadata_known(node.broker, shell)
    for endpoint in of_brokers:
        await _listen(servers[endpoint], endpoint)
    log.info(
        "node %d of cluster %s serves %d partitions at %s",
        config.node_id,
        node.log_dirs.cluster_id,
        len(node.broker.hosting.by_name) if config.is_broker else 0,
        ", ".join(f"{e.name}://{e.host}:{e.port}" for e in config.bound_endpoints),
    )
    failure = await shell.stopping
    if failure is not None:
        log.error("stopping: %s", failure)
        return 1
    await _leave(shell)
    for server in servers.values():
        server.close()
    await shell.drain(STOP_SECONDS_MAX)
    shell.close()
    _ignore_signals(loop)
    if not stop_node(node, now()):
        log.warning("stopped; the next start recovers what was not closed cleanly")
        return 1
    log.info("stopped cleanly")
    return 0


async def _leave(shell: Shell) -> None:
    """And say what it takes, if it takes long."""
    told = asyncio.get_running_loop().call_later(
        LEAVE_TOLD_SECONDS,
        log.info,
        "this node waits for others to take over what it leads, for %g s at most; told to stop"
        " again, it does not wait",
        LEAVE_SECONDS_MAX,
    )
    await shell.leave(LEAVE_SECONDS_MAX)
    told.cancel()


def _ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """What is left is done in a moment; with the end of the loop they would be deadly again."""
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


async def _metadata_known(broker: Broker, shell: Shell) -> None:
    """Before that a broker would tell clients that their topics do not exist."""
    pause = START_POLL_SECONDS
    while not (broker.lifecycle.is_adopted or shell.stopping.done()):
        await asyncio.sleep(pause)
        pause = min(pause * 1.1, START_POLL_SECONDS_MAX)


async def _bind(shell: Shell, endpoint: Endpoint, admission: Admission) -> asyncio.Server:
    """Who connects is refused until we listen, but the port is ours."""
    loop = asyncio.get_running_loop()
    listener = shell.listener(endpoint.name)
    try:
        return await loop.create_server(
            lambda: Connection(listener) if admission.has_room() else Refused(),
            endpoint.host or None,
            endpoint.port,
            family=socket.AF_UNSPEC,
            backlog=admission.backlog,
            start_serving=False,
        )
    except OSError as error:
        raise _cannot_listen(endpoint, error) from error


async def _listen(server: asyncio.Server, endpoint: Endpoint) -> None:
    try:
        await server.start_serving()
    except OSError as error:
        raise _cannot_listen(endpoint, error) from error


def _cannot_listen(endpoint: Endpoint, error: OSError) -> CannotLoad:
    address = f"{endpoint.host}:{endpoint.port}"
    return CannotLoad(f"cannot listen on {address}: {error.strerror or error}")


def raise_file_limit() -> None:
    """Every partition has a file or more, every connection one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
