"""``cloister sketch release``, step by step: plan, refuse early, noise, record, write."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cloister.app.sketch_collection import Counted
from cloister.core.errors import NotFound, StoreError
from cloister.privacy.ledger.entry import Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.privacy.release import Release
from cloister.sketch.cell_counts import cell_type
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyRelease, make_release
from cloister.sketch.release_noise import planned_release
from cloister.sketch.release_planner import PlanFacts, ReleasePlan, dense_bytes, plan_release

__all__ = ["Recording", "describe_release", "plan", "release_sketch"]

Result = dict[str, Any]
Say = Callable[[str], None]

LEAST_MEMORY_BYTES: Final = 16_000_000  # small collections need no thrift
MOST_ASKED: Final = 150  # documents a query asks for, K of CS-F-LTR
DOCUMENTS_AN_ANSWER: Final = 20  # of fewer documents, a query asks for one in so many


def plan(
    n_documents: int,
    *,
    epsilon: float,
    delta: float,
    mean_length: float,
    memory_mb: float | None = None,
    k: int | None = None,
    max_length: int | None = None,
) -> ReleasePlan:
    """Choose the sizes of a release from what is public; the counts are not looked at.

    Examples
    --------
    >>> chosen = plan(600, epsilon=2.0, delta=1e-6, mean_length=1000)
    >>> chosen.settings.cell_size, chosen.size_bytes <= LEAST_MEMORY_BYTES
    (60, True)
    """
    memory = max(dense_bytes(n_documents) // 8, LEAST_MEMORY_BYTES)
    facts = PlanFacts(
        epsilon=epsilon,
        delta=delta,
        documents=n_documents,
        mean_length=mean_length,
        memory_bytes=memory if memory_mb is None else round(memory_mb * 1e6),
        k=k or min(MOST_ASKED, max(10, n_documents // DOCUMENTS_AN_ANSWER)),
        max_length=max_length,
    )
    return plan_release(facts)


class Recording(NamedTuple):
    """Where a release is recorded, and under which names."""

    ledger: str
    party_id: str
    recipient: str
    purpose: str


def release_sketch(
    counted: Counted,
    key: HashKey,
    chosen: ReleasePlan,
    out: Path,
    *,
    recording: Recording | None,
    seed: int | None,
    say: Say,
) -> Result:
    """Make a noisy release, record it, write it; return what it is and what it costs.

    Parameters
    ----------
    chosen
        Its sizes.
    recording
        None records nothing.
    seed
        Noise from this seed, which protects nobody; None for noise from AES under a new key.
    say
        Is told what is being done.
    """
    n_documents, settings = counted.counts.n_documents, chosen.settings
    if recording is not None:
        simulated = seed is not None
        planned = planned_release(settings, n_documents=n_documents, simulated=simulated)
        _refuse_early(recording, planned)
    say(f"noise on {n_documents * settings.shape.n_cells:,} cells")
    start = time.perf_counter()
    words = None if seed is None else SeededWords(seed)
    made = make_release(counted.counts, key, settings, words=words)
    seconds = time.perf_counter() - start
    say("recording and writing")
    receipt = _write_recorded(made, out, recording)
    dense = n_documents * settings.shape.n_cells * cell_type(counted.counts)().itemsize
    return describe_release(made) | {
        "file": str(out),
        "file_bytes": out.stat().st_size,
        "per_document_sketches_bytes": dense,
        "expected_error": {"noise": chosen.noise_error, "collisions": chosen.collision_error},
        "build_seconds": seconds,
        "ledger": None if recording is None or receipt is None else _told(recording, receipt),
    }


def _refuse_early(recording: Recording, planned: Release) -> None:
    """Raise `BudgetExceeded` before the work where the limit does not allow it.

    The ledger decides again when the release is recorded.
    """
    with Ledger.open(recording.ledger, create=False, require_limit=True) as ledger:
        ledger.check(
            planned,
            party_id=recording.party_id,
            recipient=recording.recipient,
            purpose=recording.purpose,
        )


def _write_recorded(made: NoisyRelease, out: Path, recording: Recording | None) -> Receipt | None:
    """Write a release beside its place, record it, give the file its name, note that it is there.

    A file that cannot be written costs nothing. Stopped between the record and the name, there is
    an entry and no file: the cost counts, and nothing has left.
    """
    if recording is None:
        made.save(out)
        return None
    ledger_open = Ledger.open(recording.ledger, create=False, require_limit=True)
    with ledger_open as ledger, made.saved_aside(out) as put_in_place:
        receipt = made.record(
            ledger,
            party_id=recording.party_id,
            recipient=recording.recipient,
            purpose=recording.purpose,
        )
        try:
            put_in_place()
        except (StoreError, NotFound) as error:
            raise StoreError(
                f"{error.what}; entry {receipt.number} of the ledger stays and its cost counts, "
                "though nothing was written",
                where=error.where,
                remedy=error.remedy,
            ) from error
        ledger.delivered(receipt.number)
    return receipt


def describe_release(made: NoisyRelease) -> Result:
    """Say what a noisy release is and what it costs."""
    settings = made.settings
    return {
        "kind": made.kind,
        "protected": not made.simulated,
        "simulated": made.simulated,
        "documents": made.n_documents,
        "key_fingerprint": made.key_fingerprint,
        "level": str(made.release.level),
        "neighbours": made.release.neighbours,
        "epsilon": made.epsilon(),
        "delta": settings.delta,
        "epsilon_document": made.epsilon(level=Level.DOCUMENT),
        "max_length": settings.max_length,
        "noise": made.cells.family,
        "sigma": {table.name: table.sigma for table in made.release.tables},
        "n_rows": settings.n_rows,
        "n_columns": settings.n_columns,
        "cell_size": settings.cell_size,
        "size_bytes": made.size_bytes,
    }


def _told(recording: Recording, receipt: Receipt) -> Result:
    from cloister.store.addresses import parse_address

    return {
        "address": parse_address(recording.ledger).shown,
        "entry": receipt.number,
        "party": recording.party_id,
        "recipient": recording.recipient,
        "purpose": recording.purpose,
    }
