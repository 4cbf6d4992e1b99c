"""Releases of a training's running sums by tree aggregation (DP-FTRL)."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from cloister.privacy.loss import Loss
from cloister.privacy.release import Release

__all__ = ["TreeRelease"]


class TreeRelease(Release):
    """All sums of a training's first 1, 2, ... rounds, by a tree of noisy nodes (DP-FTRL).

    Parameters
    ----------
    sigma
        Standard deviation of each node's noise.
    sensitivity
        How far one contribution can move a round's sum, in Euclidean length.
    n_rounds
        Rounds of the whole training, all paid for at once.
    n_contributions
        How often one unit takes part at most.
    n_rounds_between
        Two contributions of one unit are at least so many rounds apart; 1 if consecutive rounds
        are allowed.

    Examples
    --------
    >>> from cloister.privacy.level import Level
    >>> once = TreeRelease(level="user", sigma=6.0, sensitivity=1, n_rounds=8, n_contributions=1)
    >>> once.losses(Level.USER)[0].noise  # a round lies in four nodes: leaf, pair, four, eight
    3.0
    """

    mechanism: Literal["tree"] = "tree"
    sigma: float = Field(gt=0)
    sensitivity: float = Field(gt=0)
    n_rounds: int = Field(ge=1)
    n_contributions: int = Field(ge=1)
    n_rounds_between: int = Field(default=1, ge=1)

    @property
    def tree_sensitivity(self) -> float:
        """How far one unit can move all nodes together, in Euclidean length.

        The nodes of one height hold apart rounds. One that spans w rounds has at most
        c = ceil(w / n_rounds_between) contributions of one unit, each in the same direction at
        worst; all nodes of the height together have k, so the sum of their squares is at most
        c k. Kairouz et al. 2021 (DP-FTRL), appendix D, with fewer restrictions.
        """
        most = min(self.n_contributions, -(-self.n_rounds // self.n_rounds_between))
        heights = range(self.n_rounds.bit_length())  # nodes that are complete in the end
        squares = sum(most * min(most, -(-(2**h) // self.n_rounds_between)) for h in heights)
        return self.sensitivity * math.sqrt(squares)

    def _losses(self, group_size: int) -> tuple[Loss, ...]:
        return (Loss("gaussian", self.sigma / (self.tree_sensitivity * group_size)),)
