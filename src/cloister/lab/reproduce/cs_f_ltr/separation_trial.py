"""How well features tell relevant documents from others, under different sketches.

Figure 5 of CS-F-LTR shows this by t-SNE pictures. A picture decides nothing, so the same instances
are also given to a linear classifier: its AUC on queries that it was not fitted on is a number.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import MissingDependency
from cloister.core.random import stream
from cloister.data.normalise import normalise
from cloister.data.ranking_data import RankingData
from cloister.federate.silos.augmentation import rows_of
from cloister.federate.silos.party import Candidates, Party, own_candidates
from cloister.index.term_source import TermSource
from cloister.lab.reproduce.cs_f_ltr.document_sketches import DocumentSketches, SketchKind
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.silos.collections import make_parties
from cloister.lab.silos.settings import CollectionName, RowSettings
from cloister.lab.simulation.run import Advance
from cloister.sketch.keyed_hash import HashKey, SketchShape

__all__ = ["NO_SKETCH", "STRATEGIES", "SeparationSettings", "Strategy", "measure"]

Floats = NDArray[np.float64]


class Strategy(NamedTuple):
    """A sketch of documents."""

    n_columns: int = 200
    n_true_rows: int = 30
    kind: SketchKind = "count-sketch"


NO_SKETCH: Final = "no sketch"
# In the order of the paper's panels; the two smaller widths are not in its text.
STRATEGIES: Final[dict[str, Strategy | None]] = {
    NO_SKETCH: None,
    "Count Sketch, w 200, z1 30": Strategy(),
    "Count Sketch, w 50": Strategy(n_columns=50),
    "Count Sketch, w 10": Strategy(n_columns=10),
    "Count-Min, w 200, z1 30": Strategy(kind="count-min"),
    "Count Sketch, z1 5": Strategy(n_true_rows=5),
    "Count Sketch, z1 3": Strategy(n_true_rows=3),
    "Count Sketch, z1 1": Strategy(n_true_rows=1),
}
N_ROWS: Final = 30  # of the sketches, of which an estimate reads z1


class SeparationSettings(StudySettings):
    """One repetition of figure 5.

    Parameters
    ----------
    data, collection, seed
        Whose documents and queries, and which party of them, split and hash key.
    n_instances
        Pairs of query and document, half of them relevant.
    n_folds
        Of the cross-validation, by query.
    embed
        Whether t-SNE is done too, for a picture.
    """

    collection: CollectionName = "medquad"
    n_instances: int = Field(default=400, ge=20)
    n_folds: int = Field(default=5, ge=2)
    embed: bool = False


class _Drawn(NamedTuple):
    """Instances: their query and whether they are relevant."""

    rows: NDArray[np.int64]
    query: NDArray[np.int64]
    relevant: NDArray[np.bool_]


def measure(settings: SeparationSettings, advance: Advance) -> Figures:
    """Return the AUC of each strategy, and where t-SNE puts each instance if that is asked."""
    parties = make_parties(
        RowSettings(collection=settings.collection, data=settings.data, seed=settings.seed)
    )
    rng = stream(settings.seed, "cs-f-ltr", "separation")
    party = parties[int(rng.integers(len(parties)))]
    candidates = own_candidates(party.training, party.n_documents, 40, rng)
    key = HashKey(rng.bytes(32))
    drawn: _Drawn | None = None
    figures: Figures = {}
    for done, (name, strategy) in enumerate(STRATEGIES.items(), 1):
        data = _rows(party, candidates, key, strategy)
        drawn = drawn or _draw(data, settings.n_instances, rng)
        features = np.asarray(data.features[drawn.rows], np.float64)
        figures[name] = {"auc": _auc(features, drawn, settings.n_folds)}
        if settings.embed:
            places = _embedded(features, settings.seed)
            figures[name] |= {
                "x": places[:, 0].tolist(),
                "y": places[:, 1].tolist(),
                "relevant": drawn.relevant.astype(np.float64).tolist(),
            }
        advance(done, len(STRATEGIES))
    return figures


def _rows(
    party: Party, candidates: list[Candidates], key: HashKey, strategy: Strategy | None
) -> RankingData:
    sources: Mapping[str, TermSource] = dict(party.fields)
    if strategy is not None:
        shape = SketchShape(n_rows=N_ROWS, n_columns=strategy.n_columns)
        sources = {
            name: DocumentSketches(
                counts, key, shape, kind=strategy.kind, n_true_rows=strategy.n_true_rows
            )
            for name, counts in party.fields.items()
        }
    return normalise(rows_of(candidates, sources, None), "query_minmax", in_place=True)


def _draw(data: RankingData, n_instances: int, rng: np.random.Generator) -> _Drawn:
    relevant = data.labels > 0
    query = np.repeat(np.arange(data.n_queries), data.lengths)
    half = min(n_instances // 2, int(relevant.sum()), int((~relevant).sum()))
    rows = np.concatenate(
        [rng.choice(np.flatnonzero(kind), half, replace=False) for kind in (relevant, ~relevant)]
    )
    return _Drawn(rows, query[rows], relevant[rows])


def _auc(features: Floats, drawn: _Drawn, n_folds: int) -> float:
    """Return the AUC of a logistic regression on queries held out."""
    learn = _scikit_learn()
    splits = learn.model_selection.GroupKFold(n_folds)
    classifier = learn.linear_model.LogisticRegression(max_iter=1000)
    scores = learn.model_selection.cross_val_predict(
        classifier,
        features,
        drawn.relevant,
        groups=drawn.query,
        cv=splits,
        method="decision_function",
    )
    return float(learn.metrics.roc_auc_score(drawn.relevant, scores))


def _embedded(features: Floats, seed: int) -> Floats:
    """Return the two dimensions of t-SNE, whose start is fixed by the principal components."""
    learn = _scikit_learn()
    limited = importlib.import_module("threadpoolctl").threadpool_limits  # comes with it

    embedding = learn.manifold.TSNE(
        n_components=2, init="pca", perplexity=30.0, random_state=seed, n_jobs=1
    )
    with limited(1):  # threads of a busy machine wait for each other at every step
        return np.asarray(embedding.fit_transform(features), np.float64)


def _scikit_learn() -> Any:
    try:
        import sklearn.linear_model
        import sklearn.manifold
        import sklearn.metrics
        import sklearn.model_selection
    except ImportError:
        raise MissingDependency(
            "scikit-learn is not installed",
            where="figure-5",
            remedy="pip install scikit-learn",
        ) from None
    return sklearn
