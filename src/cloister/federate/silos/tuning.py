"""How much of what other parties sent a run uses: chosen on the parties' own validation queries.

Pseudo-labels are guesses, and the more noise a release carries the worse they are. So a run that
augments is trained in a few variants, from all that was sent down to nothing of it, and the one
that ranks held-out queries best is kept; the last variant is Global. Parties that learn one ranker
choose together: each tells one number for each variant, the mean of the measure over its validation
queries, and the mean over parties decides. Those numbers leave a party, unprotected, and so do the
parameters of every variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from cloister.core.errors import SettingsError

__all__ = ["VARIANTS", "Statistics", "Variant", "choose_variant"]

Statistics = Literal["own", "pooled"]


class Variant(NamedTuple):
    """What a run takes of what others sent.

    Parameters
    ----------
    statistics
        Whether features are made with the statistics pooled over all releases, or without them:
        a party's own rows then have its own statistics, and its augmented rows too, since the
        other parties' exact ones never leave them.
    augmented_weight
        How much a pseudo-labelled row counts beside one of the party's own; 0 leaves them out.
    """

    statistics: Statistics
    augmented_weight: float


# In the order of how much is taken; of two that are equally good the first is kept.
VARIANTS: Final = (
    Variant("pooled", 1.0),
    Variant("pooled", 0.3),
    Variant("pooled", 0.0),
    Variant("own", 0.3),
    Variant("own", 0.0),
)


def choose_variant(
    variants: Sequence[Variant], measured: Mapping[Variant, Sequence[float]]
) -> Variant:
    """Return the variant with the highest mean over parties, the first of equals.

    Parameters
    ----------
    variants
        What was tried, in order.
    measured
        The mean of each party's validation queries, by variant. A party without judged queries
        gives NaN and has no say.

    Examples
    --------
    >>> pooled, own = VARIANTS[0], VARIANTS[-1]
    >>> choose_variant([pooled, own], {pooled: [0.5, 0.7], own: [0.6, 0.7]})
    Variant(statistics='own', augmented_weight=0.0)
    """
    if not variants:
        raise SettingsError("no variant to choose from", where="variants")
    means = []
    for variant in variants:
        values = np.asarray(measured[variant], np.float64)
        known = values[~np.isnan(values)]
        means.append(float(known.mean()) if len(known) else -np.inf)
    return variants[int(np.argmax(means))]
