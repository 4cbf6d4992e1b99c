"""Which segments are merged, and when: tiers of like size.

Each commit that adds documents makes a segment, and a query visits all of them. Segments of like
size are merged when there are enough of them, so that a document is written about once for each
tier that its segment rises, and there are few segments at any time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from cloister.core.settings import Settings

__all__ = ["MergePolicy", "SegmentSize"]


class SegmentSize(NamedTuple):
    """How large a segment is, and how much of it is no longer live."""

    n_bytes: int
    dead_share: float

    @property
    def n_live_bytes(self) -> float:
        """About how large it would be without what is dead."""
        return self.n_bytes * (1 - self.dead_share)


class MergePolicy(Settings):
    """When segments are merged at a commit.

    Parameters
    ----------
    kind
        ``tiered``, or ``never``: only when asked.
    per_tier
        So many segments of like size are merged into one. A tier is so many times larger than the
        one below.
    smallest_bytes
        Segments up to this size are one tier.
    largest_bytes
        Segments beyond this size are left alone, and none is made that would be larger.
    dead_share
        A segment of which more than this share is dead is written anew without it.

    Examples
    --------
    >>> policy = MergePolicy(per_tier=2)
    >>> policy.due([SegmentSize(9_000_000, 0.0), SegmentSize(10, 0.0), SegmentSize(20, 0.0)])
    [1, 2]
    >>> policy.due([SegmentSize(9_000_000, 0.0), SegmentSize(30, 0.0)])
    []
    """

    kind: Literal["tiered", "never"] = "tiered"
    per_tier: int = Field(default=8, ge=2)
    smallest_bytes: int = Field(default=1_000_000, ge=1)
    largest_bytes: int = Field(default=2_000_000_000, ge=1)
    dead_share: float = Field(default=0.5, gt=0, lt=1)

    def due(self, sizes: Sequence[SegmentSize]) -> list[int]:
        """Return the places of segments that are to be merged next; none if nothing is due."""
        if self.kind == "never":
            return []
        for place, size in enumerate(sizes):
            if size.dead_share > self.dead_share:
                return [place]
        tiers: defaultdict[int, list[int]] = defaultdict(list)
        for place, size in enumerate(sizes):
            if size.n_live_bytes <= self.largest_bytes / self.per_tier:
                tiers[self._tier(size)].append(place)
        full = [tier for tier, places in tiers.items() if len(places) >= self.per_tier]
        return tiers[min(full)][: self.per_tier] if full else []

    def _tier(self, size: SegmentSize) -> int:
        if size.n_live_bytes <= self.smallest_bytes:
            return 0
        return 1 + int(math.log(size.n_live_bytes / self.smallest_bytes, self.per_tier))
