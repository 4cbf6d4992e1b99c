"""FedPer: the first layer is learnt together, the last one stays with each client.

Arivazhagan et al. 2019; thesis section 4.3.3. A linear ranker has one layer only: FedPer is for
the neural ranker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import SettingsError
from cloister.rank.ranker import Ranker

__all__ = ["initial_private_layers", "with_private_layer"]


def initial_private_layers(ranker: Ranker, n_clients: int) -> NDArray[np.float32]:
    """Give every client its own copy of the output weights: clients x hidden units.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker.initial(RankerSettings(kind="mlp", n_features=5, hidden=3), seed=1)
    >>> initial_private_layers(ranker, 4).shape
    (4, 3)
    """
    if ranker.settings.kind != "mlp":
        raise SettingsError(
            "a linear ranker has no layer to keep at the client",
            where="fedper",
            remedy="use the ranker mlp",
        )
    return np.tile(ranker.parameters[-ranker.settings.hidden :], (n_clients, 1))


def with_private_layer(ranker: Ranker, private: NDArray[np.float32]) -> Ranker:
    """Return the shared ranker with one client's own output weights."""
    shared = ranker.parameters[: len(ranker.parameters) - len(private)]
    return ranker.with_parameters(np.concatenate((shared, private)))
