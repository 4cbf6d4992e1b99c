"""Federated averaging: the new model is the mean of the clients', weighted by interactions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.federate.local_training import RoundSums

__all__ = ["averaged", "checked", "summed"]


def averaged(models: NDArray[np.float64], sums: RoundSums) -> NDArray[np.float64]:
    """Return each model moved by the weighted mean of its clients' differences.

    Thesis eq. 3.16: theta <- sum over clients of (n_c / n) theta_c. With every theta_c written as
    theta plus a difference, the sum is theta plus the weighted mean difference. A model from which
    no participant began stays as it is.

    Examples
    --------
    >>> sums = RoundSums(np.array([[6.0, -3.0]]), np.array([3.0]), 0.0, 0.0, 0.0)
    >>> averaged(np.array([[1.0, 1.0]]), sums)
    array([[3., 0.]])
    """
    n = np.maximum(sums.n_interactions, 1.0)[:, None]
    return checked(models + sums.differences / n)


def summed(models: NDArray[np.float64], sums: RoundSums) -> NDArray[np.float64]:
    """Return the models moved by the sum of all gradients: PDGD in batches (section 3.1.3).

    For clients of one interaction each, whose difference is their gradient times the rate.
    """
    return checked(models + sums.differences)


def checked(models: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the models if every parameter is finite, else raise."""
    if not np.isfinite(models).all():
        raise DataError(
            "training diverged: a parameter is no longer finite",
            where="model",
            remedy="lower the learning rate, or normalise the features",
        )
    return models
