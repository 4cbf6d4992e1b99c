"""The demo's step on sketches: one organisation searches the notes of another."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cloister.adversary.guesses import Guesses, advantage_bound, joined
from cloister.adversary.shared_noise_attack import shared_noise_membership
from cloister.adversary.sketch_membership import list_membership
from cloister.adversary.sketch_targets import draw_targets
from cloister.app.demo.state import DemoState, StepOutcome
from cloister.core.random import stream
from cloister.index.term_counts import TermCounts, count_terms
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.noisy_release import NoisyRelease, make_release
from cloister.sketch.release_noise import NoisyReleaseSettings
from cloister.sketch.sketched_counts import SketchedCounts

__all__ = ["search_by_sketch"]

EPSILON: Final = 2.0
DELTA: Final = 1e-6
TERM: Final = "hypertension"
K: Final = 5
PAPER_EPSILON: Final = 0.5  # what CS-F-LTR claims of an answer
PAPER_SHAPE: Final = SketchShape(n_rows=30, n_columns=200)
N_TRIALS: Final = 240  # guesses of each attack, about


def search_by_sketch(state: DemoState) -> StepOutcome:
    """Let an organisation release a noisy sketch, and another one search it."""
    owner, asker = (one.party_id for one in state.clinic.organisations[:2])
    counts = _notes_of(state, owner)
    key = HashKey(stream(state.seed, "demo", "hash key").bytes(32))
    settings = NoisyReleaseSettings(
        n_rows=2, n_columns=3000, cell_size=60, epsilon=EPSILON, delta=DELTA
    )
    made = make_release(counts, key, settings, words=SeededWords(state.seed))
    cost = _recorded(state, made, owner, asker)
    content = made.to_bytes()  # what travels
    found = SketchedCounts(NoisyRelease.from_bytes(content), key).top(TERM, K).documents[0]
    n_right = _n_right(counts, found)
    attacked = _attack(state, counts, key, settings)
    allowed = 0.5 + advantage_bound(EPSILON, DELTA) / 2
    return StepOutcome(
        {
            "documents": counts.n_documents,
            "bytes": len(content),
            "epsilon": cost,
            "delta": DELTA,
            "found": found.tolist(),
            "right": n_right,
            "guessed_right_paper": attacked.paper.accuracy,
            "guessed_right_ours": attacked.ours.accuracy,
            "guessed_right_allowed": allowed,
        },
        [
            f"{owner} releases a noisy sketch of {counts.n_documents} records to {asker}: "
            f"{len(content) / 1e6:.1f} MB; the ledger: epsilon {cost:.3f} for one token "
            f"(delta {DELTA:g}), however many queries; noise of a simulation",
            f"{asker} looks for {TERM!r} at home, and nobody learns of it: {n_right} of the "
            f"{K} records found are among the {K} that have it most",
            "is one more word in a record? Right guesses, where chance is 50 %: "
            f"{attacked.paper.accuracy:.0%} from one answer with the noise of CS-F-LTR as printed "
            f"(epsilon {PAPER_EPSILON:g} claimed)",
            f"{attacked.ours.accuracy:.0%} from the release; its epsilon allows {allowed:.0%}",
        ],
    )


def _notes_of(state: DemoState, organisation: str) -> TermCounts:
    """Count the terms of one organisation's records; its pods lie side by side on its servers."""
    world = state.clinic
    texts: list[str] = []
    for number, server in enumerate(world.servers):
        if server.organisation == organisation:
            pods = number * world.settings.pods, (number + 1) * world.settings.pods
            texts += [document.text for document in world.documents(*pods)]
    return count_terms(texts)


def _recorded(state: DemoState, made: NoisyRelease, owner: str, asker: str) -> float:
    """Record the release under a limit for tokens; return what the party has spent."""
    with Ledger.open(state.folder / "ledger.db") as ledger:
        limit = Limit(epsilon=EPSILON, delta=DELTA, level=Level.TOKEN)
        ledger.set_limit(owner, limit, purpose="the demo's limit")
        receipt = made.record(ledger, party_id=owner, recipient=asker, purpose="joint search")
        ledger.delivered(receipt.number)
        return ledger.cost(owner, delta=DELTA, level=Level.TOKEN, simulated=True).epsilon


def _n_right(counts: TermCounts, found: np.ndarray) -> int:
    """Count the documents found that are among the best by exact counts; ties are right."""
    exact = counts.term_counts([TERM], np.arange(counts.n_documents))[0]
    return int((exact[found] >= np.sort(exact)[-K]).sum())


class _Attacked(NamedTuple):
    paper: Guesses
    ours: Guesses


def _attack(
    state: DemoState, counts: TermCounts, key: HashKey, settings: NoisyReleaseSettings
) -> _Attacked:
    """Guess whether a token was added, from a printed answer and from releases as shipped."""
    rng = stream(state.seed, "demo", "sketch attack")
    targets = draw_targets(counts, key, PAPER_SHAPE, n_trials=N_TRIALS, rng=rng)
    paper = shared_noise_membership(targets, PAPER_EPSILON, rng=rng)
    ours = [
        list_membership(counts, key, settings, words=SeededWords(int(rng.integers(2**63))), rng=rng)
        for _ in range(-(-N_TRIALS // counts.n_documents))
    ]
    return _Attacked(paper, joined(ours))
