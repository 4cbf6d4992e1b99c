"""The other side of click inference: clients who search, click, and send what they learnt.

A client is shown a page for each of its queries, clicks, and moves its copy of the global ranker
by PDGD after each page, as in :mod:`cloister.federate.local_training`; there pages are drawn at
random, here they may also be the ranker's own order, as in the click-inference report.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.data.clicks import ClickModel, sample_clicks
from cloister.data.ranking_data import RankingData
from cloister.rank.pdgd import PdgdSettings, click_gradient
from cloister.rank.ranker import Ranker

__all__ = [
    "PAGE_LENGTH",
    "Searches",
    "clicks_of_others",
    "long_queries",
    "score_gradients",
    "search",
    "show_page",
]

PAGE_LENGTH: Final = 10  # documents shown in the report
MOST_ATTEMPTS: Final = 200  # to draw clicks where a page may have none


class Searches(NamedTuple):
    """What clients were shown, what they clicked, and what they send.

    Parameters
    ----------
    queries
        Clients x queries: positions in the data set.
    pages
        Clients x queries x ranks: places among the query's candidates, best rank first.
    clicked
        Of the same shape. Only the client knows.
    updates
        Clients x parameters: each one's parameters less the global ranker's, as single precision
        left them.
    """

    queries: NDArray[np.int64]
    pages: NDArray[np.int64]
    clicked: NDArray[np.bool_]
    updates: NDArray[np.float64]

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return len(self.queries)

    def of(self, chosen: NDArray[np.int64]) -> Searches:
        """Return some of the clients."""
        return Searches(
            self.queries[chosen], self.pages[chosen], self.clicked[chosen], self.updates[chosen]
        )

    def with_clicks(self) -> Searches:
        """Return the clients who clicked on each of their pages, but not on all of a page."""
        n_clicks = np.count_nonzero(self.clicked, axis=2)
        some = (n_clicks > 0) & (n_clicks < self.clicked.shape[2])
        return self.of(np.flatnonzero(some.all(axis=1)))

    def rows(self, data: RankingData) -> NDArray[np.int64]:
        """Return the rows of the documents shown, in the shape of the pages."""
        return data.offsets[:-1][self.queries][..., None] + self.pages


def long_queries(data: RankingData, page_length: int = PAGE_LENGTH) -> NDArray[np.int64]:
    """Return the queries whose candidates fill a page.

    Examples
    --------
    >>> data = RankingData(np.eye(5), np.zeros(5, np.int8), np.array([0, 2, 5]))
    >>> long_queries(data, 3)
    array([1])
    """
    return np.flatnonzero(data.lengths >= page_length)


def show_page(
    scores: NDArray[np.float32], length: int, rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Return the places of the best candidates, or with a generator of some drawn by score.

    Drawing is by Plackett and Luce: the largest scores after adding Gumbel noise to each.

    Examples
    --------
    >>> show_page(np.array([0.5, 2.0, 1.0], np.float32), 2)
    array([1, 2])
    """
    noisy = scores if rng is None else scores + rng.gumbel(size=len(scores))
    order: NDArray[np.int64] = np.argsort(-noisy, kind="stable")[:length]
    return order


def search(
    ranker: Ranker,
    data: RankingData,
    queries: NDArray[np.int64],
    click_model: ClickModel,
    *,
    settings: PdgdSettings | None = None,
    page_length: int = PAGE_LENGTH,
    drawn_pages: bool = False,
    seed: int,
) -> Searches:
    """Let clients search, click, and learn.

    Parameters
    ----------
    ranker
        The global ranker, from which each client begins.
    data
        Candidates and grades.
    queries
        Clients x queries, positions in the data set; each has at least ``page_length`` candidates.
    click_model
        How clients click.
    settings
        What a page teaches.
    page_length
        Documents shown.
    drawn_pages
        Whether pages are drawn by score, as PDGD does, or are the ranker's order, as in the report.
    seed
        Decides pages and clicks.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> from cloister.rank.ranker import RankerSettings
    >>> data = RankingData(np.eye(3, dtype=np.float32), np.array([1, 0, 0], np.int8),
    ...                    np.array([0, 3]))
    >>> ranker = Ranker.initial(RankerSettings(n_features=3))
    >>> found = search(ranker, data, np.array([[0]]), click_model("perfect", 2), page_length=3,
    ...                seed=1)
    >>> found.clicked.tolist(), bool(found.updates[0, 0] > 0)
    ([[[True, False, False]]], True)
    """
    chosen = settings or PdgdSettings()
    if (data.lengths[queries] < page_length).any():
        raise DataError(
            f"a query has fewer than {page_length} candidates", where="queries",
            remedy="leave out queries that fill no page",
        )  # fmt: skip
    pages = np.empty((*queries.shape, page_length), np.int64)
    clicked = np.empty(pages.shape, np.bool_)
    local = np.repeat(ranker.parameters[None], len(queries), axis=0)
    rng = stream(seed, "click pages") if drawn_pages else None
    rate = chosen.learning_rate
    for step, asked in enumerate(queries.T):
        rankers = [ranker] if step == 0 else [ranker.with_parameters(own) for own in local]
        pages[:, step] = _pages(rankers, data, asked, page_length, rng)
        rows = data.offsets[:-1][asked, None] + pages[:, step]
        clicked[:, step] = sample_clicks(click_model, data.labels[rows], seed=seed, round=step)
        gradients = _gradients(rankers, data, asked, pages[:, step], clicked[:, step], chosen)
        local += np.float32(rate) * gradients
        rate *= chosen.decay
    updates = (local - ranker.parameters).astype(np.float64)
    return Searches(queries, pages, clicked, updates)


def _pages(
    rankers: list[Ranker],
    data: RankingData,
    queries: NDArray[np.int64],
    length: int,
    rng: np.random.Generator | None,
) -> NDArray[np.int64]:
    """Return a page for each client: by its own ranker, or all by the only one."""
    if len(rankers) == 1:
        scores = rankers[0].score(data.features)
        return np.array([show_page(scores[data.rows(query)], length, rng) for query in queries])
    pairs = zip(rankers, queries, strict=True)
    return np.array(
        [show_page(own.score(data.features[data.rows(q)]), length, rng) for own, q in pairs]
    )


def _gradients(
    rankers: list[Ranker],
    data: RankingData,
    queries: NDArray[np.int64],
    pages: NDArray[np.int64],
    clicked: NDArray[np.bool_],
    settings: PdgdSettings,
) -> NDArray[np.float32]:
    """Return what each client learns; where all have one ranker, equal pages are done once."""
    n_clients, shared = len(queries), len(rankers) == 1
    what = np.column_stack([queries, pages, clicked] + ([] if shared else [np.arange(n_clients)]))
    _, first, which = np.unique(what, axis=0, return_index=True, return_inverse=True)
    gradients = [
        click_gradient(
            rankers[0 if shared else i],
            data.features[data.rows(queries[i])],
            pages[i],
            clicked[i],
            settings,
        )
        for i in first.tolist()
    ]
    return np.stack(gradients)[which.reshape(-1)]


def clicks_of_others(
    click_model: ClickModel, labels: NDArray[np.int8], clicked: NDArray[np.bool_], *, seed: int
) -> NDArray[np.bool_]:
    """Draw the clicks of other clients on the same pages, who clicked something too.

    Parameters
    ----------
    click_model
        How they click.
    labels, clicked
        Pages x ranks: grades, and the clicks of the clients themselves, which stand in where a page
        is so hard to click on that nobody else was found.
    seed
        Decides the clicks.

    Examples
    --------
    >>> from cloister.data.clicks import click_model
    >>> labels, clicked = np.array([[0, 2]], np.int8), np.array([[False, True]])
    >>> clicks_of_others(click_model("perfect", 3), labels, clicked, seed=1)
    array([[False,  True]])
    """
    others, missing = clicked.copy(), np.arange(len(labels))
    for attempt in range(MOST_ATTEMPTS):
        drawn = sample_clicks(click_model, labels[missing], seed=seed, round=attempt)
        n_clicks = np.count_nonzero(drawn, axis=1)
        found = (n_clicks > 0) & (n_clicks < labels.shape[1])
        others[missing[found]] = drawn[found]
        missing = missing[~found]
        if not len(missing):
            break
    return others


def score_gradients(ranker: Ranker, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the gradient of each document's score in the ranker's parameters, one a row.

    PDGD's update is a weighted sum of such rows, exactly for a linear ranker, and to first order
    for a neural one that moves more than once. A linear ranker's rows are the features themselves.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker.initial(RankerSettings(kind="mlp", n_features=2, hidden=3))
    >>> score_gradients(ranker, np.ones((5, 2), np.float32)).shape
    (5, 12)
    """
    x = np.asarray(features, np.float64)
    n_features, n_hidden, _ = ranker.settings.shape
    if n_hidden == 0:
        return x
    parameters = ranker.parameters.astype(np.float64)
    inner, bias, outer = np.split(parameters, [n_features * n_hidden, (n_features + 1) * n_hidden])
    inputs = x @ inner.reshape(n_features, n_hidden) + bias
    if ranker.settings.activation == "relu":
        hidden, steepness = np.maximum(inputs, 0.0), (inputs > 0).astype(np.float64)
    else:
        hidden = 1.0 / (1.0 + np.exp(-inputs))
        steepness = hidden * (1.0 - hidden)
    slopes = steepness * outer
    weights = x[..., :, None] * slopes[..., None, :]
    return np.concatenate([weights.reshape(*x.shape[:-1], -1), slopes, hidden], axis=-1)
