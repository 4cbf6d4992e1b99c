"""Poisoning attacks: one file each, found by name.

Attacks are of two kinds. *Data* poisoning changes what some clients hold and how they click
(`poisoned_views`); they then train as everybody does. *Model* poisoning changes what they send
(`make_tampering`). Whoever runs an attack by name calls both, and the one that is not concerned
changes nothing.

Examples
--------
>>> from cloister.adversary.poisoning import ATTACKS, make_tampering
>>> [name for name, attack in ATTACKS.items() if attack.kind == "data"]
['poison-clicks', 'promote-clicks']
>>> make_tampering("on-off:lie", attackers=[0, 1], seed=7).attacks_in(0)
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple

from cloister.adversary.poisoning.alternating import Alternating
from cloister.adversary.poisoning.attack import Knowledge, Known, ModelPoisoning
from cloister.adversary.poisoning.dyn_opt import DynOpt, MinMax, MinSum
from cloister.adversary.poisoning.exposure import Exposure, Promoted, exposure, promoted
from cloister.adversary.poisoning.fang_krum import FangKrum
from cloister.adversary.poisoning.fang_trimmed_mean import FangTrimmedMean
from cloister.adversary.poisoning.little_is_enough import LittleIsEnough, lie_deviation
from cloister.adversary.poisoning.on_off import OnOff
from cloister.adversary.poisoning.opposite_model import OppositeModel
from cloister.adversary.poisoning.poisoned_clicks import with_poisoned_clicks
from cloister.adversary.poisoning.promotion import (
    Promotion,
    SlowPromotion,
    Target,
    highest_in_feature,
    with_promoting_clicks,
)
from cloister.adversary.poisoning.random_walk import RandomWalk
from cloister.core.errors import SettingsError
from cloister.data.partitions import ClientView, Views
from cloister.federate.rules import Rule
from cloister.federate.rules.krum import KrumScored

__all__ = [
    "ATTACKS",
    "Alternating",
    "Attack",
    "DynOpt",
    "Exposure",
    "FangKrum",
    "FangTrimmedMean",
    "Known",
    "Knowledge",
    "LittleIsEnough",
    "MinMax",
    "MinSum",
    "ModelPoisoning",
    "ON_OFF",
    "OnOff",
    "OppositeModel",
    "Promoted",
    "Promotion",
    "RandomWalk",
    "SlowPromotion",
    "Target",
    "exposure",
    "highest_in_feature",
    "lie_deviation",
    "make_tampering",
    "poisoned_views",
    "promoted",
    "with_poisoned_clicks",
    "with_promoting_clicks",
]

ON_OFF: Final = "on-off:"  # before the name of any attack of the model kind


class Asked(NamedTuple):
    """What an attack is made from."""

    attackers: Iterable[int]
    knowledge: Knowledge
    seed: int
    rule: Rule | None
    target: Target | None


class Attack(NamedTuple):
    """An attack of the registry.

    Parameters
    ----------
    kind
        Whether it poisons data or models.
    says
        What attackers do, in one line.
    needs
        Whether it must be told the server's rule, or a target.
    make
        Makes an attack of the model kind.
    """

    kind: Literal["data", "model"]
    says: str
    needs: Literal["nothing", "rule", "target"] = "nothing"
    make: Callable[[Asked], ModelPoisoning] | None = None


def _plain(made: type[ModelPoisoning]) -> Callable[[Asked], ModelPoisoning]:
    return lambda asked: made(attackers=asked.attackers, knowledge=asked.knowledge, seed=asked.seed)


def _fang_krum(asked: Asked) -> ModelPoisoning:
    rule = asked.rule if isinstance(asked.rule, KrumScored) else None
    return FangKrum(
        attackers=asked.attackers, knowledge=asked.knowledge, seed=asked.seed, rule=rule
    )


def _dyn_opt(asked: Asked) -> ModelPoisoning:
    if asked.rule is None:
        raise _lacking("dyn-opt", "rule", "name the rule, or use min-max, which needs none")
    return DynOpt(
        attackers=asked.attackers, knowledge=asked.knowledge, seed=asked.seed, rule=asked.rule
    )


def _promotion(made: type[Promotion | SlowPromotion]) -> Callable[[Asked], ModelPoisoning]:
    def make(asked: Asked) -> ModelPoisoning:
        if asked.target is None:
            raise _lacking(made.name, "target", "say what is promoted")
        return made(
            attackers=asked.attackers,
            knowledge=asked.knowledge,
            seed=asked.seed,
            target=asked.target,
        )

    return make


ATTACKS: Final[dict[str, Attack]] = {
    "poison-clicks": Attack("data", "click on what is irrelevant"),
    "lie": Attack("model", "stay within the spread", make=_plain(LittleIsEnough)),
    "fang-krum": Attack("model", "move back as far as Krum still chooses", make=_fang_krum),
    "fang-trim": Attack("model", "draw beyond the extremes", make=_plain(FangTrimmedMean)),
    "dyn-opt": Attack("model", "move back as far as the rule takes in", "rule", _dyn_opt),
    "min-max": Attack("model", "move back within the largest distance", make=_plain(MinMax)),
    "min-sum": Attack("model", "move back within the largest sum", make=_plain(MinSum)),
    "alternating": Attack("model", "push and pause in turn", make=_plain(Alternating)),
    "random-walk": Attack("model", "push a new way each round", make=_plain(RandomWalk)),
    "opposite": Attack("model", "send the opposite model, doubled", make=_plain(OppositeModel)),
    "promote-clicks": Attack("data", "click on a target alone", "target"),
    "promote-model": Attack("model", "push towards a target", "target", _promotion(Promotion)),
    "promote-slowly": Attack(
        "model", "push towards a target within chance", "target", _promotion(SlowPromotion)
    ),
}


def make_tampering(
    name: str,
    *,
    attackers: Iterable[int],
    knowledge: Knowledge = "partial",
    rule: Rule | None = None,
    seed: int,
    target: Target | None = None,
    on_rounds: int = 50,
    off_rounds: int = 50,
) -> ModelPoisoning | None:
    """Return a new attack on what clients send, or None for an attack on their data.

    Parameters
    ----------
    name
        One of `ATTACKS`; one of the model kind also with `ON_OFF` before it.
    attackers
        Numbers of clients.
    knowledge
        ``partial`` or ``full``.
    rule
        The server's rule, which ``dyn-opt`` is tailored to and ``fang-krum`` reads settings of.
    seed
        Decides what is random.
    target
        What is promoted, for ``promote-model``.
    on_rounds, off_rounds
        Of an on-off attack.
    """
    inner = name.removeprefix(ON_OFF)
    attack = _found(inner)
    if attack.make is None:
        if inner != name:
            raise SettingsError("data are poisoned once and for all", where=name)
        return None
    made = attack.make(Asked(attackers, knowledge, seed, rule, target))
    return made if inner == name else OnOff(made, on_rounds=on_rounds, off_rounds=off_rounds)


def poisoned_views(
    name: str,
    views: Sequence[ClientView],
    attackers: Iterable[int],
    n_grades: int,
    *,
    target: Target | None = None,
) -> Views:
    """Return the clients' views as an attack on data leaves them; unchanged for another attack.

    Parameters
    ----------
    name
        As for `make_tampering`.
    views
        One a client.
    attackers
        Numbers of clients.
    n_grades
        Number of relevance grades of the data's scale.
    target
        What is promoted, for ``promote-clicks``.
    """
    _found(name.removeprefix(ON_OFF))
    if name == "poison-clicks":
        return with_poisoned_clicks(views, attackers, n_grades)
    if name == "promote-clicks":
        if target is None:
            raise _lacking(name, "target", "say what is promoted")
        return with_promoting_clicks(views, attackers, target, n_grades)
    return tuple(views)


def _found(name: str) -> Attack:
    if name not in ATTACKS:
        raise SettingsError(
            f"no attack {name!r}", where="attack", remedy=f"known: {', '.join(ATTACKS)}"
        )
    return ATTACKS[name]


def _lacking(name: str, what: str, remedy: str) -> SettingsError:
    return SettingsError(f"{name} needs a {what}", where=what, remedy=remedy)
