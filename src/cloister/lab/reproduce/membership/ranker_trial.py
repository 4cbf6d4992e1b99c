"""Membership inference on rankers: trained, unlearned, and retrained without the client.

Federations are drawn from a pool of twice as many people. In each one client, drawn at random, is
to be forgotten. On every ranker the attack scores that client and all people who never were in the
federation. On a ranker that never saw the client its score is one among theirs: the AUC is 0.5,
whatever the statistic. So each ranker is judged by itself, and what differs between ways of
training (length, how far they got) does not count as membership.

Unlearned rankers are attacked with shadows of their own kind too: of federations that the adversary
makes forget somebody, by length and by parameters with length.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.inferred_clicks import Measured
from cloister.adversary.membership import (
    MembershipScores,
    MembershipSuccess,
    auc_difference,
    likelihood_ratio,
    membership_success,
)
from cloister.adversary.membership_rankers import (
    ShadowEffects,
    pairs_in_order,
    preferred_pairs,
    shadow_effects,
)
from cloister.adversary.membership_unlearned import (
    direction_and_length,
    forgotten_effects,
    log_lengths,
)
from cloister.core.random import stream
from cloister.lab.reproduce.membership.federations import Federation, Trainer
from cloister.lab.reproduce.membership.people import People, make_people
from cloister.lab.reproduce.membership.setting import RankerMembershipSettings
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance, silent

__all__ = [
    "PARAMETERS",
    "RETRAINED",
    "TRAINED",
    "UNLEARNED",
    "UNLEARNED_SHADOWS",
    "RankerTrial",
    "measure_rankers",
    "try_rankers",
]

Floats = NDArray[np.float64]

TRAINED: Final = "trained"
RETRAINED: Final = "retrained"
UNLEARNED: Final = "unlearned"
FIT: Final = "fit"
FIT_RATIO: Final = "fit, likelihood ratio"
PARAMETERS: Final = "parameters"
UNLEARNED_SHADOWS: Final = {  # attacks that learn from unlearned rankers, and what they look at
    "length, unlearned shadows": log_lengths,
    "parameters and length, unlearned shadows": direction_and_length,
}


class RankerTrial(NamedTuple):
    """What came out.

    Parameters
    ----------
    successes
        By ranker (``trained``, ``unlearned``, ``short retraining``, ``retrained``), then by attack;
        those of `UNLEARNED_SHADOWS` are on the unlearned one alone.
    above_retrained
        By ranker: AUC of ``parameters`` less that on the retrained ranker.
    below_trained
        By ranker: the same less that on the trained ranker.
    departures
        By the ranker that came after: how often the difference attack names who left; chance is
        one over the clients.
    ndcg
        By ranker, nDCG@10 on queries that are nobody's.
    n_federations
        Attacked.
    """

    successes: dict[str, dict[str, MembershipSuccess]]
    above_retrained: dict[str, Measured]
    below_trained: dict[str, Measured]
    departures: dict[str, Measured]
    ndcg: dict[str, float]
    n_federations: int


def try_rankers(settings: RankerMembershipSettings, advance: Advance | None = None) -> RankerTrial:
    """Carry out one trial.

    Examples
    --------
    >>> trial = try_rankers(RankerMembershipSettings(
    ...     data="world:features?queries=60&documents=15&features=12", clients=3, own_queries=10,
    ...     own_taste=1.0, rounds=60, n_shadows=40, n_attacked=30))
    >>> trial.successes["trained"]["parameters"].auc.value > 0.7
    True
    """
    told = advance or silent
    people = make_people(settings)
    trainer = Trainer(settings, people)
    total = settings.n_shadows + settings.n_attacked
    shadows: list[Federation] = []
    for number in range(settings.n_shadows):
        shadows.append(trainer.shadow(number))
        told(number + 1, total)
    attacked: list[Federation] = []
    for number in range(settings.n_attacked):
        attacked.append(trainer.attacked(number))
        told(settings.n_shadows + number + 1, total)
    return _judged(settings, people, shadows, attacked)


def measure_rankers(settings: StudySettings, advance: Advance | None = None) -> Figures:
    """Return a trial's figures by ranker and attack, as a study keeps them."""
    chosen = RankerMembershipSettings.model_validate(settings.model_dump())
    trial = try_rankers(chosen, advance)
    figures: Figures = {
        f"{ranker}: {attack}": {key: value.value for key, value in found._asdict().items()}
        for ranker, attacks in trial.successes.items()
        for attack, found in attacks.items()
    }
    for ranker, value in trial.ndcg.items():
        figures[ranker] = {"offline_ndcg@10": value}
        if ranker in trial.departures:
            figures[ranker]["departure"] = trial.departures[ranker].value
    return figures


def _judged(
    settings: RankerMembershipSettings,
    people: People,
    shadows: list[Federation],
    attacked: list[Federation],
) -> RankerTrial:
    rng = stream(settings.seed, "membership", "bootstrap")
    made = np.array([one.rankers[TRAINED] for one in shadows])
    effects = shadow_effects(made, np.array([one.members for one in shadows]))
    names = list(attacked[0].rankers)
    rankers = {name: np.array([one.rankers[name] for one in attacked]) for name in names}
    scores = {
        name: _scored(people, shadows, attacked, made, effects, rankers[name]) for name in names
    }
    if UNLEARNED in names:
        scores[UNLEARNED] |= _scored_by_unlearned(shadows, attacked, rankers[UNLEARNED])
    successes = {
        name: {attack: membership_success(found, rng=rng) for attack, found in by_attack.items()}
        for name, by_attack in scores.items()
    }
    between = {
        other: {
            name: auc_difference(scores[name][PARAMETERS], scores[other][PARAMETERS], rng=rng)
            for name in names
            if name != other and other in names
        }
        for other in (RETRAINED, TRAINED)
    }
    return RankerTrial(
        successes,
        between[RETRAINED],
        between[TRAINED],
        {
            name: _departures(effects, attacked, rankers[TRAINED], rankers[name])
            for name in names
            if name != TRAINED
        },
        {name: float(np.mean([one.ndcg[name] for one in attacked])) for name in names},
        len(attacked),
    )


def _scored(
    people: People,
    shadows: list[Federation],
    attacked: list[Federation],
    made: Floats,
    effects: ShadowEffects,
    rankers: Floats,
) -> dict[str, MembershipScores]:
    """Score the client in question and all outsiders of each federation, by every attack."""
    fits, shadow_fits = _fits(people, rankers), _fits(people, made)
    members = np.array([one.members for one in shadows])
    by_attack = {
        PARAMETERS: effects.presence(rankers),
        FIT_RATIO: likelihood_ratio(fits, shadow_fits, members),
        FIT: fits,
    }
    return {name: _of_target(values, attacked) for name, values in by_attack.items()}


def _scored_by_unlearned(
    shadows: list[Federation], attacked: list[Federation], rankers: Floats
) -> dict[str, MembershipScores]:
    """Score unlearned rankers by what unlearned shadows show of clients who were forgotten."""
    made = np.array([one.rankers[UNLEARNED] for one in shadows])
    members = np.array([one.members for one in shadows])
    gone = np.array([one.forgotten for one in shadows])
    found = {}
    for name, statistic in UNLEARNED_SHADOWS.items():
        effects = forgotten_effects(statistic(made), members, gone)
        found[name] = _of_target(effects.past_presence(statistic(rankers)), attacked)
    return found


def _of_target(values: Floats, attacked: list[Federation]) -> MembershipScores:
    return MembershipScores(
        np.array([[row[one.forgotten]] for row, one in zip(values, attacked, strict=True)]),
        np.array([row[~one.members] for row, one in zip(values, attacked, strict=True)]),
    )


def _fits(people: People, rankers: Floats) -> Floats:
    """Return how well each ranker orders each one's documents, rankers x people."""
    scores = rankers @ people.views[0].data.features.T.astype(np.float64)
    return np.stack(
        [pairs_in_order(scores, preferred_pairs(view)) for view in people.views], axis=1
    )


def _departures(
    effects: ShadowEffects, attacked: list[Federation], before: Floats, after: Floats
) -> Measured:
    """Return how often the client who left is the one that the difference speaks for most."""
    values = effects.departure(before, after)
    right = [
        int(np.argmax(np.where(one.members, row, -np.inf))) == one.forgotten
        for row, one in zip(values, attacked, strict=True)
    ]
    return _share(sum(right), len(right))


def _share(k: int, n: int) -> Measured:
    """Return a share with Clopper and Pearson's interval."""
    from scipy.special import betaincinv

    low = float(betaincinv(k, n - k + 1, 0.025)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0
    return Measured(k / n, low, high, n)
