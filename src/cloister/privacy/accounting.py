"""What releases cost together, for reports: composition by divergences and by loss distributions.

Both give an upper bound on the true epsilon of releases that were planned beforehand; the smaller
one counts. The distribution of the privacy loss (PLD) is nearly exact; Renyi divergence (RDP) is
quick. Normal noise without sampling composes exactly: many such releases are one with less noise,
whose loss has a closed form (Balle and Wang 2018). The arithmetic is ``dp_accounting``'s.

Neither covers releases whose noise was chosen by what earlier ones have shown. Whether a release
may pass is decided by :mod:`cloister.privacy.filters`, from `divergence` at one order.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.release import LARGEST_EXPONENT, Release

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "Accounting",
    "Cost",
    "composed_epsilon",
    "divergence",
    "losses_of",
    "pure_epsilon",
]

Accounting = Literal["tightest", "rdp", "pld"]
Losses = Mapping[Loss, int]
_Counted = tuple[tuple[Loss, int], ...]

FINE_STEP: Final = 1e-4  # between the losses that a distribution is divided into
BEYOND_INTEREST: Final = 1e6  # such an epsilon promises nothing: the quick bound will do
SMALL_EPSILON: Final = 1e-3  # below, sums of exact terms would drown in rounding errors
LEAST_NOISE: Final = 1e-100  # less noise than that, over sensitivity, is none
MOST_STEPS: Final = 4_000_000  # beyond, steps get coarser: the bound stays one, and gets looser


class Cost(NamedTuple):
    """An epsilon, with the method that gave it."""

    epsilon: float
    method: Literal["rdp", "pld", "sum", "none"]


def losses_of(releases: Iterable[Release], level: Level = Level.USER) -> Counter[Loss]:
    """Count the losses of some releases, as far as one unit of a level is concerned.

    Examples
    --------
    >>> from cloister.privacy.releases.gaussian import GaussianRelease
    >>> one_round = GaussianRelease(level="user", sigma=1.0, sensitivity=1.0, sampling_rate=0.01)
    >>> list(losses_of([one_round] * 1000).values())
    [1000]
    """
    counted: Counter[Loss] = Counter()
    for release in releases:
        counted.update(release.loss_counts(level))
    return counted


def composed_epsilon(
    losses: Losses, delta: float, *, method: Accounting = "tightest", step: float = FINE_STEP
) -> Cost:
    """Return the epsilon that holds of all losses together, with the chance 1 - ``delta``.

    Parameters
    ----------
    losses
        Each with how often it was suffered. None of them was chosen by the results of another.
    delta
        In (0, 1); well below one over the number of units.
    method
        ``tightest`` takes the smallest of all bounds; for losses that hold without delta their
        plain sum is one as well.
    step
        Between the losses that a distribution is divided into; coarser ones are quicker and give
        a looser bound.

    Examples
    --------
    >>> round_ = Loss("gaussian", 1.0, sampling_rate=0.01)
    >>> round(composed_epsilon({round_: 1000}, 1e-6).epsilon, 4)
    2.1245
    >>> round(composed_epsilon({round_: 1000}, 1e-6, method="rdp").epsilon, 4)
    2.4367
    """
    if not 0 < delta < 1:
        raise SettingsError(f"must lie between 0 and 1 (given: {delta})", where="delta")
    merged = _merged(losses)
    if not merged:
        return Cost(0.0, "none")
    if any(_is_unbounded(loss) for loss, _ in merged):
        return Cost(math.inf, "none")
    if method == "pld":
        return Cost(_pld_epsilon(merged, delta, step), "pld")
    # Bounds may fail by themselves: the rest of delta is for all losses together.
    spare = delta - sum(count * loss.delta for loss, count in merged)
    quick = Cost(_rdp_epsilon(merged, spare) if spare > 0 else math.inf, "rdp")
    if method == "rdp" or BEYOND_INTEREST < quick.epsilon < math.inf:
        return quick
    plain = Cost(math.inf, "sum")
    if spare >= 0:
        plain = Cost(sum(count * pure_epsilon(loss) for loss, count in merged), "sum")
    return min(quick, plain, Cost(_pld_epsilon(merged, delta, step), "pld"))


def _is_unbounded(loss: Loss) -> bool:
    if loss.kind == "bound":
        return not loss.noise < math.inf
    return loss.kind == "unbounded" or not LEAST_NOISE < loss.noise < math.inf


def _is_free(loss: Loss) -> bool:
    """Tell whether a loss is none: an answer at random, or a bound of zero."""
    if loss.kind == "response":
        return loss.noise >= 1
    return loss.kind == "bound" and loss.noise == loss.delta == 0


def _merged(losses: Losses) -> _Counted:
    """Join all normal noise without sampling into one loss: 1/z^2 = sum of 1/z_i^2."""
    precision = 0.0
    others: dict[Loss, int] = {}
    for loss, count in losses.items():
        if loss.kind == "gaussian" and loss.sampling_rate == 1.0 and not _is_unbounded(loss):
            precision += count * (1 / loss.noise) ** 2
        elif count and not _is_free(loss):
            others[loss] = others.get(loss, 0) + count
    if precision:
        others[Loss("gaussian", 1 / math.sqrt(precision))] = 1
    return tuple(sorted(others.items()))


@lru_cache(maxsize=512)
def _rdp_epsilon(merged: _Counted, delta: float) -> float:
    from dp_accounting import rdp

    orders = _orders()
    total = np.zeros(len(orders))
    for loss, count in merged:
        total += count * _rdp(loss)
    if not np.isfinite(total).any():
        return math.inf
    return float(
        rdp.compute_epsilon(orders[np.isfinite(total)], total[np.isfinite(total)], delta)[0]
    )


@lru_cache(maxsize=1)
def _orders() -> NDArray[np.float64]:
    """Return the accountant's usual orders."""
    from dp_accounting import rdp

    return np.asarray(rdp.RdpAccountant().orders, np.float64)


@lru_cache(maxsize=512)
def _rdp(loss: Loss) -> NDArray[np.float64]:
    """Return the Renyi divergences of one loss, by order."""
    return _divergences(loss, _orders())


def divergence(loss: Loss, order: float) -> float:
    """Return the Renyi divergence of one loss at an order; infinity where it has no bound.

    For a bound with a delta it is that of its epsilon: the delta counts apart.

    Examples
    --------
    >>> divergence(Loss("gaussian", 2.0), 6.0)  # alpha / (2 sigma^2)
    0.75
    """
    return _divergence(loss, float(order))


@lru_cache(maxsize=4096)
def _divergence(loss: Loss, order: float) -> float:
    if _is_unbounded(loss):
        return math.inf
    if _is_free(loss):
        return 0.0
    return float(_divergences(loss, np.array([order]))[0])


def _divergences(loss: Loss, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    match loss.kind:
        case "gaussian" if loss.sampling_rate == 1:
            return 0.5 * orders * (1 / loss.noise) ** 2
        case "discrete-gaussian" | "concentrated":
            # Canonne, Kamath and Steinke 2020, theorem 4: discrete noise diverges no more.
            return 0.5 * orders * (loss.steps / loss.noise) ** 2
        case "discrete-laplace":
            return _of_discrete_laplace(loss, orders)
        case "response":
            n = loss.steps
            return _of_two_answers(1 - loss.noise * (n - 1) / n, loss.noise / n, n, orders)
        case "bound" if loss.noise > LARGEST_EXPONENT:
            return np.full(len(orders), loss.noise)
        case "bound":
            # The worst of all with this epsilon is randomised response of two answers
            # (Kairouz, Oh and Viswanath 2015).
            other = 1 / (1 + math.exp(loss.noise))
            return np.minimum(loss.noise, _of_two_answers(1 - other, other, 2, orders))
        case _:
            return _by_accountant(loss, orders)


def _of_two_answers(
    kept: float, other: float, n_answers: int, orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the divergences of answers by chance: the true one, or any single other one."""
    ratio = math.log(kept) - math.log(other)
    if ratio < SMALL_EPSILON:
        return _of_small_epsilon(ratio, orders)
    up = math.log(kept) + (orders - 1) * ratio
    down = math.log(other) - (orders - 1) * ratio
    both = np.logaddexp(up, down)
    if n_answers > 2:
        both = np.logaddexp(both, math.log((n_answers - 2) * other))
    return np.clip(both / (orders - 1), 0.0, ratio)


def _of_discrete_laplace(loss: Loss, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exact divergences of discrete Laplace noise moved by some steps.

    The sum of p(x)^a p(x - k)^(1 - a) falls into three geometric ones, with r = 1 / scale: x <= 0,
    x >= k and what lies between.
    """
    rate, k = 1 / loss.noise, loss.steps
    if rate * k < SMALL_EPSILON:
        return _of_small_epsilon(rate * k, orders)
    weight = math.log(math.tanh(min(rate, LARGEST_EXPONENT) / 2))
    tail = -math.log(-math.expm1(-rate))
    total = np.logaddexp((orders - 1) * rate * k + tail, -orders * rate * k + tail)
    if k > 1:
        ratio = rate * (1 - 2 * orders)  # from one x to the next
        between = ratio + (orders - 1) * rate * k
        n_terms = np.log(-np.expm1((k - 1) * ratio)) - np.log(-np.expm1(ratio))
        total = np.logaddexp(total, between + n_terms)
    return np.clip((total + weight) / (orders - 1), 0.0, rate * k)


def _of_small_epsilon(epsilon: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a bound for pure epsilon that no rounding spoils: Bun and Steinke 2016, prop. 3.3."""
    return np.minimum(epsilon, 0.5 * orders * epsilon**2)


def _by_accountant(loss: Loss, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    import dp_accounting
    from dp_accounting import rdp

    event: Any = dp_accounting.LaplaceDpEvent(loss.noise)
    if loss.kind == "gaussian":
        normal = dp_accounting.GaussianDpEvent(loss.noise)
        event = dp_accounting.PoissonSampledDpEvent(loss.sampling_rate, normal)
    accountant = rdp.RdpAccountant(orders.tolist())
    with _quiet():
        accountant.compose(event)
    # A divergence below 0 is a rounding error, which the conversion would take for no cost at all.
    return np.maximum(np.asarray(accountant.rdp, np.float64), 0.0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the accountant about orders that it leaves out: the others still bound the cost."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def pure_epsilon(loss: Loss) -> float:
    """Return the epsilon that holds but for the loss's own delta; infinity if there is none."""
    if _is_free(loss):
        return 0.0
    match loss.kind:
        case "laplace":
            return 1 / loss.noise
        case "discrete-laplace":
            return loss.steps / loss.noise
        case "response":
            n = loss.steps
            return math.log((1 - loss.noise * (n - 1) / n) / (loss.noise / n))
        case "bound":
            return loss.noise
        case _:
            return math.inf


@lru_cache(maxsize=128)
def _pld_epsilon(merged: _Counted, delta: float, least_step: float) -> float:
    if len(merged) == 1 and merged[0][0].kind == "gaussian" and merged[0][0].sampling_rate == 1:
        return _gaussian_epsilon(merged[0][0].noise, delta)
    if any(loss.kind == "concentrated" for loss, _ in merged):
        return math.inf  # nothing but divergences is known
    if any(loss.kind == "bound" and loss.noise > LARGEST_EXPONENT for loss, _ in merged):
        return math.inf  # more than the accountant can hold
    step = _step(merged, least_step)
    total: PrivacyLossDistribution | None = None
    for loss, count in merged:
        one = _pld(loss, step)
        many = one if count == 1 else one.self_compose(count)
        total = many if total is None else total.compose(many)
    return math.inf if total is None else float(total.get_epsilon_for_delta(delta))


def _gaussian_epsilon(noise: float, delta: float) -> float:
    """Return the exact epsilon of one normal variable, by Balle and Wang 2018, theorem 8."""
    from dp_accounting import gaussian_mechanism

    with np.errstate(divide="ignore"):  # log(0) is meant to be minus infinity there
        exact = gaussian_mechanism.get_epsilon_gaussian(noise, delta)
    return float(exact * (1 + 1e-9))  # the root is found to 12 digits


def _step(merged: _Counted, least_step: float) -> float:
    """Choose steps fine enough for the bound and coarse enough for memory."""
    span = sum(_reach(loss, count) for loss, count in merged)
    return max(least_step, span / MOST_STEPS)


def _reach(loss: Loss, count: int) -> float:
    """Return about how large the loss of so many releases can get."""
    if loss.kind == "gaussian":  # mean (at most) and tails, cut off where they no longer matter
        mean = 0.5 * (1 / loss.noise) ** 2
        return count * loss.sampling_rate * mean + math.sqrt(count) * (mean + 12 / loss.noise)
    if loss.kind == "discrete-gaussian":
        shift = loss.steps / loss.noise
        return count * (0.5 * shift**2 + 12 * shift)
    pure = pure_epsilon(loss)
    return count * (pure if math.isfinite(pure) else loss.noise)


@lru_cache(maxsize=256)
def _pld(loss: Loss, step: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import common, privacy_loss_distribution

    options: Any = {"value_discretization_interval": step}
    match loss.kind:
        case "gaussian":
            return privacy_loss_distribution.from_gaussian_mechanism(
                loss.noise, sampling_prob=loss.sampling_rate, **options
            )
        case "discrete-gaussian":
            return privacy_loss_distribution.from_discrete_gaussian_mechanism(
                loss.noise, sensitivity=loss.steps, **options
            )
        case "laplace":
            return privacy_loss_distribution.from_laplace_mechanism(loss.noise, **options)
        case "discrete-laplace":
            with np.errstate(over="ignore"):  # e to a large power: a chance of 0 beside it
                return privacy_loss_distribution.from_discrete_laplace_mechanism(
                    1 / loss.noise, sensitivity=loss.steps, **options
                )
        case "response":
            return privacy_loss_distribution.from_randomized_response(
                loss.noise, loss.steps, **options
            )
        case _:
            bound = common.DifferentialPrivacyParameters(loss.noise, loss.delta)
            return privacy_loss_distribution.from_privacy_parameters(bound, **options)
