"""The coordinator's side of a round in the open: one call, and every site's mean update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.federate.engines.engine import Engine, ask_sites
from cloister.federate.engines.round_messages import RoundAnnouncement, SiteUpdate, announced_to
from cloister.federate.engines.site_call import SiteId, SiteMethod

__all__ = ["SiteUpdates", "gather_updates"]


class SiteUpdates(NamedTuple):
    """What came from sites in one round.

    Parameters
    ----------
    sites
        Who sent an update.
    differences
        Sites x parameters.
    n_interactions
        By site.
    silent, faults
        As `Heard` has them.
    """

    sites: tuple[SiteId, ...]
    differences: NDArray[np.float64]
    n_interactions: NDArray[np.int64]
    silent: tuple[SiteId, ...]
    faults: dict[SiteId, str]


def gather_updates(
    engine: Engine,
    told: RoundAnnouncement,
    last_counted: Mapping[str, int],
    *,
    longest: float,
    timeout_s: float,
) -> SiteUpdates:
    """Announce a round to all sites; return what they have learnt.

    A site whose update is longer than ``longest`` is refused, and named among the faults.
    """
    announced = announced_to(engine.sites(), told, last_counted)
    heard = ask_sites(engine, SiteMethod.TRAIN, told.round_number, announced, timeout_s=timeout_s)
    n_parameters = len(told.model)
    faults, updates = dict(heard.faults), dict[SiteId, SiteUpdate]()
    for site, answer in heard.answers.items():
        try:
            update = SiteUpdate.from_bytes(answer, n_parameters=n_parameters)
            if np.linalg.norm(update.difference) > longest:
                raise DataError("the update is longer than was agreed on")
            updates[site] = update
        except DataError as error:
            faults[site] = type(error).__name__
    differences = np.zeros((len(updates), n_parameters))
    for row, update in enumerate(updates.values()):
        differences[row] = update.difference
    counts = np.array([update.n_interactions for update in updates.values()], np.int64)
    return SiteUpdates(tuple(updates), differences, counts, heard.silent, faults)
