"""Attacks on the answers of term-frequency queries, and on the queries themselves."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any, Final

from cloister.adversary.guesses import Guesses
from cloister.adversary.query_averaging import (
    median_accuracy,
    median_membership,
    repeated_query_membership,
)
from cloister.adversary.shared_noise_attack import (
    independent_noise_accuracy,
    independent_noise_membership,
    shared_noise_membership,
    sign_splitting,
)
from cloister.adversary.sketch_targets import draw_targets
from cloister.adversary.term_identification import identify_terms, link_repeats
from cloister.app.attack_sketch_scene import DELTA, VOCABULARY, SketchScene, Subject, attack_row
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level
from cloister.sketch.per_query_release import IndependentNoise, OwnerMedian
from cloister.sketch.query_budget import median_cost, query_noise

__all__ = ["attack_by_averaging", "attack_shared_noise", "attack_terms", "noise_of_a_budget"]

Result = dict[str, Any]

CLAIMED: Final = (0.1, 0.5, 4.0)  # 0.5 is the paper's
REPEATS: Final = (1, 100, 2400)  # 2,400 queries is the paper's number
TRUE_ROWS: Final = (1, 3, 5, 10, 15)


def attack_shared_noise(scene: SketchScene) -> Result:
    """Look for a token behind noise that rows share, and behind independent noise."""
    rng, rows, errors = scene.rng("shared noise"), [], []
    own = (scene.counts, scene.key, scene.shape)
    drawn = {
        (n_true, known): draw_targets(
            *own, n_trials=scene.n_trials, n_true_rows=n_true, known_share=known, rng=rng
        )
        for n_true, known in ((30, 1.0), (15, 1.0), (30, 0.9), (15, 0.9))
    }
    for claimed in CLAIMED:
        for (n_true, known), targets in drawn.items():
            found = shared_noise_membership(targets, claimed, rng=rng)
            attack = f"{30 - n_true} decoys, {known:.0%} known"
            rows.append(
                attack_row(Subject.SHARED_NOISE, attack, f"shared, {claimed:g}", found, claimed)
            )
        noise = IndependentNoise.calibrated(claimed, n_rows=30, noise="laplace")
        found = independent_noise_membership(drawn[30, 1.0], noise, rng=rng)
        name = f"independent, {claimed:g}"
        expected = independent_noise_accuracy(noise, n_rows=30)
        attack = "0 decoys, 100% known"
        rows.append(attack_row(Subject.SHARED_NOISE, attack, name, found, claimed, expected))
        split = sign_splitting(*own, claimed, n_trials=min(500, scene.n_trials), rng=rng)
        errors.append({"epsilon": claimed, **split._asdict()})
    return {"attacks": rows, "errors": errors}


def attack_by_averaging(scene: SketchScene) -> Result:
    """Look for a token by asking again and again."""
    rng, rows, policy = scene.rng("averaging"), [], OwnerMedian(epsilon=0.5)
    n_trials = min(500, scene.n_trials)
    targets = draw_targets(scene.counts, scene.key, scene.shape, n_trials=n_trials, rng=rng)
    for n in REPEATS:
        fresh = median_membership(targets, policy, n_answers=n, rng=rng)
        cost = median_cost(policy, DELTA, n_answers=n)
        expected = median_accuracy(policy, n_answers=n)
        attack = f"median {n:,} times"
        rows.append(attack_row(Subject.AVERAGING, attack, "fresh, 0.5 each", fresh, cost, expected))
    kept, cost = _from_memory(scene, policy)
    expected = median_accuracy(policy)
    rows.append(attack_row(Subject.AVERAGING, attack, "from memory, 0.5", kept, cost, expected))
    return {"attacks": rows}


def _from_memory(scene: SketchScene, policy: OwnerMedian) -> tuple[Guesses, float]:
    """Ask a whole owner again and again; return the guesses, and what its ledger counts."""
    with TemporaryDirectory() as folder, Ledger.open(f"{folder}/ledger.db") as ledger:
        found = repeated_query_membership(
            scene.counts,
            scene.key,
            scene.shape,
            policy,
            ledger,
            n_trials=scene.n_trials,
            n_answers=REPEATS[-1],
            rng=scene.rng("from memory"),
        )
        cost = ledger.cost("owner", delta=DELTA, level=Level.TOKEN, simulated=True)
    return found, cost.epsilon


def attack_terms(scene: SketchScene) -> Result:
    """Find the terms behind queries, as an owner with the key."""
    rng = scene.rng("terms")
    words = [f"term{i}" for i in range(VOCABULARY)]
    hashed = scene.key.hash_terms(words, scene.shape)
    terms, rows = [], []
    for n_true in TRUE_ROWS:
        found = identify_terms(hashed, n_true, n_trials=min(300, scene.n_trials), rng=rng)
        terms.append(
            {
                "n_true_rows": n_true,
                **found.found._asdict(),
                "n_candidates": found.n_candidates,
            }
        )
        linked = link_repeats(hashed, n_true, n_trials=scene.n_trials, rng=rng)
        attack = f"linked, {n_true} true rows"
        rows.append(attack_row(Subject.TERMS, attack, "not sealed", linked, None))
    return {"attacks": rows, "terms": terms}


def noise_of_a_budget(scene: SketchScene) -> Result:
    """Say how wide the noise of so many answers is, beside noise once."""
    return {
        "budget": [
            query_noise(8.0, DELTA, n_rows=30, n_answers=n)._asdict() for n in (1, 10, *REPEATS[1:])
        ]
    }
