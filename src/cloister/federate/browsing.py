"""What a simulated user does, whatever is learnt from it: search, look at the page, click.

Kernels only; nothing is checked. Both PDGD and evolution strategies are made of these. They are
copied into the kernels that call them: handing over a whole population of arrays would take longer
than most of them work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import draw_below
from cloister.core.kernel import inline_kernel
from cloister.data.clicks import draw_clicks
from cloister.data.partitions import FlatViews
from cloister.federate.population import CUTOFF, PopulationArrays
from cloister.measure.ndcg import ndcg_of_page
from cloister.rank.linear import score_linear
from cloister.rank.mlp import score_mlp
from cloister.rank.ranker import RankerShape

__all__ = ["click_on_page", "draw_entry", "grades_of_page", "record_page", "score_entry"]

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
Stream = NDArray[np.uint32]


@inline_kernel
def draw_entry(views: FlatViews, client: int, stream: Stream) -> Any:
    """Draw one of the queries that a client holds; return its entry."""
    start = views.holding_bounds[views.holding[client]]
    stop = views.holding_bounds[views.holding[client] + 1]
    return start + draw_below(stream, stop - start)


@inline_kernel
def score_entry(
    arrays: PopulationArrays,
    shape: RankerShape,
    parameters: Floats,
    first: int,
    n: int,
    hidden: Floats,
    scores: Floats,
) -> None:
    """Score the ``n`` candidates of a query by a linear or neural ranker."""
    rows = arrays.views.rows
    if shape.n_hidden == 0:
        score_linear(parameters, arrays.features, rows, first, n, scores)
    else:
        score_mlp(
            parameters,
            shape.n_features,
            shape.n_hidden,
            shape.activation,
            arrays.features,
            rows,
            first,
            n,
            hidden,
            scores,
        )


@inline_kernel
def grades_of_page(
    views: FlatViews, client: int, first: int, page: Places, shown: int, labels: NDArray[np.int8]
) -> None:
    """Write the client's grades of the documents shown."""
    label_set = views.label_set[client]
    for p in range(shown):
        place = first + page[p]
        labels[p] = views.labels[label_set, place if len(views.rows) == 0 else views.rows[place]]


@inline_kernel
def click_on_page(
    arrays: PopulationArrays,
    client: int,
    labels: NDArray[np.int8],
    shown: int,
    stream: Stream,
    clicked: NDArray[np.bool_],
) -> int:
    """Draw the clicks of one of the client's click models; return the place of the last, or -1."""
    views = arrays.views
    start = views.model_bounds[views.behaviour[client]]
    stop = views.model_bounds[views.behaviour[client] + 1]
    model = len(arrays.clicks.click) - 1  # for clients who have none of their own
    if stop - start == 1:
        model = int(views.models[start])
    elif stop > start:
        model = int(views.models[start + draw_below(stream, stop - start)])
    return draw_clicks(
        labels,
        shown,
        arrays.clicks.click[model],
        arrays.clicks.stop[model],
        arrays.clicks.stop_at_each[model],
        arrays.clicks.examination[model],
        stream,
        clicked,
    )


@inline_kernel
def record_page(
    labels: NDArray[np.int8],
    shown: int,
    ideal: float,
    clicked: NDArray[np.bool_],
    last: int,
    online: NDArray[np.float64],
) -> tuple[float, int]:
    """Add a page to the online sums: nDCG@10, 1 / rank of the highest click, clicks.

    Returns
    -------
    tuple
        The page's nDCG, and the rank of the highest click from 1; 0 for none.
    """
    ndcg = ndcg_of_page(labels, shown, CUTOFF, ideal)
    highest = 0
    for p in range(last, -1, -1):
        if clicked[p]:
            highest = p + 1
            online[2] += 1.0
    online[0] += ndcg
    if highest > 0:
        online[1] += 1.0 / highest
    return ndcg, highest
