"""Which names topics may have."""

from __future__ import annotations

import re

from tidelog.controller.decision import Refused
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage

NAME_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
CLUSTER_METADATA_TOPIC = "__cluster_metadata"


def name_complaint(name: str) -> str | None:
    """What is wrong with a topic's name; None if nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    return None


def require_legal_name(name: str) -> None:
    complaint = name_complaint(name)
    if complaint is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {complaint}")


def collision(image: MetadataImage, name: str) -> str | None:
    """A topic whose name differs only in '.' and '_': metrics would mix the two up.

    A name with one of these can only collide with names that agree up to the first of them, so
    not all topics are looked at.
    """
    found = re.search(r"[._]", name)
    if found is None:
        return None
    prefix, normal = name[: found.start()], name.replace(".", "_")
    for other, _ in image.topics.items_from(prefix):
        if not other.startswith(prefix):
            return None
        if other != name and other.replace(".", "_") == normal:
            return other
    return None
