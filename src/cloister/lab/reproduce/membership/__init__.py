"""Membership inference on updates and on rankers that were to forget; no paper has it for FOLTR."""

from __future__ import annotations

from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.membership.ranker_figure import rankers
from cloister.lab.reproduce.membership.update_figure import updates

__all__ = ["figures"]


def figures(size: Size, collections: Collections) -> list[Figure]:
    """Return what updates reveal, then what rankers do before and after forgetting."""
    return [updates(size, collections), rankers(size)]
