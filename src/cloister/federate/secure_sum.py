"""A sum of clients' updates that shows no single one: protection, then secure aggregation.

Here all clients live in one process: what an engine would carry between machines, without the
network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cloister.core.errors import BudgetExceeded, DataError
from cloister.federate.protected_update import UpdateProtection
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.release import Release
from cloister.privacy.secure_aggregation.client import Stage
from cloister.privacy.secure_aggregation.in_process import run_round
from cloister.privacy.secure_aggregation.session import Session

__all__ = ["SecureTotal", "secure_sum"]


class SecureTotal(NamedTuple):
    """What the server gets: the noisy sum, and whose updates are in it."""

    values: NDArray[np.float64]
    client_ids: tuple[str, ...]


def secure_sum(
    updates: Mapping[str, ArrayLike],
    protection: UpdateProtection,
    source: NoiseSource,
    *,
    min_survivors: int | None = None,
    record: Callable[[str, Release], None] | None = None,
    identities: Mapping[str, SigningIdentity] | None = None,
    dropouts: Mapping[str, Stage] | None = None,
) -> SecureTotal:
    """Return the noisy sum of clipped updates, by the whole protocol.

    Parameters
    ----------
    updates
        By client; each is protected when its client masks it, and not before.
    protection
        What the clients agreed on.
    source
        Of each client's share of the noise.
    min_survivors
        A sum of fewer is not formed: at least what the protection asks for, which is used unless
        more is given. The closer to the number of clients, the more colluders it tolerates.
    record
        Told of each client and of what it is about to release to the server, which knows who
        takes part, before the client joins. A client for which it raises `BudgetExceeded` stays
        away. What is recorded stays so if the sum is never formed.
    identities
        Long-term keys by client; new ones unless given.
    dropouts
        The stage at which a client falls silent.

    Examples
    --------
    >>> from cloister.privacy.mechanisms.secure_noise import SecureNoise
    >>> updates = {f"client-{i}": [0.1, -0.2] for i in range(5)}
    >>> agreed = UpdateProtection(clip_norm=1.0, sigma=1e-4, min_survivors=3, n_values=2)
    >>> total = secure_sum(updates, agreed, SecureNoise(),
    ...                    dropouts={"client-4": Stage.MASK_INPUT})
    >>> total.values.round(2).tolist(), len(total.client_ids)
    ([0.4, -0.8], 4)
    """
    least = max(protection.min_survivors, min_survivors or 0)
    release = protection.release(simulated=source.simulated)
    joining = [name for name in updates if record is None or _allowed(record, name, release)]
    if len(joining) < least:
        raise DataError(
            f"{len(joining)} clients came and {least} are needed to hide in",
            where="secure sum",
            remedy="wait for more clients, or agree on fewer",
        )
    keys = identities or {client: SigningIdentity.generate() for client in joining}
    session = Session.new(
        joining,
        n_values=protection.n_values,
        fixed_point=protection.fixed_point,
        min_survivors=least,
        n_colluders=protection.n_colluders,
    )

    def contribution(client: str, n_sharers: int) -> NDArray[np.int64]:
        return protection.protected(updates[client], source)

    found = run_round(session, keys, contribution, dropouts=dropouts)
    n = len(found.client_ids)
    total = protection.fixed_point.decode_counts(found.total, n_clients=n)
    return SecureTotal(protection.decoded(total), found.client_ids)


def _allowed(record: Callable[[str, Release], None], client: str, release: Release) -> bool:
    try:
        record(client, release)
    except BudgetExceeded:
        return False
    return True
