"""All attacks and baselines on the observations of one trial."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.click_best_linear import guess_prior, prior_and_update
from cloister.adversary.click_chances import PageBeliefs
from cloister.adversary.click_clipped_squares import clipped_least_squares
from cloister.adversary.click_inference import (
    ROUNDING,
    Guess,
    guess_random,
    higher_distance_count,
    higher_probability,
    higher_score,
    least_squares,
)
from cloister.adversary.click_least_absolute import least_absolute_deviations
from cloister.adversary.click_pages import score_gradients
from cloister.adversary.click_protections import Seen
from cloister.adversary.click_sparse import sparse
from cloister.core.random import stream
from cloister.lab.reproduce.click_inference.scene import Scene
from cloister.lab.reproduce.click_inference.server_view import ServerView
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings

__all__ = ["BASELINES", "BEST_GUESS", "attack", "guess_without_update"]

Floats = NDArray[np.float64]

RANDOM_3: Final = "random 3"
RANDOM_4: Final = "random 4"
BEST_GUESS: Final = "best guess"  # from rank, score and click model, without the update
HIGHER_SCORE: Final = "higher score"
HIGHER_PROBABILITY: Final = "higher probability"
HIGHER_DISTANCE: Final = "higher distance count"
LEAST_SQUARES: Final = "least squares"
CLIPPED_SQUARES: Final = "least squares, clipping known"
LEAST_ABSOLUTE: Final = "least absolute deviations"
SPARSE: Final = "sparse"
PRIOR_AND_UPDATE: Final = "prior and update"
BASELINES: Final = (RANDOM_3, RANDOM_4, BEST_GUESS)

_AT_ONCE: Final = 20_000_000  # numbers of a stack of rows: 160 MB


def guess_without_update(settings: ClickInferenceSettings, view: ServerView) -> dict[str, Guess]:
    """Return the baselines: random guesses, and the best one from rank, score and click model."""
    rng = stream(settings.seed, "random guesses")
    return {
        RANDOM_3: _where_documents_are(guess_random(view.there, 3, rng), view),
        RANDOM_4: _where_documents_are(guess_random(view.there, 4, rng), view),
        BEST_GUESS: _where_documents_are(guess_prior(view.beliefs), view),
    }


def attack(
    scene: Scene, settings: ClickInferenceSettings, view: ServerView, seen: Seen
) -> dict[str, Guess]:
    """Carry out all attacks, on as many observations at once as memory allows."""
    n_documents = int(np.prod(view.rows.shape[1:]))
    at_once = max(1, _AT_ONCE // (n_documents * seen.updates.shape[1]))
    parts = [
        dict(_attacks(scene, settings, view.of(some), seen.updates[some], seen.sigma))
        for start in range(0, len(view.rows), at_once)
        for some in (slice(start, start + at_once),)
    ]
    return {
        name: _where_documents_are(_joined([part[name] for part in parts]), view)
        for name in parts[0]
    }


def _joined(guesses: list[Guess]) -> Guess:
    return Guess(
        np.concatenate([guess.values for guess in guesses]),
        np.concatenate([guess.clicked for guess in guesses]),
    )


def _where_documents_are(guess: Guess, view: ServerView) -> Guess:
    return Guess(np.where(view.there, guess.values, np.nan), guess.clicked & view.there)


def _attacks(
    scene: Scene, settings: ClickInferenceSettings, view: ServerView, updates: Floats, sigma: float
) -> Iterator[tuple[str, Guess]]:
    shape = view.rows.shape
    features = scene.data.features[view.rows]
    rows = np.where(view.there[..., None], score_gradients(scene.ranker, features), 0.0)
    flat = rows.reshape(shape[0], -1, rows.shape[-1])
    parameters = scene.ranker.parameters.astype(np.float64)

    def shaped(guess: Guess) -> Guess:
        return Guess(guess.values.reshape(shape), guess.clicked.reshape(shape))

    if settings.order != "candidates":
        before, after = _scores(scene, features, updates / settings.clients)
        yield HIGHER_SCORE, higher_score(before, after)
        yield HIGHER_PROBABILITY, higher_probability(before, after)
        yield HIGHER_DISTANCE, higher_distance_count(before, after)
    exact = settings.protection in ("none", "sum")
    yield LEAST_SQUARES, shaped(least_squares(flat, updates, parameters if exact else None))
    if settings.order == "candidates":
        found = [sparse(own, update) for own, update in zip(flat, updates, strict=True)]
        yield SPARSE, shaped(_joined(found))
    elif settings.one_page:
        if settings.protection == "paper":
            yield CLIPPED_SQUARES, shaped(clipped_least_squares(flat, updates, parameters))
        yield LEAST_ABSOLUTE, shaped(least_absolute_deviations(flat, updates, parameters))
    yield PRIOR_AND_UPDATE, _corrected(settings, view.beliefs, rows, updates, sigma, parameters)


def _scores(scene: Scene, features: NDArray[Any], updates: Floats) -> tuple[Floats, Floats]:
    """Return scores of the documents by the global ranker, and by what each update makes of it."""
    shape, n_features = features.shape[:-1], features.shape[-1]
    before = scene.ranker.score(features.reshape(-1, n_features)).astype(np.float64)
    pages = features.reshape(len(updates), -1, n_features)
    changed = scene.ranker.parameters + updates
    after = [
        scene.ranker.with_parameters(own).score(documents)
        for own, documents in zip(changed, pages, strict=True)
    ]
    return before.reshape(shape), np.array(after, np.float64).reshape(shape)


def _corrected(
    settings: ClickInferenceSettings,
    beliefs: PageBeliefs,
    rows: Floats,
    updates: Floats,
    sigma: float,
    parameters: Floats,
) -> Guess:
    """Correct beliefs, observation by observation."""
    rounding = ROUNDING * float(np.abs(parameters).max()) * settings.clients**0.5
    if settings.protection == "paper":  # clipping adds an unknown multiple of the ranker itself
        axis = parameters / max(float(np.linalg.norm(parameters)), 1e-300)
        rows = rows - (rows @ axis)[..., None] * axis
        updates = updates - (updates @ axis)[:, None] * axis
    found = [
        prior_and_update(
            PageBeliefs(*(part[i] for part in beliefs)),
            rows[i],
            updates[i],
            sigma=max(sigma, rounding),
        )
        for i in range(len(updates))
    ]
    return Guess(
        np.stack([guess.values for guess in found]), np.stack([guess.clicked for guess in found])
    )
