"""Settings of a shard."""

from __future__ import annotations

from pydantic import Field

from cloister.core.contention import WAIT_S
from cloister.core.settings import Settings
from cloister.index.merge_policy import MergePolicy

__all__ = ["ShardSettings"]


class ShardSettings(Settings):
    """What does not change answers, only time and memory.

    Parameters
    ----------
    merging
        When segments are merged at a commit.
    buffer_chars
        So many characters of added texts are kept in memory before they become a segment.
    max_views
        How many readers' views are kept.
    view_bytes
        How much memory each view may take for lists of postings.
    wait_s
        How long a writer waits for another one.
    """

    merging: MergePolicy = MergePolicy()
    buffer_chars: int = Field(default=128_000_000, ge=1)
    max_views: int = Field(default=8, ge=1)
    view_bytes: int = Field(default=32_000_000, ge=0)
    wait_s: float = Field(default=WAIT_S, ge=0)
