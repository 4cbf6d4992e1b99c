"""Membership inference on updates: one trial, all attacks and baselines on the same sums."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_pages import PAGE_LENGTH, Searches, long_queries, search
from cloister.adversary.click_protections import seen_in_sums
from cloister.adversary.membership import MembershipScores, MembershipSuccess, membership_success
from cloister.adversary.membership_updates import (
    Lesson,
    alignment,
    background_lesson,
    expected_lesson,
    log_density,
    rounding_variance,
    standardised,
    with_query,
    without_query,
)
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.letor import LetorSettings
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.lab.reproduce.click_inference.scene import Scene, make_scene, noise_sigma
from cloister.lab.reproduce.membership.setting import UpdateMembershipSettings
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance, silent

__all__ = ["LENGTH", "LIKELIHOOD", "UpdateTrial", "measure_updates", "try_updates"]

Floats = NDArray[np.float64]

CALIBRATED: Final = "likelihood ratio, standardised"
LIKELIHOOD: Final = "likelihood ratio"
ALIGNMENT: Final = "alignment"
LENGTH: Final = "length of the update"
RANDOM: Final = "random"
MOST_TRIES: Final = 50  # times the clients wanted that are drawn, until enough have clicked
N_SHADOW_SUMS: Final = 200
STAGES: Final = 4


class UpdateTrial(NamedTuple):
    """What came out.

    Parameters
    ----------
    successes
        By attack or baseline.
    n_targets
        Each in one sum that it is in, and in one that it is not.
    n_queries
        By which targets are resampled for intervals: those with the same (first) query together.
    sigma
        Of the noise in each coordinate of a sum.
    """

    successes: dict[str, MembershipSuccess]
    n_targets: int
    n_queries: int
    sigma: float


class _Observed(NamedTuple):
    """Sums with each target and without, targets x parameters, and the queries asked about."""

    present: Floats
    absent: Floats
    known: NDArray[np.int64]


class _Shadows(NamedTuple):
    """Updates of the adversary's own, as clients send them, and what clipping leaves on average."""

    updates: Floats
    left: float


def try_updates(settings: UpdateMembershipSettings, advance: Advance | None = None) -> UpdateTrial:
    """Carry out one trial.

    Examples
    --------
    >>> trial = try_updates(UpdateMembershipSettings(
    ...     data="world:features?queries=60&documents=15&features=20", train_clients=20,
    ...     train_rounds=5, observations=60, n_shadows=200))
    >>> trial.successes["likelihood ratio"].auc.value > 0.9 > trial.successes["random"].auc.value
    True
    """
    told = advance or silent
    scene = make_scene(settings.scene)
    told(1, STAGES)
    sigma = noise_sigma(settings.scene) if settings.noise else 0.0
    observed = _observed(scene, settings, sigma)
    told(2, STAGES)
    shadows = _shadows(scene, settings)
    told(3, STAGES)
    scores = _scores(scene, settings, observed, shadows, sigma)
    rng = stream(settings.seed, "membership", "bootstrap")
    queries = observed.known[:, 0]
    successes = {
        name: membership_success(found, rng=rng, clusters=queries) for name, found in scores.items()
    }
    told(4, STAGES)
    return UpdateTrial(successes, len(queries), len(np.unique(queries)), sigma)


def measure_updates(settings: StudySettings, advance: Advance | None = None) -> Figures:
    """Return a trial's figures by attack, as a study keeps them."""
    chosen = UpdateMembershipSettings.model_validate(settings.model_dump())
    trial = try_updates(chosen, advance)
    return {
        name: {key: value.value for key, value in found._asdict().items()}
        for name, found in trial.successes.items()
    }


def _observed(scene: Scene, settings: UpdateMembershipSettings, sigma: float) -> _Observed:
    """Draw the others of each sum among all clients who do not have the query in question."""
    n = settings.observations
    clients = _clicking(scene, settings, scene.data, max(2 * n, 4 * settings.clients), "clients")
    rng = stream(settings.seed, "membership", "sums")
    updates = _clipped(clients, settings)
    present, absent = np.empty((2, n, updates.shape[1]))
    known = clients.queries[:, : _n_known(settings)]
    for i in range(n):
        elsewhere = np.flatnonzero(~np.isin(clients.queries, known[i]).any(axis=1))
        if len(elsewhere) < settings.clients + 1:
            raise DataError(
                "too few clients without the query",
                where=settings.data,
                remedy="use data with more queries",
            )
        others = rng.choice(elsewhere, settings.clients + 1, replace=False)
        rest = updates[others[2:]].sum(axis=0)
        present[i], absent[i] = rest + updates[i], rest + updates[others[0]]
    if sigma > 0:
        present += rng.normal(0.0, sigma, present.shape)
        absent += rng.normal(0.0, sigma, absent.shape)
    return _Observed(present, absent, known[:n])


def _clipped(clients: Searches, settings: UpdateMembershipSettings) -> Floats:
    """Return what each client sends."""
    return seen_in_sums(clients.updates, 1, clip_norm=_clip_norm(settings)).updates


def _clip_norm(settings: UpdateMembershipSettings) -> float:
    """Return the longest update that a client sends; 0 for any."""
    return settings.clip_norm if settings.noise else 0.0


def _n_known(settings: UpdateMembershipSettings) -> int:
    """Return how many of a client's queries the adversary asks about."""
    return 1 if settings.target == "query" else settings.queries_per_update


def _shadows(scene: Scene, settings: UpdateMembershipSettings) -> _Shadows:
    """Return updates of clients that the adversary plays itself, on the training queries."""
    reading = LetorSettings(normalise=settings.normalise, null="zero")
    train = load_fold(settings.data, settings.fold, reading).train
    n = max(settings.n_shadows, 2 * settings.clients)
    played = _clicking(scene, settings, train, n, "shadows")
    sent = _clipped(played, settings)
    whole, kept = (np.linalg.norm(updates, axis=1) for updates in (played.updates, sent))
    left = np.divide(kept, whole, out=np.ones_like(whole), where=whole > 0)
    return _Shadows(sent, float(left.mean()))


def _clicking(
    scene: Scene, settings: UpdateMembershipSettings, data: RankingData, wanted: int, who: str
) -> Searches:
    """Let clients search until so many have clicked on each of their pages."""
    long, rng = long_queries(data), stream(settings.seed, "membership", "queries", who)
    if not len(long):
        raise DataError(f"no query has {PAGE_LENGTH} candidates", where=settings.data)
    parts: list[Searches] = []
    n_found = n_tried = 0
    while n_found < wanted:
        if n_tried > MOST_TRIES * wanted:
            raise DataError(
                f"of {n_tried} clients only {n_found} clicked on all their pages",
                where=f"click model {settings.click_model}",
                remedy="ask for fewer queries an update, or another click model",
            )
        n = max(64, wanted - n_found)
        found = search(
            scene.ranker,
            data,
            long[rng.integers(len(long), size=(n, settings.queries_per_update))],
            scene.click_model,
            settings=scene.pdgd,
            drawn_pages=True,
            seed=int(rng.integers(2**62)),
        ).with_clicks()
        parts.append(found)
        n_found, n_tried = n_found + found.n_clients, n_tried + n
    return Searches(*(np.concatenate(part)[:wanted] for part in zip(*parts, strict=True)))


def _scores(
    scene: Scene,
    settings: UpdateMembershipSettings,
    observed: _Observed,
    shadows: _Shadows,
    sigma: float,
) -> dict[str, MembershipScores]:
    """Score every target on the sum with it and on the one without."""
    n, background = settings.clients, background_lesson(shadows.updates)
    rounding = settings.queries_per_update * rounding_variance(scene.ranker)
    absent = without_query(background, n_clients=n, sigma=sigma, rounding=rounding)
    rng = stream(settings.seed, "membership", "attack")
    sums = _shadow_sums(shadows.updates, n, sigma, rng)
    share = _n_known(settings) / settings.queries_per_update
    both = np.stack([observed.present, observed.absent], axis=1)
    of_both = log_density(both.reshape(-1, both.shape[2]), absent).reshape(both.shape[:2])
    of_sums = log_density(sums, absent)
    found: dict[str, list[Floats]] = {LIKELIHOOD: [], CALIBRATED: [], ALIGNMENT: []}
    for i, lesson in enumerate(_lessons(scene, settings, observed.known, shadows.left)):
        present = with_query(absent, background, lesson, share=share)
        densities = log_density(np.concatenate([both[i], sums]), present)
        ratio = densities[:2] - of_both[i]
        found[LIKELIHOOD].append(ratio)
        found[CALIBRATED].append(standardised(ratio, densities[2:] - of_sums))
        found[ALIGNMENT].append(alignment(both[i], absent.mean, lesson.mean))
    scores = {name: np.array(values) for name, values in found.items()}
    scores |= {LENGTH: np.linalg.norm(both, axis=2), RANDOM: rng.random(both.shape[:2])}
    return {name: MembershipScores(v[:, :1], v[:, 1:]) for name, v in scores.items()}


def _shadow_sums(shadows: Floats, n: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Return sums of the adversary's own updates, as they would be seen."""
    drawn = [rng.choice(len(shadows), n, replace=False) for _ in range(N_SHADOW_SUMS)]
    sums = np.array([shadows[chosen].sum(axis=0) for chosen in drawn])
    return sums + rng.normal(0.0, sigma, sums.shape)


def _lessons(
    scene: Scene, settings: UpdateMembershipSettings, known: NDArray[np.int64], left: float
) -> list[Lesson]:
    """Return what the known queries of each target would teach; each query is thought of once.

    Where updates of several queries are clipped, ``left`` of each lesson is expected to be left.
    """
    one = settings.queries_per_update == 1
    of_query = {
        query: expected_lesson(
            scene.ranker,
            scene.data.features[scene.data.rows(query)],
            scene.grades,
            scene.click_model,
            scene.pdgd,
            rng=stream(settings.seed, "membership", "lesson", query),
            clip_norm=_clip_norm(settings) if one else 0.0,
        )
        for query in np.unique(known).tolist()
    }
    lessons = []
    for queries in known.tolist():
        whole = of_query[queries[0]]
        for query in queries[1:]:
            whole = whole.plus(of_query[query])
        lessons.append(whole if one else whole.shortened(left))
    return lessons
