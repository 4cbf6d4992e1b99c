"""What a coordinator tells sites when a round begins, and what a site sends in the open."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.federate.engines.site_call import SiteId, reading_message
from cloister.privacy.secure_aggregation.wire import MessageReader, MessageWriter

__all__ = [
    "RoundAnnouncement",
    "SiteUpdate",
    "UnreadShares",
    "announced_to",
    "model_bytes",
    "read_model",
    "read_names",
    "write_names",
]

_ANNOUNCEMENT: Final = b"CRA2"
_UPDATE: Final = b"CSU1"
_UNREAD: Final = b"CUS1"
_MOST_SITES: Final = 100_000

Floats = NDArray[np.float64]


class RoundAnnouncement(NamedTuple):
    """A round begins: with this ranker, among these sites.

    Parameters
    ----------
    training
        The name of the training.
    agreed
        Digest of the agreement by which the coordinator runs it.
    round_number
        Which round, from 0.
    attempt
        How often the round was begun before; only secure aggregation needs to begin it again.
    last_counted
        The last round whose sum was opened with an update of the site that is told; -1 for none.
        So a site knows which pages are used up, however many rounds it missed since. A sum that was
        opened and discarded as spoilt is among them. It differs by site and is not in the digest.
        With secure aggregation it frees no page.
    members
        With secure aggregation: who may take part; else nobody.
    session_id
        With secure aggregation: 64 hexadecimal digits that were never used before; else empty.
    model
        The ranker's parameters.
    """

    training: str
    agreed: str
    round_number: int
    attempt: int
    last_counted: int
    members: tuple[str, ...]
    session_id: str
    model: Floats

    @property
    def called(self) -> str:
        """How people call it: they count from 1."""
        return f"{self.training}, round {self.round_number + 1}, attempt {self.attempt + 1}"

    def to_bytes(self) -> bytes:
        """Return the announcement as bytes."""
        writer = MessageWriter().raw(_ANNOUNCEMENT)
        for text in (self.training, self.agreed, self.session_id):
            writer.sized(text.encode())
        writer.number(self.round_number).number(self.attempt).number(self.last_counted + 1)
        return write_names(writer, self.members).sized(model_bytes(self.model)).done()

    def digest(self) -> str:
        """Return SHA-256 of what all sites must have been told alike, in hexadecimal.

        That is all but ``last_counted``, which differs by site.
        """
        same = self._replace(last_counted=-1).to_bytes()
        return hashlib.sha256(b"cloister announcement of a round\x00" + same).hexdigest()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read an announcement; raise `DataError` at anything else."""
        with reading_message("announcement of a round", content, _ANNOUNCEMENT) as reader:
            training, agreed, session_id = reader.text(), reader.text(), reader.text()
            round_number, attempt = reader.number(), reader.number()
            last_counted, members = reader.number() - 1, read_names(reader)
            model = read_model(reader.sized())
            if last_counted >= round_number:
                raise DataError("a round that is not over cannot have counted")
            return cls(
                training,
                agreed,
                round_number,
                attempt,
                last_counted,
                members,
                session_id,
                model,
            )


def announced_to(
    sites: Iterable[SiteId], told: RoundAnnouncement, last_counted: Mapping[str, int]
) -> dict[SiteId, bytes]:
    """Return what each site is told: the announcement, and the last round that counted it."""
    return {
        site: told._replace(last_counted=last_counted.get(site, -1)).to_bytes() for site in sites
    }


class SiteUpdate(NamedTuple):
    """What a site's users have learnt together, in the open.

    Parameters
    ----------
    n_interactions
        What it rests on.
    difference
        The mean of users' differences from the round's ranker, weighted by interactions.
    """

    n_interactions: int
    difference: Floats

    def to_bytes(self) -> bytes:
        """Return the update as bytes."""
        writer = MessageWriter().raw(_UPDATE).number(self.n_interactions)
        return writer.sized(model_bytes(self.difference)).done()

    @classmethod
    def from_bytes(cls, content: bytes, *, n_parameters: int) -> Self:
        """Read an update of so many parameters; raise `DataError` at anything else."""
        with reading_message("update of a site", content, _UPDATE) as reader:
            n_interactions, difference = reader.number(), read_model(reader.sized())
            if len(difference) != n_parameters:
                raise DataError(f"not {n_parameters} parameters")
            return cls(n_interactions, difference)


class UnreadShares(NamedTuple):
    """A site could not read what others shared with it: it stops before it releases anything.

    Either a named site sent it something else than it should, or the site that says so lies.

    Parameters
    ----------
    owners
        The sites whose shares it could not read.

    Examples
    --------
    >>> unread = UnreadShares(("clinic-c",))
    >>> UnreadShares.is_in(unread.to_bytes()), UnreadShares.from_bytes(unread.to_bytes()) == unread
    (True, True)
    """

    owners: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        return write_names(MessageWriter().raw(_UNREAD), self.owners).done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read the message; raise `DataError` at anything else."""
        with reading_message("shares that could not be read", content, _UNREAD) as reader:
            return cls(read_names(reader))

    @staticmethod
    def is_in(content: bytes) -> bool:
        """Tell whether an answer is this message, and no masked input."""
        return content.startswith(_UNREAD)


def model_bytes(model: Floats) -> bytes:
    """Return parameters as bytes: doubles, little-endian."""
    return model.astype("<f8").tobytes()


def read_model(content: bytes) -> Floats:
    """Return parameters from bytes; all of them are finite."""
    if len(content) % 8:
        raise DataError("a parameter has 8 bytes")
    model = np.frombuffer(content, "<f8").astype(np.float64)
    if not np.isfinite(model).all():
        raise DataError("a parameter is not finite")
    return model


def write_names(writer: MessageWriter, names: tuple[str, ...]) -> MessageWriter:
    """Put names of sites."""
    writer.number(len(names))
    for name in names:
        writer.sized(name.encode())
    return writer


def read_names(reader: MessageReader) -> tuple[str, ...]:
    """Take names of sites."""
    n_names = reader.number()
    if n_names > _MOST_SITES:
        raise DataError(f"more than {_MOST_SITES} sites")
    return tuple(reader.text() for _ in range(n_names))
