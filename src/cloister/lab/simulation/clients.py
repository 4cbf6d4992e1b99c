"""Clients of a simulation, made from its settings: what each trains on and is measured by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.poisoning import Target, highest_in_feature, poisoned_views
from cloister.core.errors import DataError, SettingsError
from cloister.core.memory import require_memory
from cloister.data.clicks import GRADE_COUNTS, ClickModel, click_model
from cloister.data.letor import LetorSettings
from cloister.data.letor_folder import FoldData, find_letor
from cloister.data.normalise import column_scale, normalise
from cloister.data.partitions import (
    ClientView,
    Views,
    by_click_behaviour,
    by_document_preference,
    by_label,
    distinct_views,
    draw_shared_queries,
    iid,
    iid_disjoint,
    merged_intents,
    mixed_click_behaviour,
    with_quantities,
    with_shared_queries,
)
from cloister.data.ranking_data import RankingData
from cloister.data.source import load_fold
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.intents import IntentData, IntentsWorld, read_intents
from cloister.lab.simulation.settings import SimulationSettings

__all__ = [
    "Clients",
    "make_clients",
    "promotion_target",
    "require_memory_for",
    "tests_on_training_data",
]

INTENT_FOLDS: Final = 5


class Clients(NamedTuple):
    """The two sides of every client, and how those click who have no habit of their own."""

    train: Views
    test: Views
    click_model: ClickModel
    shared: RankingData | None  # queries that the server holds, under data sharing


def require_memory_for(settings: SimulationSettings) -> None:
    """Refuse a run that cannot fit: its clients, their searches of a round, curves and weights."""
    n_searches = (settings.participants or settings.clients) * settings.queries_per_round
    hidden = settings.n_hidden if settings.ranker == "mlp" else 0
    n_bytes = 100 * settings.clients + 8 * n_searches + 48 * settings.rounds + 8 * hidden
    remedy = "ask for fewer clients, queries, rounds or hidden units"
    require_memory(n_bytes, where="simulation", remedy=remedy)


def make_clients(settings: SimulationSettings) -> Clients:
    """Load the data and divide it among the clients.

    Examples
    --------
    >>> settings = SimulationSettings(data="world:features?queries=9&features=5", clients=3)
    >>> clients = make_clients(settings)
    >>> len(clients.train), len(clients.test), clients.click_model.name
    (3, 3, 'perfect')
    """
    require_memory_for(settings)
    if settings.partition.startswith("intents"):
        train, test = _intent_views(settings)
    else:
        train, test = _plain_views(settings)
    grades = max(_n_grades(view) for view in (*distinct_views(train), *distinct_views(test)))
    model = _model(settings.click_model, grades, settings)
    shared = None
    if settings.share_data:
        queries = draw_shared_queries(train[0].data, settings.share_data, seed=settings.seed)
        train = with_shared_queries(train, queries)
        shared = _only(train[0].data, queries)
    if settings.quantities:
        train = with_quantities(train, settings.quantities)
    if settings.attackers:
        train = poisoned_views(
            settings.attack,
            train,
            settings.attacking_clients,
            model.n_grades,
            target=promotion_target(settings, train[0].data),
        )
    return Clients(train, test, model, shared)


def promotion_target(settings: SimulationSettings, data: RankingData) -> Target | None:
    """Return what a run's attackers promote in some data; None where they do not."""
    if not settings.attack.startswith("promote"):
        return None
    return highest_in_feature(data, settings.target_feature)


def tests_on_training_data(settings: SimulationSettings) -> bool:
    """Say whether a run's figures are of the very queries that it trains on."""
    if settings.evaluate_on == "train":
        return True
    plain = not (settings.test or is_world(settings.data) or settings.partition.startswith("int"))
    return plain and find_letor(settings.data).layout == "file"


def _plain_views(settings: SimulationSettings) -> tuple[Views, Views]:
    fold = _load(settings)
    train, test = fold.train, fold.train if settings.evaluate_on == "train" else fold.test
    n = settings.clients
    match settings.partition:
        case "iid":
            views = iid(train, n)
        case "iid-disjoint":
            views = iid_disjoint(train, n, seed=settings.seed)
        case "labels":
            views = by_label(
                train,
                n_labels_per_client=settings.labels_per_client,
                seed=settings.seed,
                n_clients=n,
            )
        case "clicks":
            views = by_click_behaviour(train, _models(settings, train, test), n_clients=n)
        case _:
            views = mixed_click_behaviour(train, _models(settings, train, test), n)
    return views, iid(test, n)


def _load(settings: SimulationSettings) -> FoldData:
    """Load the fold; what comes from elsewhere is scaled as the training part is."""
    if not settings.test:
        return load_fold(settings.data, settings.fold, _reading(settings))
    raw = LetorSettings(null=settings.null)
    fold = load_fold(settings.data, settings.fold, raw)
    width = LetorSettings(null=settings.null, n_features=fold.train.n_features)
    test = load_fold(settings.test, 1, width).test
    return FoldData(*_scaled(settings, fold.train, fold.validation, test))


def _reading(settings: SimulationSettings) -> LetorSettings:
    return LetorSettings(normalise=settings.normalise, null=settings.null)


def _scaled(
    settings: SimulationSettings, train: RankingData, *others: RankingData | None
) -> Iterator[Any]:
    """Normalise all parts; a global scale is that of the training part."""
    method = settings.normalise
    scale = column_scale(train, method) if method.startswith("global") else None
    for part in (train, *others):
        yield None if part is None else normalise(part, method, scale=scale)


def _models(settings: SimulationSettings, *parts: RankingData) -> list[ClickModel]:
    grades = max(part.n_grades for part in parts)
    return [_model(name, grades, settings) for name in settings.click_models]


def _model(name: str, grades: int, settings: SimulationSettings) -> ClickModel:
    """Return a click model of the smallest scale that holds all grades."""
    scale = next((n for n in GRADE_COUNTS if n >= grades), grades)
    return click_model(name, scale, stop=settings.stop)


def _intent_views(settings: SimulationSettings) -> tuple[Views, Views]:
    train, test = (_chosen(part, settings.intents) for part in _load_intents(settings))
    if settings.evaluate_on == "train":
        test = train
    n = settings.clients
    if settings.partition == "intents":
        return _by_intent(train, n), _by_intent(test, n)
    if settings.partition == "intents-merged":
        return (
            merged_intents(train.data, train.intent_labels, n),
            merged_intents(test.data, test.intent_labels, n),
        )
    return _shuffled(train, settings), _shuffled(test, settings)


def _chosen(intents: IntentData, columns: Sequence[int]) -> IntentData:
    """Keep some intents; all where none are named."""
    if not columns:
        return intents
    if max(columns) >= intents.n_intents or min(columns) < 0:
        raise SettingsError(f"there are intents 0 to {intents.n_intents - 1}", where="intents")
    return replace(intents, intent_labels=intents.intent_labels[:, list(columns)])


def _shuffled(intents: IntentData, settings: SimulationSettings) -> Views:
    return by_document_preference(
        intents.data, intents.intent_labels, seed=settings.seed, n_clients=settings.clients
    )


def _by_intent(intents: IntentData, n_clients: int) -> Views:
    """Give client c the intent c modulo their number, for every query."""
    columns = [np.ascontiguousarray(column) for column in intents.intent_labels.T]
    views = [ClientView(intents.data, labels=labels) for labels in columns]
    return tuple(views[client % len(views)] for client in range(n_clients))


def _load_intents(settings: SimulationSettings) -> tuple[IntentData, IntentData]:
    """Return training and test queries, the latter every fifth fold's."""
    if is_world(settings.data):
        world = open_world(settings.data)
        if not isinstance(world, IntentsWorld):
            raise SettingsError("this world has no intents", where=settings.data)
        return world.data("train"), world.data("test")
    everything = read_intents(Path(settings.data), LetorSettings(null=settings.null))
    n = everything.data.n_queries
    if n < INTENT_FOLDS:
        raise DataError(f"{n} queries do not make {INTENT_FOLDS} folds", where=settings.data)
    if not 1 <= settings.fold <= INTENT_FOLDS:
        raise SettingsError(f"there are folds 1 to {INTENT_FOLDS}", where="fold")
    fold_of_query = np.arange(n) * INTENT_FOLDS // n
    held_out = fold_of_query == settings.fold - 1
    train, test = _queries_of(everything, ~held_out), _queries_of(everything, held_out)
    scaled = _scaled(settings, train.data, test.data)
    return replace(train, data=next(scaled)), replace(test, data=next(scaled))


def _queries_of(intents: IntentData, kept: NDArray[Any]) -> IntentData:
    rows = np.repeat(kept, intents.data.lengths)
    return IntentData(_only(intents.data, np.flatnonzero(kept)), intents.intent_labels[rows])


def _only(data: RankingData, queries: NDArray[Any]) -> RankingData:
    """Return a copy of some queries."""
    rows = np.concatenate(
        [np.arange(data.offsets[query], data.offsets[query + 1]) for query in queries]
    )
    lengths = data.lengths[queries]
    return RankingData(
        data.features[rows], data.labels[rows], np.concatenate(([0], np.cumsum(lengths)))
    )


def _n_grades(view: ClientView) -> int:
    if view.labels is None:
        return view.data.n_grades
    return int(view.labels.max(initial=0)) + 1
