"""What a stored federation is at one time, as records of its database."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from cloister.core.errors import Damaged, DataError, SettingsError
from cloister.lab.forgetting.certificate import Certificate
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.store.keyed_state import KeyedState

__all__ = ["STATE", "State", "put_certificate", "put_state", "read_state"]

STATE: Final = KeyedState("federation")


class State(NamedTuple):
    """What a federation is at one time.

    Parameters
    ----------
    ranker
        The ranker that clients use.
    forgotten
        Numbers of the clients that were forgotten, ascending.
    certificates
        One for each forgetting, the oldest first.
    version
        Grows with each change.
    """

    ranker: Ranker
    forgotten: tuple[int, ...]
    certificates: tuple[Certificate, ...]
    version: int

    @property
    def ranker_sha256(self) -> str:
        """A digest of the ranker's parameters."""
        return hashlib.sha256(self.ranker.parameters.astype("<f4").tobytes()).hexdigest()


def read_state(connection: sa.Connection) -> State | None:
    """Return the state inside a caller's transaction; None before the training's end."""
    try:
        found, forgotten = (STATE.get(connection, name) for name in ("ranker", "forgotten"))
        if found is None or forgotten is None:
            return None
        keys = STATE.keys(connection, prefix="certificate-")
        entries = [STATE.get(connection, key) for key in keys]
        certificates = tuple(dict(entry.value) for entry in entries if entry is not None)
        numbers = tuple(map(int, forgotten.value))
        return State(_ranker_of(found.value), numbers, certificates, found.version)
    except (KeyError, TypeError, ValueError, DataError, SettingsError) as error:
        raise Damaged(
            f"a record cannot be read ({type(error).__name__})", where="federation"
        ) from None


def put_state(
    connection: sa.Connection, ranker: Ranker, forgotten: Sequence[int], *, expected_version: int
) -> None:
    """Store the ranker and who was forgotten; refuse unless the version is still this one."""
    value: dict[str, Any] = {
        "settings": ranker.settings.model_dump(mode="json"),
        "parameters": base64.b64encode(ranker.parameters.astype("<f4").tobytes()).decode(),
    }
    STATE.put(connection, "ranker", value, expected_version=expected_version)
    STATE.put(connection, "forgotten", list(forgotten))


def put_certificate(connection: sa.Connection, certificate: Certificate, *, number: int) -> None:
    """Store a new certificate."""
    STATE.put(connection, f"certificate-{number:06d}", certificate, expected_version=0)


def _ranker_of(value: Mapping[str, Any]) -> Ranker:
    content = base64.b64decode(value["parameters"], validate=True)
    parameters = np.frombuffer(content, "<f4").astype(np.float32)
    return Ranker(RankerSettings(**value["settings"]), parameters)
