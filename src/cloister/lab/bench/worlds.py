"""What the synthetic worlds are like: who can rank them, and how their words are distributed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.random import stream
from cloister.data.ranking_data import RankingData
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.data.worlds.intents import IntentsWorld
from cloister.lab.bench import Advance, Figures
from cloister.measure.mean import mean
from cloister.measure.named import evaluate

__all__ = ["run"]

N_RECORDS: Final = 10_000
_WORD: Final = re.compile("[a-z]+")


def run(advance: Advance) -> Figures:
    """Fit simple models to features and intents; count the words of 10,000 clinic records."""
    figures = _features()
    advance(1, 3)
    figures |= _intents()
    advance(2, 3)
    figures |= _clinic()
    advance(3, 3)
    return figures


def _ndcg(scores: NDArray[Any], data: RankingData) -> float:
    return mean(evaluate(scores, data, ["nDCG@10"])["nDCG@10"])


def _features() -> Figures:
    world = FeaturesWorld()
    test = world.data("test")
    chance = stream(1, "bench worlds").random(test.n_rows)
    linear, mlp = _fit_both(world)
    bent_linear, bent_mlp = _fit_both(FeaturesWorld(FeaturesSettings(nonlinearity=1)))
    return {
        "features_chance_ndcg@10": _ndcg(chance, test),
        "features_linear_ndcg@10": linear,
        "features_mlp_ndcg@10": mlp,
        "features_linear_ndcg@10_at_nonlinearity_1": bent_linear,
        "features_mlp_ndcg@10_at_nonlinearity_1": bent_mlp,
    }


def _fit_both(world: FeaturesWorld) -> tuple[float, float]:
    """Return the nDCG@10 of least squares and of an MLP on queries that they have not seen."""
    from sklearn.linear_model import LinearRegression
    from sklearn.neural_network import MLPRegressor

    train, test = world.data("train"), world.data("test")
    gains = 2.0**train.labels - 1
    linear = LinearRegression().fit(train.features, gains)
    mlp = MLPRegressor(
        hidden_layer_sizes=(64,), early_stopping=True, n_iter_no_change=4, max_iter=500,
        random_state=0,
    ).fit(train.features, gains)  # fmt: skip
    scores = linear.predict(test.features), mlp.predict(test.features)
    return _ndcg(scores[0], test), _ndcg(scores[1], test)


def _intents() -> Figures:
    from sklearn.linear_model import LinearRegression

    world = IntentsWorld()
    train, test = world.data("train"), world.data("test")
    one = LinearRegression().fit(train.data.features, train.intent_labels.mean(axis=1))
    shared, own = [], []
    for intent in range(train.n_intents):
        wanted = test.for_intent(intent)
        shared.append(_ndcg(one.predict(test.data.features), wanted))
        model = LinearRegression().fit(train.data.features, train.intent_labels[:, intent])
        own.append(_ndcg(model.predict(test.data.features), wanted))
    return {
        "intents_one_model_lowest_ndcg@10": min(shared),
        "intents_one_model_highest_ndcg@10": max(shared),
        "intents_own_model_lowest_ndcg@10": min(own),
        "intents_own_model_highest_ndcg@10": max(own),
    }


def _clinic() -> Figures:
    world = ClinicWorld(ClinicSettings(servers=50, pods=9_500))
    words: Counter[str] = Counter()
    for document in world.documents(0, N_RECORDS):
        words.update(_WORD.findall(document.text.lower()))
    counts = np.sort(np.fromiter(words.values(), np.float64))[::-1]
    figures: Figures = {
        "clinic_tokens": int(counts.sum()),
        "clinic_distinct_words": len(counts),
        "clinic_zipf_slope_ranks_10_to_1000": _slope(counts, 10, 1_000),
        "clinic_zipf_slope_ranks_1000_to_10000": _slope(counts, 1_000, 10_000),
    }
    grades = np.concatenate([world.grades(query, 0, N_RECORDS) for query in world.queries])
    for grade in range(4):
        figures[f"clinic_share_of_grade_{grade}"] = float((grades == grade).mean())
    for party in world.search_parties:
        share = float(world.readable(party.agent_id).mean())
        figures[f"clinic_share_readable_at_{party.access_percent}_percent"] = share
    return figures


def _slope(counts: NDArray[np.float64], first: int, last: int) -> float:
    """Return the slope of log count over log rank, fitted at ranks evenly spread in the log."""
    ranks = np.unique(np.geomspace(first, last, 200).astype(np.int64))
    return float(np.polyfit(np.log(ranks), np.log(counts[ranks - 1]), 1)[0])
