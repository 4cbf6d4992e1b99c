"""LightGBM's model text, read and written anew before LightGBM reads it.

LightGBM trusts what it reads: a child that does not exist, or one that leads back, makes it read
foreign memory or never end. And it writes more than a prediction needs: how many training rows
reached each node, the range of each feature, all settings. So a model text is parsed here, checked,
and written again with what a prediction needs and no more: numerical splits and values of leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from cloister.core.errors import DataError

__all__ = ["sound_trees"]

_HEADER: Final = {
    "version": "v4",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": "0",
}
_NUMERICAL: Final = {0, 2, 4, 6, 8, 10}  # decision types without the bit that says categories


class _Tree(NamedTuple):
    """One tree: node i is i, leaf i is -1 - i."""

    features: list[int]
    thresholds: list[float]
    kinds: list[int]
    left: list[int]
    right: list[int]
    values: list[float]


def sound_trees(text: str, n_features: int) -> str:
    r"""Return a model text with the same predictions and nothing else, or refuse it.

    Raises
    ------
    DataError
        If the trees do not fit together, are of a kind that this package does not grow, or ask
        for other features.

    Examples
    --------
    >>> sound_trees("tree\nversion=v4", 3)
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: Forest: not LightGBM's text: no end of the trees; ...
    """
    trees, end, _ = text.partition("\nend of trees\n")
    if not end:
        raise _refused("no end of the trees")
    header, *blocks = trees.split("\nTree=")
    facts = _facts(header, "the header")
    if any(facts.get(name) != value for name, value in _HEADER.items()):
        raise _refused("the header is another one")
    if "average_output" in facts or facts.get("objective", "").split()[:1] != ["lambdarank"]:
        raise _refused("the trees are not those of LambdaMART")
    if facts.get("max_feature_idx") != str(n_features - 1) or n_features < 1:
        raise _refused(f"not of {n_features} features")
    if not blocks:
        raise _refused("no trees")
    written = [_written(_read(block, number, n_features), number)
               for number, block in enumerate(blocks)]  # fmt: skip
    return "\n".join([_header(n_features), *written, "end of trees\n"])


def _read(block: str, number: int, n_features: int) -> _Tree:
    name = f"tree {number}"
    told, _, lines = block.partition("\n")
    facts = _facts(lines, name)
    if told != str(number) or facts.get("num_cat") != "0" or facts.get("is_linear") != "0":
        raise _refused(f"{name} is missing or of another kind")
    try:
        tree = _Tree(
            _integers(facts, "split_feature"),
            [float(word) for word in facts.get("threshold", "").split()],
            _integers(facts, "decision_type"),
            _integers(facts, "left_child"),
            _integers(facts, "right_child"),
            [float(word) for word in facts["leaf_value"].split()],
        )
        n_leaves = int(facts["num_leaves"])
    except (KeyError, ValueError):
        raise _refused(f"{name} cannot be read") from None
    if n_leaves < 1 or [len(part) for part in tree] != [n_leaves - 1] * 5 + [n_leaves]:
        raise _refused(f"{name} has lists of the wrong length")
    if not all(map(math.isfinite, tree.values)) or any(map(math.isnan, tree.thresholds)):
        raise _refused(f"{name} has a number that is none")
    if not set(tree.kinds) <= _NUMERICAL or not all(0 <= f < n_features for f in tree.features):
        raise _refused(f"{name} has a split of another kind")
    if not _hangs_together(tree):
        raise _refused(f"the nodes of {name} do not make a tree")
    return tree


def _hangs_together(tree: _Tree) -> bool:
    """Say whether every node and leaf is reached from the root, and by one way."""
    n_nodes, n_leaves = len(tree.left), len(tree.values)
    open_nodes, seen = ([0] if n_nodes else [-1]), set[int]()
    while open_nodes:
        node = open_nodes.pop()
        if node in seen or not -n_leaves <= node < n_nodes:
            return False
        seen.add(node)
        if node >= 0:
            open_nodes += [tree.left[node], tree.right[node]]
    return len(seen) == n_nodes + n_leaves


def _header(n_features: int) -> str:
    lines = ["tree", *(f"{name}={value}" for name, value in _HEADER.items())]
    lines += [f"max_feature_idx={n_features - 1}", "objective=lambdarank"]
    lines.append("feature_names=" + " ".join(f"Column_{f}" for f in range(n_features)))
    lines.append("feature_infos=" + " ".join(["[0:1]"] * n_features))
    return "\n".join([*lines, ""])


def _written(tree: _Tree, number: int) -> str:
    lists: dict[str, Sequence[float]] = {
        "split_feature": tree.features,
        "threshold": tree.thresholds,
        "decision_type": tree.kinds,
        "left_child": tree.left,
        "right_child": tree.right,
        "leaf_value": tree.values,
    }
    lines = [f"Tree={number}", f"num_leaves={len(tree.values)}", "num_cat=0"]
    lines += [f"{name}={' '.join(map(repr, values))}" for name, values in lists.items()]
    return "\n".join([*lines, "is_linear=0", "shrinkage=1", "", ""])


def _integers(facts: dict[str, str], name: str) -> list[int]:
    return [int(word) for word in facts.get(name, "").split()]


def _facts(lines: str, name: str) -> dict[str, str]:
    facts: dict[str, str] = {}
    for line in filter(None, lines.split("\n")):
        key, _, value = line.partition("=")
        if key in facts:
            raise _refused(f"{name} says {key} twice")
        facts[key] = value
    return facts


def _refused(why: str) -> DataError:
    return DataError(f"not LightGBM's text: {why}", where="Forest")
