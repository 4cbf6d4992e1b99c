"""The made-up world in which the console's simulations search."""

from __future__ import annotations

from typing import Final

__all__ = ["lab_world"]

WORLD: Final = "world:features?queries=400&documents=40&features=46"


def lab_world(seed: int) -> str:
    """Return the address of the world of a seed."""
    return f"{WORLD}&seed={seed}"
