"""One round of FPDGD as thesis algorithm 2 prints it, in double precision, client by client.

Gradients are those of eq. 3.7 to 3.12, read literally. What is random comes from the same streams
and in the same order as in the kernels: the query, one number a candidate for the page, the click
model where a client has several, then the clicks from the top of the page down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import fill_uniform, new_stream, next_uniform, next_word
from cloister.data.clicks import ClickModel
from cloister.data.partitions import ClientView
from cloister.rank.pdgd import PdgdSettings
from cloister.rank.ranker import RankerSettings
from measure import literal as literal_measures
from rank import literal_pdgd as literal

Vector = NDArray[np.float64]
Stream = NDArray[np.uint32]

PURPOSE = int.from_bytes(b"PDGD", "big")
CUTOFF = 10  # of nDCG, whatever the length of a page


class Training(NamedTuple):
    """Everything that decides a round, beside clients and models."""

    ranker: RankerSettings
    pdgd: PdgdSettings = PdgdSettings()
    queries_per_round: int = 1
    page_length: int = 10
    proximal: float = 0.0
    clip_norm: float = 0.0
    one_step: bool = False
    seed: int = 1
    round: int = 0


class Shown(NamedTuple):
    """A page with clicks, and how near single precision is to showing another."""

    query: int  # its number among the client's own
    features: Vector
    scores: list[float]
    page: list[int]
    clicked: list[bool]
    ndcg: float
    margin: float

    @property
    def max_rr(self) -> float:
        return 1 / (self.clicked.index(True) + 1) if any(self.clicked) else 0.0


class Contribution(NamedTuple):
    """What one client sends, and what its user saw."""

    begin: Vector
    parameters: Vector
    pages: list[Shown]
    steps: list[Vector]  # each page's gradient times the learning rate

    @property
    def n(self) -> int:
        return len(self.pages)

    @property
    def difference(self) -> Vector:
        return self.parameters - self.begin

    @property
    def margin(self) -> float:
        return min(page.margin for page in self.pages)


def draw_below(stream: Stream, n: int) -> int:
    return int(next_word(stream)) * n >> 32


def train_client(
    view: ClientView, client: int, begin: Vector, default: ClickModel, training: Training
) -> Contribution:
    """ClientUpdate(c, theta) of algorithm 2, with what its variants add."""
    made_of, pdgd = training.ranker, training.pdgd
    stream = new_stream(training.seed, round=training.round, client=client, purpose=PURPOSE)
    n = view.queries_per_round or training.queries_per_round
    theta, pages, steps = begin.copy(), [], []
    for i in range(n):
        at = begin if training.one_step else theta
        shown = interact(view, at, default, training, stream)
        rate = pdgd.learning_rate * pdgd.decay ** (training.round * n + i)
        steps.append(rate * gradient(shown, made_of, at, pdgd))
        theta = theta + steps[-1] - rate * training.proximal * (at - begin)  # algorithm 1, line 12
        pages.append(shown)
    length = math.sqrt(math.fsum(theta**2))
    if training.clip_norm and length > 0:
        theta = theta * min(1.0, training.clip_norm / length)  # eq. 3.19
    return Contribution(begin, theta, pages, steps)


def interact(
    view: ClientView, theta: Vector, default: ClickModel, training: Training, stream: Stream
) -> Shown:
    """Let the user issue a query, see a page and click."""
    query = draw_below(stream, view.n_queries)
    features = view.data.features[view.query_rows(query)].astype(np.float64)
    labels = view.query_labels(query).tolist()
    scores = [literal.score(training.ranker, theta, x) for x in features]
    noise = np.empty(len(scores), np.float32)
    fill_uniform(stream, noise)
    keys = [
        score - math.log(-math.log(u))
        for score, u in zip(scores, noise.astype(float).tolist(), strict=True)
    ]
    order = sorted(range(len(keys)), key=lambda d: -keys[d])
    page = order[: training.page_length]
    clicked = click([labels[d] for d in page], view, default, stream)
    margin = min(near_tie(keys, order, len(page)), near_kink(training.ranker, theta, features))
    ideal = literal_measures.dcg(sorted(labels, reverse=True), CUTOFF)
    ndcg = literal_measures.dcg([labels[d] for d in page], CUTOFF) / ideal if ideal else 0.0
    return Shown(query, features, scores, page, clicked, ndcg, margin)


def near_tie(keys: Sequence[float], order: Sequence[int], shown: int) -> float:
    """Return the least distance between neighbours that decides the page."""
    ranked = [keys[d] for d in order[: shown + 1]]
    return min((a - b for a, b in pairwise(ranked)), default=math.inf)


def near_kink(made_of: RankerSettings, theta: Vector, features: Vector) -> float:
    """Return how near the input of any rectifier is to its corner."""
    if made_of.kind == "linear" or made_of.activation == "sigmoid":
        return math.inf
    weights, biases, _ = literal.parts(made_of, theta)
    return float(np.abs(features @ weights + biases).min(initial=math.inf))


def click(
    labels: Sequence[int], view: ClientView, default: ClickModel, stream: Stream
) -> list[bool]:
    """Walk down the page: click or not, leave or not."""
    users = view.click_models or (default,)
    user = users[draw_below(stream, len(users))] if len(users) > 1 else users[0]
    table = user.table(max(len(labels), 1))
    clicked = [False] * len(labels)
    for rank, grade in enumerate(labels):
        clicked[rank] = float(next_uniform(stream)) <= table.examination[rank] * table.click[grade]
        may_leave = (clicked[rank] or table.stop_at_each) and table.stop[grade] > 0
        if may_leave and float(next_uniform(stream)) <= table.stop[grade]:
            break
    return clicked


def gradient(shown: Shown, made_of: RankerSettings, theta: Vector, pdgd: PdgdSettings) -> Vector:
    """Eq. 3.11 at theta."""
    rhos = literal.rhos(
        shown.page,
        shown.clicked,
        shown.scores,
        negatives=pdgd.negatives,
        rho_over=pdgd.rho_over,
    )
    return literal.gradient(
        literal.pair_weights(rhos, shown.scores),
        lambda d: literal.score_gradient(made_of, theta, shown.features[d]),
        len(theta),
    )


def fedavg(contributions: Sequence[Contribution]) -> Vector:
    """Eq. 3.16: the sum of n_c / n times theta_c."""
    n = sum(sent.n for sent in contributions)
    return np.sum([sent.n / n * sent.parameters for sent in contributions], axis=0)
