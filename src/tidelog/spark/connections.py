"""Clients kept for a process's life: Spark reuses its Python workers from task to task, and a
micro-batch should not begin with connecting."""

from __future__ import annotations

import threading

from tidelog.client import Client, ClientSettings

CLIENTS_MAX = 8
"""Each for a cluster of brokers with its own settings; beyond it the one unused for longest is
closed."""


class _Kept(threading.local):
    """A client belongs to one thread."""

    def __init__(self) -> None:
        self.clients: dict[ClientSettings, Client] = {}


_kept = _Kept()


def client_for(settings: ClientSettings) -> Client:
    """This process's client with these settings; its connections are open if it was used before.
    After a fork the child's copy opens its own."""
    client = _kept.clients.pop(settings, None)
    if client is None:
        client = Client(settings)
        if len(_kept.clients) >= CLIENTS_MAX:
            oldest = next(iter(_kept.clients))
            _kept.clients.pop(oldest).close()
    _kept.clients[settings] = client
    return client


def discard(settings: ClientSettings) -> None:
    """Close a client whose state is in doubt; the next task gets a new one."""
    client = _kept.clients.pop(settings, None)
    if client is not None:
        client.close()


def close_all() -> None:
    """Close this thread's clients."""
    for settings in list(_kept.clients):
        discard(settings)
