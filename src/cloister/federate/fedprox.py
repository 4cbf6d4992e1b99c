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
    local: NDArray[np.float32],
    before: NDArray[np.float32],
    origin: NDArray[np.float32],
    rate_times_mu: np.float32,
) -> None:
    """Take the proximal term's part of a step, inside a kernel.

    ``local`` has taken the gradient's part already; the term is that of ``before``, where the step
    began: local -= rate * mu * (before - origin).

    Examples
    --------
    >>> before, origin = np.array([2.0, 1.0], np.float32), np.array([0.0, 1.0], np.float32)
    >>> local = before + np.float32(0.5)
    >>> pull_back(local, before, origin, np.float32(0.25))
    >>> local
    array([2. , 1.5], dtype=float32)
    """
    for i in range(len(origin)):
        local[i] -= rate_times_mu * (before[i] - origin[i])
