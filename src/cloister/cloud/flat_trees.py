"""The trees of a forest in flat arrays."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.rank.forest import Forest

__all__ = ["MISSING_SHIFT", "FlatTrees", "flat_trees"]

MISSING_SHIFT: Final = 2  # above are the bits of LightGBM's decision type that say what is missing

Numbers = NDArray[np.int32]
Floats = NDArray[np.float64]


class FlatTrees(NamedTuple):
    """Trees side by side. A child of at least 0 is a node, one below is the leaf -1 - child.

    A node comes before its children. ``kinds`` are LightGBM's decision types: how a node treats
    missing values; 0 where it knows none.
    """

    roots: Numbers
    features: Numbers
    kinds: Numbers
    thresholds: Floats
    left: Numbers
    right: Numbers
    values: Floats


def flat_trees(forest: Forest) -> FlatTrees:
    """Return the trees of a forest, whose text is sound."""
    roots, values = list[int](), list[float]()
    parts: dict[str, list[float]] = {name: [] for name in FlatTrees._fields[1:-1]}
    for block in forest.text.split("\nTree=")[1:]:
        facts = dict(line.partition("=")[::2] for line in block.split("\n"))
        left, right = ([int(word) for word in facts[f"{side}_child"].split()]
                       for side in ("left", "right"))  # fmt: skip
        order = _parents_first(left, right)
        first, first_leaf = len(parts["left"]), len(values)
        places = {node: first + place for place, node in enumerate(order)}
        roots.append(first if order else -1 - first_leaf)
        for name, children in (("left", left), ("right", right)):
            parts[name] += [places.get(children[n], children[n] - first_leaf) for n in order]
        for name, key in (("features", "split_feature"), ("kinds", "decision_type"),
                          ("thresholds", "threshold")):  # fmt: skip
            words = facts[key].split()
            parts[name] += [float(words[node]) for node in order]
        values += [float(word) for word in facts["leaf_value"].split()]
    kinds = np.array(parts["kinds"], np.int32)
    return FlatTrees(
        np.array(roots, np.int32),
        np.array(parts["features"], np.int32),
        np.where(kinds >> MISSING_SHIFT == 0, 0, kinds).astype(np.int32),
        np.array(parts["thresholds"], np.float64),
        np.array(parts["left"], np.int32),
        np.array(parts["right"], np.int32),
        np.array(values, np.float64),
    )


def _parents_first(left: list[int], right: list[int]) -> list[int]:
    order, open_nodes = list[int](), [0] if left else []
    while open_nodes:
        order.append(node := open_nodes.pop())
        open_nodes += [side[node] for side in (left, right) if side[node] >= 0]
    return order
