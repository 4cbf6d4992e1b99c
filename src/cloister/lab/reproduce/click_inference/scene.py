"""The scene of a trial: a trained ranker, clients who search, and what the server sees."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from cloister.adversary.click_grades import GradeModel, fit_grades
from cloister.adversary.click_pages import PAGE_LENGTH, Searches, long_queries, search, show_page
from cloister.adversary.click_protections import (
    Seen,
    seen_alone,
    seen_in_sums,
    seen_under_paper_noise,
)
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.clicks import GRADE_COUNTS, ClickModel, click_model
from cloister.data.letor import LetorSettings
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.federate.paper_laplace import PaperLaplaceNoise
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
from cloister.lab.simulation.run import simulate
from cloister.lab.simulation.settings import SimulationSettings
from cloister.privacy.calibration import planned_noise
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import Ranker

__all__ = ["Scene", "make_scene", "noise_sigma", "observe"]

MOST_TRIES: Final = 50  # times the clients wanted that are drawn, until enough have clicked


class Scene(NamedTuple):
    """What is there before any client searches.

    Parameters
    ----------
    ranker
        The global ranker.
    data
        The attacked queries.
    click_model
        How clients click; the server knows it.
    grades
        How relevant documents are by their scores, fitted on the training queries.
    pdgd
        What a page teaches.
    """

    ranker: Ranker
    data: RankingData
    click_model: ClickModel
    grades: GradeModel
    pdgd: PdgdSettings


def make_scene(settings: ClickInferenceSettings) -> Scene:
    """Train the global ranker with perfect clicks, and learn how scores tell relevance."""
    reading = LetorSettings(normalise=settings.normalise, null="zero")
    fold = load_fold(settings.data, settings.fold, reading)
    data = fold.test if fold.validation is None else fold.validation
    n_grades = max(fold.train.n_grades, data.n_grades)
    n_grades = next((n for n in GRADE_COUNTS if n >= n_grades), n_grades)
    ranker = _trained(_training(settings).canonical())
    return Scene(
        ranker,
        data,
        click_model(settings.click_model, n_grades),
        _fitted(ranker, fold.train, n_grades),
        PdgdSettings(negatives=settings.negatives),
    )


def _training(settings: ClickInferenceSettings) -> SimulationSettings:
    noise = settings.train_noise and settings.ranker == "linear"
    return SimulationSettings(
        data=settings.data,
        fold=settings.fold,
        seed=settings.seed,
        normalise=settings.normalise,
        ranker=settings.ranker,
        hidden=settings.hidden,
        negatives=settings.negatives,
        clients=settings.train_clients,
        queries_per_round=settings.train_queries,
        rounds=settings.train_rounds,
        evaluate_every=settings.train_rounds,
        paper_epsilon=settings.paper_epsilon if noise else None,
        paper_sensitivity=settings.paper_sensitivity,
        paper_clip="whole",
    )


@lru_cache(maxsize=128)
def _trained(settings: str) -> Ranker:
    """Train once for all trials of a process that share a ranker."""
    learner = simulate(SimulationSettings.model_validate_json(settings)).learner
    return learner.client_rankers().rankers[0]


def _fitted(ranker: Ranker, train: RankingData, n_grades: int) -> GradeModel:
    queries = long_queries(train)
    if not len(queries):
        raise DataError(f"no query has {PAGE_LENGTH} candidates", where="training data")
    scores = ranker.score(train.features)
    pages = [train.rows(q).start + show_page(scores[train.rows(q)], PAGE_LENGTH) for q in queries]
    rows = np.array(pages)
    return fit_grades(scores[rows].astype(np.float64), train.labels[rows], n_grades)


def observe(scene: Scene, settings: ClickInferenceSettings) -> tuple[Searches, Seen]:
    """Let clients search, and show the server what the protection lets through."""
    queries = long_queries(scene.data)
    if not len(queries):
        raise DataError(f"no query has {PAGE_LENGTH} candidates", where=settings.data)
    if settings.observations or not settings.one_page:
        wanted = settings.clients * (settings.observations or len(queries))
        searches = _enough(scene, settings, wanted)
    else:
        searches = _searched(scene, settings, queries[:, None], 0)
    if not searches.n_clients:
        raise DataError("no client clicked", where=settings.data)
    return searches, _seen(scene, settings, searches)


def _searched(
    scene: Scene, settings: ClickInferenceSettings, queries: np.ndarray, attempt: int
) -> Searches:
    """Return the searches of those who clicked; others have nothing to hide."""
    seed = int(stream(settings.seed, "click inference", attempt).integers(2**63))
    found = search(
        scene.ranker,
        scene.data,
        queries,
        scene.click_model,
        settings=scene.pdgd,
        drawn_pages=settings.order != "known",
        seed=seed,
    )
    return found.with_clicks()


def _enough(scene: Scene, settings: ClickInferenceSettings, wanted: int) -> Searches:
    """Draw queries at random until so many clients have clicked on all their pages."""
    queries, rng = long_queries(scene.data), stream(settings.seed, "queries of clients")
    parts: list[Searches] = []
    n_found, n_tried = 0, 0
    while n_found < wanted:
        if n_tried > MOST_TRIES * wanted:
            raise DataError(
                f"of {n_tried} clients only {n_found} clicked on all their pages",
                where=f"click model {settings.click_model}",
                remedy="ask for fewer queries an update, or another click model",
            )
        n = max(32, wanted - n_found)
        drawn = queries[rng.integers(len(queries), size=(n, settings.queries_per_update))]
        parts.append(_searched(scene, settings, drawn, len(parts) + 1))
        n_found, n_tried = n_found + parts[-1].n_clients, n_tried + n
    joined = (np.concatenate(values)[:wanted] for values in zip(*parts, strict=True))
    return Searches(*joined)


def noise_sigma(settings: ClickInferenceSettings) -> float:
    """Return the noise of private FPDGD: for a sum, over all rounds of its training."""
    planned = planned_noise(
        settings.epsilon,
        settings.delta,
        n_rounds=settings.rounds,
        sampling_rate=settings.clients / settings.population,
    )
    return planned.multiplier * settings.clip_norm


def _seen(scene: Scene, settings: ClickInferenceSettings, searches: Searches) -> Seen:
    rng = stream(settings.seed, "click inference", "noise")
    match settings.protection:
        case "none":
            return seen_alone(searches.updates)
        case "paper":
            noise = PaperLaplaceNoise(
                epsilon=settings.paper_epsilon,
                sensitivity=settings.paper_sensitivity,
                clip="whole",
            )
            return seen_under_paper_noise(
                searches.updates,
                scene.ranker.parameters.astype(np.float64),
                noise,
                n_clients=settings.paper_clients,
                rng=rng,
            )
        case "sum":
            return seen_in_sums(searches.updates, settings.clients)
        case _:
            return seen_in_sums(
                searches.updates,
                settings.clients,
                clip_norm=settings.clip_norm,
                sigma=noise_sigma(settings),
                rng=rng,
            )
