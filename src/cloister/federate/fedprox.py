"""FedProx: a client is pulled back to where the round began.

The local objective loses mu / 2 times the squared distance from the round's model, so each step's
gradient loses mu times the difference from it (Li et al. 2020; thesis section 4.3.3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import kernel

__all__ = ["pull_back"]


@kernel
def pull_back(
    local: NDArray[np.float32], origin: NDArray[np.float32], rate_times_mu: np.float32
) -> None:
    """Take the proximal term's step, inside a kernel: local -= rate * mu * (local - origin).

    Examples
    --------
    >>> local = np.array([2.0, 1.0], np.float32)
    >>> pull_back(local, np.array([0.0, 1.0], np.float32), np.float32(0.25))
    >>> local
    array([1.5, 1. ], dtype=float32)
    """
    for i in range(len(origin)):
        local[i] -= rate_times_mu * (local[i] - origin[i])
