"""Who sent a forwarded request, as an Envelope carries it."""

from __future__ import annotations

from tidelog.wire.declare import Message


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    type: str
    name: str
    token_authenticated: bool
