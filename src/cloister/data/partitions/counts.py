"""How many clients a partition has."""

from __future__ import annotations

from cloister.core.errors import SettingsError

__all__ = ["checked_n_clients"]


def checked_n_clients(n_clients: int) -> int:
    """Return the number of clients if there is at least one, else raise.

    Examples
    --------
    >>> checked_n_clients(3)
    3
    """
    if n_clients < 1:
        raise SettingsError(f"must be at least 1 (given: {n_clients})", where="n_clients")
    return n_clients
