"""The benchmark of a malicious site, at a small size."""

from __future__ import annotations

from typing import Any

import pytest

from cloister.lab.bench.malicious_site import run


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return run(lambda done, total: None, rounds=6, strategies=["out of range", "under the bound"])


@pytest.mark.parametrize("way", ["noise", "no noise"])
def test_no_strategy_moves_the_ranker_farther_than_is_stated(
    figures: dict[str, Any], way: str
) -> None:
    most = figures[f"{way}: largest_step"]
    wild, sly = (f"{way}, {name}: " for name in ("out of range", "under the bound"))
    assert figures[f"{wild}farthest_step"] < 0.5 * most < figures[f"{sly}farthest_step"] <= most
    assert (figures[f"{wild}rounds_counted"], figures[f"{wild}sums_spoilt"]) == (3, 3)
    assert figures[f"{sly}sums_spoilt"] == 0  # what it can still do
    assert figures[f"{wild}honest_named"] == figures[f"{sly}honest_named"] == 0
