"""The ledger: releases recorded a second with the limit checked, composition, the oracle table."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import sqlalchemy as sa

from cloister.lab.bench import Advance, Figures, timed
from cloister.privacy.accounting import Accounting, composed_epsilon
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.releases.gaussian import GaussianRelease

__all__ = ["run"]

PAYLOAD: Final = bytes(136 * 4)  # a linear ranker's update
EQUAL: Final = GaussianRelease(level=Level.USER, sigma=1.0, sensitivity=1.0, sampling_rate=0.01)
TO: Final = "coordinator"
WHY: Final = "benchmark"
N_SINGLE: Final = 500  # each in a transaction of its own
N_TOGETHER: Final = 10_000
DELTA: Final = 1e-6
N_DIFFERENT: Final = 74  # releases of as many noises
NEAR: Final = 68  # from here on they are timed
DIFFERENT_LIMIT: Final = 6.0
# Poisson sampling rate, noise multiplier, rounds; epsilon by RDP and PLD as the design states it.
ORACLES: Final = ((0.01, 1.0, 1000, 2.4367, 2.1245), (0.1, 2.0, 500, 6.6793, 6.2167))
COMPOSED: Final = ((1_000, "rdp"), (1_000, "pld"), (10_000, "rdp"), (10_000, "pld"))


def run(advance: Advance) -> Figures:
    """Record, check and compose; the difference from the oracle values is part of the result."""
    figures: Figures = {}
    with TemporaryDirectory() as folder, Ledger.open(Path(folder, "ledger.db")) as ledger:
        ledger.set_limit("clinic", Limit(epsilon=100.0, delta=DELTA), purpose=WHY)
        figures |= _record(ledger, advance)
        advance(4, 7)
        figures |= _different(ledger)
    advance(5, 7)
    figures |= _compose()
    advance(6, 7)
    figures |= _oracles()
    advance(7, 7)
    return figures


def _record(ledger: Ledger, advance: Advance) -> Figures:
    _release(ledger, 1)  # imports the accountant
    advance(1, 7)
    with timed() as single:
        for _ in range(N_SINGLE):
            ledger.release(EQUAL, PAYLOAD, party_id="clinic", recipient=TO, purpose=WHY)
    advance(2, 7)
    with timed() as together:
        _release(ledger, N_TOGETHER)
    advance(3, 7)
    with timed() as checking:
        checked = check_ledger(ledger)
    return {
        "releases_per_s": N_SINGLE / single.wall_s,
        "releases_in_one_transaction_per_s": N_TOGETHER / together.wall_s,
        "check_entries_per_s": checked.n_entries / checking.wall_s,
    }


def _different(ledger: Ledger) -> Figures:
    """Time releases of which each has a noise of its own."""
    ledger.set_limit("different", Limit(epsilon=DIFFERENT_LIMIT, delta=DELTA), purpose=WHY)

    def release(sigma: float) -> None:
        noisy = GaussianRelease(level=Level.USER, sigma=sigma, sensitivity=1.0, sampling_rate=0.1)
        ledger.release(noisy, PAYLOAD, party_id="different", recipient=TO, purpose=WHY)

    for i in range(NEAR):
        release(2.0 + 0.01 * i)
    seconds = []
    for i in range(NEAR, N_DIFFERENT):
        with timed() as timing:
            release(2.0 + 0.01 * i)
        seconds.append(timing.wall_s)
    return {"different_median_s": median(seconds), "different_most_s": max(seconds)}


def _release(ledger: Ledger, n_releases: int) -> None:
    def work(connection: sa.Connection) -> None:
        for _ in range(n_releases):
            ledger.release_in(
                connection, EQUAL, PAYLOAD, party_id="clinic", recipient=TO, purpose=WHY
            )

    ledger.database.run(work)


def _compose() -> Figures:
    figures: Figures = {}
    for n_releases, method in COMPOSED:
        # A noise of its own for each: what was worked out before is not used again.
        loss = Loss("gaussian", 1.0 + n_releases * 1e-9, sampling_rate=0.01)
        with timed() as timing:
            composed_epsilon({loss: n_releases}, DELTA, method=_method(method))
        figures[f"compose_{n_releases}_{method}_wall_s"] = timing.wall_s
    return figures


def _oracles() -> Figures:
    figures: Figures = {}
    worst = 0.0
    for rate, noise, n_rounds, by_rdp, by_pld in ORACLES:
        losses = {Loss("gaussian", noise, sampling_rate=rate): n_rounds}
        for method, oracle in (("rdp", by_rdp), ("pld", by_pld)):
            epsilon = composed_epsilon(losses, DELTA, method=_method(method)).epsilon
            figures[f"epsilon_{method}_q{rate}_sigma{noise:g}_{n_rounds}_rounds"] = epsilon
            worst = max(worst, abs(epsilon - oracle))
    return figures | {"largest_difference_from_oracle": worst}


def _method(name: str) -> Accounting:
    return "rdp" if name == "rdp" else "pld"
