"""What the experiments of thesis chapter 5 have in common (section 5.4), and names of systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cloister.lab.reproduce.figure import Part, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, Ground

__all__ = [
    "BROKEN",
    "CLICKS",
    "DEFENCES",
    "EXPECTED",
    "MOST",
    "N_CLIENTS",
    "PAPER_SETTING",
    "SHARES",
    "attacked",
    "honest",
    "part_of",
    "rounds_of",
    "system",
]

PAPER_SETTING: Final = "10 clients x 5 queries x 10,000 rounds, 10 to 40 % attackers"
N_CLIENTS: Final = 10
N_QUERIES: Final = 5
SHARES: Final = (1, 2, 3, 4)  # attackers of ten
DEFENCES: Final = ("krum", "multi-krum", "trimmed-mean", "median")  # of the thesis
EXPECTED: Final = 2  # attackers that rules expect where nobody attacks; the thesis does not say
MOST: Final = {"bulyan": 2}  # of ten clients: with more attackers there is no outcome at all
BROKEN: Final = 0.02  # of nDCG@10: a loss to speak of
N_REPEATS: Final = 3  # folds, worlds or seeds


def honest(rule: str) -> str:
    """Return the name of a system that nobody attacks."""
    return f"{rule}, nobody attacks"


def attacked(rule: str, attack: str, attackers: int, extra: str = "") -> str:
    """Return the name of a system that some attack.

    Examples
    --------
    >>> attacked("krum", "fang-krum", 2, "partial")
    'krum, fang-krum partial by 2'
    """
    return f"{rule}, {attack}{f' {extra}' if extra else ''} by {attackers}"


def system(
    rule: str, attack: str = "none", attackers: int = 0, extra: str = "", **own: Any
) -> dict[str, Any]:
    """Return a system: a name and settings.

    A rule is told how many attackers there are. Model attacks have full knowledge unless ``own``
    says otherwise.
    """
    settings: dict[str, Any] = {"rule": rule} | own
    if not attackers:
        if rule != "fedavg":
            settings = {"expected_attackers": EXPECTED} | settings
        return {"name": honest(rule) + (f" {extra}" if extra else "")} | settings
    if attack not in ("poison-clicks", "promote-clicks"):
        settings = {"knowledge": "full"} | settings
    name = attacked(rule, attack, attackers, extra)
    return {"name": name, "attack": attack, "attackers": attackers} | settings


def rounds_of(size: Size) -> int:
    """Return how long the thesis's figures are trained."""
    return size.of(quick=1_000, full=10_000)


def part_of(
    ground: Ground,
    systems: Sequence[dict[str, Any]],
    *,
    rounds: int,
    repeats: int = N_REPEATS,
    name: str = "",
    **own: Any,
) -> Part:
    """Return runs of ten clients, unless ``own`` says otherwise, on a collection.

    Repetitions are folds or worlds; seeds, where the collection has one fold only.
    """
    alone = len(ground.folds) == 1 and not ground.worlds
    kept = ground._replace(folds=ground.folds[:repeats], worlds=ground.worlds[:repeats])
    sizes = {"clients": N_CLIENTS, "queries_per_round": N_QUERIES}
    return kept.part(
        systems, rounds=rounds, seeds=repeats if alone else 1, name=name, **(sizes | own)
    )
