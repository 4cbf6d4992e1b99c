"""What the server knows of the documents behind each observation, and believes of their clicks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_chances import PageBeliefs, page_beliefs
from cloister.adversary.click_pages import (
    PAGE_LENGTH,
    Searches,
    clicks_of_others,
    score_gradients,
)
from cloister.adversary.click_protections import Seen
from cloister.core.random import stream
from cloister.lab.reproduce.click_inference.scene import Scene
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings

__all__ = ["ServerView", "server_view"]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]


class ServerView(NamedTuple):
    """Documents, observations x pages x documents, with what is believed of them.

    Parameters
    ----------
    rows
        Rows of the data; -1 where there is no document.
    clicked
        What clients clicked. Only they know: attacks do not read it.
    others
        What others clicked on the same pages, as a control.
    beliefs
        Before any update is seen.
    """

    rows: Rows
    clicked: Flags
    others: Flags
    beliefs: PageBeliefs

    @property
    def there(self) -> Flags:
        """Where there is a document."""
        return np.asarray(self.rows >= 0)

    def of(self, chosen: slice) -> ServerView:
        """Return some of the observations."""
        beliefs = PageBeliefs(*(part[chosen] for part in self.beliefs))
        return ServerView(self.rows[chosen], self.clicked[chosen], self.others[chosen], beliefs)


def server_view(
    scene: Scene, settings: ClickInferenceSettings, searches: Searches, seen: Seen
) -> ServerView:
    """Return what the server knows: pages in order, as a set, or all candidates."""
    rows, clicked = searches.rows(scene.data), searches.clicked
    labels = scene.data.labels[rows].reshape(-1, PAGE_LENGTH)
    seed = int(stream(settings.seed, "click inference", "others").integers(2**63))
    others = clicks_of_others(
        scene.click_model, labels, clicked.reshape(-1, PAGE_LENGTH), seed=seed
    ).reshape(clicked.shape)
    if settings.order == "candidates":
        rows, (clicked, others) = _all_candidates(scene, searches, (clicked, others))
    elif settings.order == "unknown":  # by score: the order shown is not in it
        order = np.argsort(-scene.ranker.score(scene.data.features)[rows], axis=2, kind="stable")
        rows = np.take_along_axis(rows, order, axis=2)
        clicked, others = (np.take_along_axis(part, order, axis=2) for part in (clicked, others))
    n_documents = rows.shape[2]
    beliefs = _beliefs(scene, settings, searches.queries.reshape(-1), rows.reshape(-1, n_documents))
    by_client = [part.reshape(searches.n_clients, -1, *part.shape[1:]) for part in beliefs]
    return ServerView(
        _by_observation(rows, seen),
        _by_observation(clicked, seen),
        _by_observation(others, seen),
        PageBeliefs(*(_by_observation(part, seen) for part in by_client)),
    )


def _by_observation(part: NDArray[Any], seen: Seen) -> NDArray[Any]:
    """Put what is by client and page into the shape of observations."""
    return part[seen.members].reshape(len(seen.members), -1, *part.shape[2:])


def _all_candidates(
    scene: Scene, searches: Searches, clicks: tuple[Flags, ...]
) -> tuple[Rows, list[Flags]]:
    """Return the rows of all candidates, and clicks on them; pages are one a client."""
    data, width = scene.data, int(scene.data.lengths[searches.queries].max())
    places = np.arange(width)
    there = places < data.lengths[searches.queries][..., None]
    rows = np.where(there, data.offsets[:-1][searches.queries][..., None] + places, -1)
    spread = [np.zeros(rows.shape, np.bool_) for _ in clicks]
    for whole, part in zip(spread, clicks, strict=True):
        np.put_along_axis(whole, searches.pages, part, axis=2)
    return rows, spread


def _beliefs(
    scene: Scene, settings: ClickInferenceSettings, queries: NDArray[np.int64], rows: Rows
) -> PageBeliefs:
    """Return what is believed of each page; the same page is thought about once."""
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    which = which.reshape(-1)
    query_of = np.empty(len(distinct), np.int64)
    query_of[which] = queries
    scores = scene.ranker.score(scene.data.features)
    found = [
        _beliefs_of_page(scene, settings, scores, page, query)
        for page, query in zip(distinct, query_of.tolist(), strict=True)
    ]
    return PageBeliefs(*(np.stack(parts)[which] for parts in zip(*found, strict=True)))


def _beliefs_of_page(
    scene: Scene,
    settings: ClickInferenceSettings,
    scores: NDArray[np.float32],
    page: Rows,
    query: int,
) -> PageBeliefs:
    span, there = scene.data.rows(query), page[page >= 0]
    clips = settings.protection == "sum+noise"
    gradients = score_gradients(scene.ranker, scene.data.features[there]) if clips else None
    found = page_beliefs(
        scores[span],
        there - span.start,
        scene.grades.chances(scores[there].astype(np.float64)[None])[0],
        scene.click_model,
        scene.pdgd,
        gram=None if gradients is None else gradients @ gradients.T,
        clip_norm=settings.clip_norm if clips else 0.0,
        rng=None if settings.order == "known" else stream(settings.seed, "beliefs", query),
        shown=PAGE_LENGTH if settings.order == "candidates" else None,
    )
    missing = len(page) - len(there)
    return PageBeliefs(*(np.pad(part, [(0, missing)] * part.ndim) for part in found))
