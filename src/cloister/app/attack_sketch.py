"""``cloister attack sketch``: what sketches and their answers tell, with and without protection."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.output import JsonFlag, command_result, progress, table

if TYPE_CHECKING:
    import numpy as np

    from cloister.adversary.guesses import Guesses
    from cloister.index.term_counts import TermCounts
    from cloister.sketch.keyed_hash import HashKey, SketchShape
    from cloister.sketch.per_query_release import OwnerMedian

__all__ = ["sketch"]

Result = dict[str, Any]

DELTA: Final = 1e-6
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0)
CLAIMED: Final = (0.1, 0.5, 4.0)  # 0.5 is the paper's
REPEATS: Final = (1, 100, 2400)  # 2,400 queries is the paper's number
TRUE_ROWS: Final = (1, 3, 5, 10, 15)
VOCABULARY: Final = 100_000
LISTED_SHARE: Final = 0.02  # of documents, in a list: 740 of 36,400
TOKENS: Final = (1, 10, 100)
TEXT_LIKE: Final = 0.3  # share of topical tokens with which documents are as bursty as text


class Subject(StrEnum):
    """What is attacked."""

    SHARED_NOISE = "shared-noise"
    AVERAGING = "averaging"
    TERMS = "terms"
    RELEASE = "release"
    SELECTION = "selection"
    DOCUMENT = "document"
    BUDGET = "budget"


def _show(result: Result) -> None:
    rows = [
        [f["attack"], f["protection"], _interval(f), _share(f["predicted"]), _share(f["allowed"])]
        for f in result["attacks"]
    ]
    if rows:
        columns = ["attack", "protection", "right guesses", "predicted", "allowed"]
        table("a token more or none: guessed right (chance 0.5)", columns, rows)
    if result["terms"]:
        rows = [[f["n_true_rows"], _interval(f), f["n_candidates"]] for f in result["terms"]]
        columns = ["true rows", "term found", "candidates left"]
        table(f"an owner with the key, among {VOCABULARY:,} terms", columns, rows)
    if result["errors"]:
        rows = [list(f.values()) for f in result["errors"]]
        table("errors of estimates, shared noise", list(result["errors"][0]), rows)
    if result["budget"]:
        rows = [list(f.values()) for f in result["budget"]]
        names = ["answers", "Laplace", "Gaussian", "owner's median", "noise once"]
        table("noise (standard deviation) at epsilon 8 in all, 30 rows", names, rows)
    typer.echo(
        f"intervals at 95 % (Clopper and Pearson); delta {DELTA:g}; {result['seconds']:.0f} s"
    )


def _interval(found: Result) -> str:
    return f"{found['accuracy']:.3f} ({found['low']:.3f}-{found['high']:.3f})"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


@command_result(_show)
def sketch(
    subject: Annotated[
        list[Subject] | None, typer.Option(help="Which one; all unless given. May be given often.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Guesses of each attack.", min=10, max=10**6)] = 2000,
    documents: Annotated[
        int, typer.Option(help="In the collection that is attacked.", min=50, max=5000)
    ] = 400,
    burst_share: Annotated[
        float,
        typer.Option(help="Of topical tokens in a document; 0.3 is as in text.", min=0, max=1),
    ] = TEXT_LIKE,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Find tokens, terms and documents in sketches: as printed in CS-F-LTR, and as protected."""
    start = time.perf_counter()
    scene = _Scene(trials, documents, burst_share, seed)
    found: Result = {"attacks": [], "terms": [], "errors": [], "budget": []}
    with progress("attack sketches") as advance:
        chosen = list(dict.fromkeys(subject or Subject))
        for done, name in enumerate(chosen):
            advance(done, len(chosen))
            for kind, rows in _ATTACKS[name](scene).items():
                found[kind] += rows
    settings = {
        "trials": trials,
        "documents": documents,
        "burst_share": burst_share,
        "seed": seed,
        "delta": DELTA,
    }
    return {**found, "settings": settings, "seconds": time.perf_counter() - start}


class _Scene:
    """What is attacked: a Zipf corpus of long documents, at the paper's 30 rows of 200 columns."""

    def __init__(self, n_trials: int, n_documents: int, burst_share: float, seed: int) -> None:
        self.n_trials = n_trials
        self.n_documents = n_documents
        self.burst_share = burst_share
        self.seed = seed

    @cached_property
    def counts(self) -> TermCounts:
        from cloister.lab.silos.zipf_corpus import ZipfCorpusSettings, make_corpus

        settings = ZipfCorpusSettings(
            documents=self.n_documents,
            vocabulary=5_000,
            burst_share=self.burst_share,
            seed=self.seed,
        )
        return make_corpus(settings).counts

    @cached_property
    def key(self) -> HashKey:
        from cloister.sketch.keyed_hash import HashKey

        return HashKey(self.rng("key").bytes(32))

    @cached_property
    def shape(self) -> SketchShape:
        from cloister.sketch.keyed_hash import SketchShape

        return SketchShape(n_rows=30, n_columns=200)

    def rng(self, *purpose: str | int) -> np.random.Generator:
        from cloister.core.random import stream

        return stream(self.seed, "attack sketch", *purpose)


def _row(
    subject: Subject,
    attack: str,
    protection: str,
    found: Guesses,
    epsilon: float | None,
    predicted: float | None = None,
) -> Result:
    """Describe guesses, with what epsilon allows them; None where nothing is claimed.

    What the noise predicts of the best guess is the sharper test: half the noise, or an attack
    that does not work, would pass for allowed. None where no formula tells.
    """
    from cloister.adversary.guesses import advantage_bound

    allowed = None if epsilon is None else 0.5 + advantage_bound(epsilon, DELTA) / 2
    return {
        "subject": subject.value,
        "attack": attack,
        "protection": protection,
        **found._asdict(),
        "advantage": found.advantage[0],
        "epsilon": epsilon,
        "allowed": allowed,
        "within": None if allowed is None else found.low <= allowed,
        "predicted": predicted,
        "as_predicted": None if predicted is None else found.agrees_with(predicted),
    }


def _shared_noise(scene: _Scene) -> Result:
    from cloister.adversary.shared_noise_attack import (
        independent_noise_accuracy,
        independent_noise_membership,
        shared_noise_membership,
        sign_splitting,
    )
    from cloister.adversary.sketch_targets import draw_targets
    from cloister.sketch.per_query_release import IndependentNoise

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
            rows.append(_row(Subject.SHARED_NOISE, attack, f"shared, {claimed:g}", found, claimed))
        noise = IndependentNoise.calibrated(claimed, n_rows=30, noise="laplace")
        found = independent_noise_membership(drawn[30, 1.0], noise, rng=rng)
        name = f"independent, {claimed:g}"
        expected = independent_noise_accuracy(noise, n_rows=30)
        attack = "0 decoys, 100% known"
        rows.append(_row(Subject.SHARED_NOISE, attack, name, found, claimed, expected))
        split = sign_splitting(*own, claimed, n_trials=min(500, scene.n_trials), rng=rng)
        errors.append({"epsilon": claimed, **split._asdict()})
    return {"attacks": rows, "errors": errors}


def _averaging(scene: _Scene) -> Result:
    from cloister.adversary.query_averaging import median_accuracy, median_membership
    from cloister.adversary.sketch_targets import draw_targets
    from cloister.sketch.per_query_release import OwnerMedian
    from cloister.sketch.query_budget import median_cost

    rng, rows, policy = scene.rng("averaging"), [], OwnerMedian(epsilon=0.5)
    n_trials = min(500, scene.n_trials)
    targets = draw_targets(scene.counts, scene.key, scene.shape, n_trials=n_trials, rng=rng)
    for n in REPEATS:
        fresh = median_membership(targets, policy, n_answers=n, rng=rng)
        cost = median_cost(policy, DELTA, n_answers=n)
        expected = median_accuracy(policy, n_answers=n)
        attack = f"median {n:,} times"
        rows.append(_row(Subject.AVERAGING, attack, "fresh, 0.5 each", fresh, cost, expected))
    kept, cost = _from_memory(scene, policy)
    expected = median_accuracy(policy)
    rows.append(_row(Subject.AVERAGING, attack, "from memory, 0.5", kept, cost, expected))
    return {"attacks": rows}


def _from_memory(scene: _Scene, policy: OwnerMedian) -> tuple[Guesses, float]:
    """Ask a whole owner again and again; return the guesses, and what its ledger counts."""
    from tempfile import TemporaryDirectory

    from cloister.adversary.query_averaging import repeated_query_membership
    from cloister.privacy.ledger.ledger import Ledger
    from cloister.privacy.level import Level

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


def _terms(scene: _Scene) -> Result:
    from cloister.adversary.term_identification import identify_terms, link_repeats

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
        rows.append(_row(Subject.TERMS, attack, "not sealed", linked, None))
    return {"attacks": rows, "terms": terms}


def _release(scene: _Scene) -> Result:
    import numpy as np

    from cloister.adversary.guesses import guess_by_score
    from cloister.adversary.noisy_release_audit import NoisyReleaseAudit

    rows = []
    for epsilon in EPSILONS:
        rng, subject = scene.rng("release", int(epsilon)), NoisyReleaseAudit(epsilon=epsilon)
        n = max(scene.n_trials, 20_000)
        scores = np.concatenate([subject.scores(b, n // 2, rng=rng) for b in (0, 1)])
        truth = np.arange(len(scores)) >= n // 2
        found = guess_by_score(scores, truth, rng=rng)
        name = f"one-shot, {epsilon:g}"
        expected = subject.predicted_accuracy
        rows.append(_row(Subject.RELEASE, "all noisy numbers", name, found, epsilon, expected))
        listed, _ = _from_lists(scene, epsilon, LISTED_SHARE)
        rows.append(_row(Subject.RELEASE, "lists of 2 %", name, listed, epsilon))
        listed, expected = _from_lists(scene, epsilon, 1.0)
        rows.append(_row(Subject.RELEASE, "lists of all", name, listed, epsilon, expected))
    return {"attacks": rows}


def _from_lists(scene: _Scene, epsilon: float, share: float) -> tuple[Guesses, float]:
    """Return the guesses, and the share of right ones if all cells of the term were listed."""
    from cloister.adversary.guesses import joined, normal_accuracy
    from cloister.adversary.sketch_membership import list_membership
    from cloister.privacy.mechanisms.aes_noise import SeededWords
    from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release

    settings = NoisyReleaseSettings(
        n_rows=2,
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
    return joined(found), normal_accuracy(cells.n_moved**0.5 / cells.sigma)


def _selection(scene: _Scene) -> Result:
    from cloister.adversary.sketch_membership import selection_membership

    found = selection_membership(
        scene.counts,
        scene.key,
        scene.shape,
        max(1, int(LISTED_SHARE * scene.n_documents)),
        n_trials=min(500, scene.n_trials),
        rng=scene.rng("selection"),
    )
    name = "exact selection"
    rows = [_row(Subject.SELECTION, "ids in lists", name, found.on_all, None)]
    if found.on_exposed is not None:
        attack = f"where ids change ({found.exposed.accuracy:.0%})"
        rows.append(_row(Subject.SELECTION, attack, name, found.on_exposed, None))
    return {"attacks": rows}


def _document(scene: _Scene) -> Result:
    from cloister.adversary.sketch_membership import (
        document_accuracy,
        document_membership,
        first_tokens,
    )
    from cloister.privacy.accounting import composed_epsilon, losses_of
    from cloister.privacy.level import Level
    from cloister.privacy.mechanisms.aes_noise import SeededWords
    from cloister.sketch.release_noise import NoisyReleaseSettings, planned_release

    rows = []
    for epsilon in EPSILONS[:2]:
        for n_tokens in TOKENS:
            rng = scene.rng("document", int(epsilon), n_tokens)
            settings = NoisyReleaseSettings(epsilon=epsilon, delta=DELTA, max_length=n_tokens)
            release = planned_release(settings, n_documents=scene.n_documents, simulated=True)
            sigma = release.tables[0].sigma
            attacked = (first_tokens(scene.counts, n_tokens, rng), scene.key, settings.shape, sigma)
            found = document_membership(
                *attacked,
                words=SeededWords(int(rng.integers(2**63))),
                rng=rng,
            )
            group = composed_epsilon(losses_of([release], Level.DOCUMENT), DELTA).epsilon
            name = f"one-shot, {epsilon:g}"
            attack = f"text of {n_tokens}, or none"
            expected = document_accuracy(*attacked)
            rows.append(_row(Subject.DOCUMENT, attack, name, found, group, expected))
    return {"attacks": rows}


def _budget(scene: _Scene) -> Result:
    from cloister.sketch.query_budget import query_noise

    return {
        "budget": [
            query_noise(8.0, DELTA, n_rows=30, n_answers=n)._asdict() for n in (1, 10, *REPEATS[1:])
        ]
    }


_ATTACKS: Final = {
    Subject.SHARED_NOISE: _shared_noise,
    Subject.AVERAGING: _averaging,
    Subject.TERMS: _terms,
    Subject.RELEASE: _release,
    Subject.SELECTION: _selection,
    Subject.DOCUMENT: _document,
    Subject.BUDGET: _budget,
}
