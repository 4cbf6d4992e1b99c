"""The promise that frees pages: a site signs what it has revealed in a session, and stops there.

A page whose lesson left under masks may enter another sum only if the first can never be opened. A
coordinator's word is no proof of that. So each site of the session signs an *end*: whose seeds it
has given shares of, and that it gives no others, ever. The site writes that down before it signs.
Once `Session.n_to_abort` holders of a site's seed have signed ends without that site, too few
shares are left to open its vector.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from cloister.core.errors import AccessDenied, DataError
from cloister.federate.engines.round_messages import read_names, write_names
from cloister.federate.engines.site_call import reading_message
from cloister.privacy.identity import SIGNATURE_BYTES, Directory, SigningIdentity
from cloister.privacy.secure_aggregation.wire import MessageReader, MessageWriter

__all__ = ["EndReply", "EndRequest", "SessionEnd"]

ENDING: Final = b"secure aggregation: end of a session"  # the signature's purpose
_REQUEST: Final = b"CSE1"
_REPLY: Final = b"CSF1"
_MOST_ENDS: Final = 100_000


class SessionEnd(NamedTuple):
    """One site's promise about one session.

    Parameters
    ----------
    site
        Who promises.
    revealed
        The sites of whose seeds it gave shares in this session, in order; it gives no others.
    signature
        Of training, session and these names.
    """

    site: str
    revealed: tuple[str, ...]
    signature: bytes

    @classmethod
    def sign(
        cls,
        identity: SigningIdentity,
        training: str,
        session_id: str,
        site: str,
        revealed: tuple[str, ...],
    ) -> Self:
        """Sign the promise; the site must have written it down before."""
        signature = identity.sign(ENDING, _signed_bytes(training, session_id, site, revealed))
        return cls(site, revealed, signature)

    def is_signed(self, directory: Directory, training: str, session_id: str) -> bool:
        """Say whether the site that it names signed it for this session."""
        signed = _signed_bytes(training, session_id, self.site, self.revealed)
        try:
            directory.verify(self.site, ENDING, signed, self.signature)
        except AccessDenied:
            return False
        return True

    def to_bytes(self) -> bytes:
        """Return the promise as bytes."""
        writer = MessageWriter().sized(self.site.encode())
        return write_names(writer, self.revealed).raw(self.signature).done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a promise that `to_bytes` wrote."""
        reader = MessageReader(content)
        end = cls.read(reader)
        reader.end()
        return end

    @classmethod
    def read(cls, reader: MessageReader) -> Self:
        """Take a promise from a message."""
        return cls(reader.text(), read_names(reader), reader.raw(SIGNATURE_BYTES))


class EndRequest(NamedTuple):
    """The coordinator asks a site to end a session, and hands it the others' promises.

    Parameters
    ----------
    training, session_id
        Which session.
    ends
        The promises that the coordinator has so far.
    """

    training: str
    session_id: str
    ends: tuple[SessionEnd, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the request as bytes."""
        writer = MessageWriter().raw(_REQUEST)
        writer.sized(self.training.encode()).sized(self.session_id.encode())
        writer.number(len(self.ends))
        for end in self.ends:
            writer.raw(end.to_bytes())
        return writer.done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a request; raise `DataError` at anything else."""
        with reading_message("end of a session", content, _REQUEST) as reader:
            training, session_id, n_ends = reader.text(), reader.text(), reader.number()
            if n_ends > _MOST_ENDS:
                raise DataError(f"more than {_MOST_ENDS} promises")
            return cls(training, session_id, tuple(SessionEnd.read(reader) for _ in range(n_ends)))


class EndReply(NamedTuple):
    """A site's own promise, and whether pages of its users are still locked in the session."""

    end: SessionEnd
    locked: bool

    def to_bytes(self) -> bytes:
        """Return the reply as bytes."""
        return MessageWriter().raw(_REPLY).number(self.locked).raw(self.end.to_bytes()).done()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a reply; raise `DataError` at anything else."""
        with reading_message("promise of a site", content, _REPLY) as reader:
            locked = reader.number()
            if locked > 1:
                raise DataError("neither locked nor free")
            return cls(SessionEnd.read(reader), bool(locked))


def _signed_bytes(training: str, session_id: str, site: str, revealed: tuple[str, ...]) -> bytes:
    writer = MessageWriter()
    for text in (training, session_id, site):
        writer.sized(text.encode())
    return write_names(writer, revealed).done()
