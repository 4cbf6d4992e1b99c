"""Attacks on sketches that leave once: noisy releases, and exact lists of documents."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cloister.adversary.guesses import Guesses, guess_by_score, joined, noisy_accuracy
from cloister.adversary.noisy_release_audit import NoisyReleaseAudit
from cloister.adversary.sketch_membership import (
    document_accuracy,
    document_membership,
    first_tokens,
    list_membership,
    selection_membership,
)
from cloister.app.attack_sketch_scene import DELTA, EPSILONS, SketchScene, Subject, attack_row
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release

__all__ = ["attack_documents", "attack_release", "attack_selection"]

Result = dict[str, Any]

LISTED_SHARE: Final = 0.02  # of documents, in a list: 740 of 36,400
TOKENS: Final = (1, 10, 100)


def attack_release(scene: SketchScene) -> Result:
    """Look for a token in a noisy release: in all its numbers, and in its lists."""
    rows = []
    for epsilon in EPSILONS:
        rng, subject = scene.rng("release", int(epsilon)), NoisyReleaseAudit(epsilon=epsilon)
        n = max(scene.n_trials, 20_000)
        scores = np.concatenate([subject.scores(b, n // 2, rng=rng) for b in (0, 1)])
        truth = np.arange(len(scores)) >= n // 2
        found = guess_by_score(scores, truth, rng=rng)
        name = f"one-shot, {epsilon:g}"
        expected = subject.predicted_accuracy
        rows.append(
            attack_row(Subject.RELEASE, "all noisy numbers", name, found, epsilon, expected)
        )
        listed, _ = _from_lists(scene, epsilon, LISTED_SHARE)
        rows.append(attack_row(Subject.RELEASE, "lists of 2 %", name, listed, epsilon))
        listed, expected = _from_lists(scene, epsilon, 1.0)
        rows.append(attack_row(Subject.RELEASE, "lists of all", name, listed, epsilon, expected))
    return {"attacks": rows}


def _from_lists(scene: SketchScene, epsilon: float, share: float) -> tuple[Guesses, float]:
    """Return the guesses, and the share of right ones if all cells of the term were listed."""
    settings = NoisyReleaseSettings(
        n_rows=1,
        n_columns=1000,
        cell_size=max(1, int(share * scene.n_documents)),
        epsilon=epsilon,
        delta=DELTA,
        statistics_columns=64,
    )
    rng = scene.rng("lists", int(1000 * epsilon), int(100 * share))
    found = []
    for _ in range(-(-scene.n_trials // (2 * scene.n_documents))):
        words = SeededWords(int(rng.integers(2**63)))
        found.append(list_membership(scene.counts, scene.key, settings, words=words, rng=rng))
    cells = planned_release(settings, n_documents=scene.n_documents, simulated=True).tables[0]
    return joined(found), noisy_accuracy([cells])


def attack_selection(scene: SketchScene) -> Result:
    """Look for a token in exact lists, by which ids they name."""
    found = selection_membership(
        scene.counts,
        scene.key,
        scene.shape,
        max(1, int(LISTED_SHARE * scene.n_documents)),
        n_trials=min(500, scene.n_trials),
        rng=scene.rng("selection"),
    )
    name = "exact selection"
    rows = [attack_row(Subject.SELECTION, "ids in lists", name, found.on_all, None)]
    if found.on_exposed is not None:
        attack = f"where ids change ({found.exposed.accuracy:.0%})"
        rows.append(attack_row(Subject.SELECTION, attack, name, found.on_exposed, None))
    return {"attacks": rows}


def attack_documents(scene: SketchScene) -> Result:
    """Look for a whole document in a noisy release."""
    rows = []
    for epsilon in EPSILONS[:2]:
        for n_tokens in TOKENS:
            rng = scene.rng("document", int(epsilon), n_tokens)
            settings = NoisyReleaseSettings(epsilon=epsilon, delta=DELTA, max_length=n_tokens)
            release = planned_release(settings, n_documents=scene.n_documents, simulated=True)
            text = first_tokens(scene.counts, n_tokens, rng)
            attacked = (text, scene.key, settings.shape, release.tables[0])
            found = document_membership(
                *attacked,
                words=SeededWords(int(rng.integers(2**63))),
                rng=rng,
            )
            group = composed_epsilon(losses_of([release], Level.DOCUMENT), DELTA).epsilon
            name = f"one-shot, {epsilon:g}"
            attack = f"text of {n_tokens}, or none"
            expected = document_accuracy(*attacked)
            rows.append(attack_row(Subject.DOCUMENT, attack, name, found, group, expected))
    return {"attacks": rows}
