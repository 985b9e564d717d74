"""The cluster's features: what this version supports, and what a new cluster starts with."""

from __future__ import annotations

from typing import NamedTuple


class SupportedFeature(NamedTuple):
    """The levels that this version understands, both ends included."""

    level_min: int
    level_max: int
    level_default: int
    """Of a new cluster."""


METADATA_VERSION = "metadata.version"
METADATA_RELEASE = "4.3-IV0"
"""What people call the level that a new cluster starts with."""
ELR_VERSION = "eligible.leader.replicas.version"
KRAFT_VERSION = "kraft.version"

FEATURES: dict[str, SupportedFeature] = {
    METADATA_VERSION: SupportedFeature(7, 30, 30),
    ELR_VERSION: SupportedFeature(0, 1, 1),
    "group.version": SupportedFeature(0, 1, 1),
    # Lives in a control record of the log, never in a FeatureLevelRecord.
    KRAFT_VERSION: SupportedFeature(0, 1, 0),
    "share.version": SupportedFeature(0, 1, 1),
    "streams.version": SupportedFeature(0, 1, 1),
    "transaction.version": SupportedFeature(0, 2, 2),
}
