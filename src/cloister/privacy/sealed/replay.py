"""Which messages were accepted: one row a session, changed in the caller's transaction.

A row says which numbers of its session were seen, as in RFC 4303's window: the highest one, and one
bit for each of the numbers below it. Rows go away with the prekey of their session: when that is
destroyed, nothing sealed for it can be opened, so nothing of it can be replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import sqlalchemy as sa

from cloister.privacy.sealed.refusals import MessageRefused, Replayed
from cloister.store.migrations import Migration, Schema

if TYPE_CHECKING:
    from alembic.operations import Operations

__all__ = ["SeenNumbers", "SessionName", "Window"]


class Window(NamedTuple):
    """Seen numbers: the highest, and bit i of ``seen`` for the number ``highest - i``.

    Examples
    --------
    >>> window = Window().with_number(5, width=4).with_number(3, width=4)
    >>> [window.has(number, width=4) for number in (6, 5, 4, 3, 1)]
    [False, True, False, True, True]
    """

    highest: int = 0
    seen: int = 0

    def has(self, number: int, *, width: int) -> bool:
        """Say whether a number was seen, or is too far back to know."""
        if not self.seen or number > self.highest:
            return False
        behind = self.highest - number
        return behind >= width or bool(self.seen >> behind & 1)

    def with_number(self, number: int, *, width: int) -> Window:
        """Return the window with one more number, which it does not have yet."""
        if not self.seen:
            return Window(number, 1)
        if number <= self.highest:
            return Window(self.highest, self.seen | 1 << (self.highest - number))
        step = min(number - self.highest, width)  # a shift by more would leave nothing anyway
        return Window(number, (self.seen << step | 1) & ((1 << width) - 1))


class SessionName(NamedTuple):
    """A session as the recipient stores it."""

    session_id: str
    sender: str
    prekey_number: int


_table: Final = sa.table(
    "cloister_sealed_session",
    sa.column("recipient", sa.Text),
    sa.column("session_id", sa.Text),
    sa.column("sender", sa.Text),
    sa.column("prekey_number", sa.BigInteger),
    sa.column("highest", sa.BigInteger),
    sa.column("seen", sa.Text),  # hexadecimal
)


def _create_table(operations: Operations) -> None:
    operations.create_table(
        "cloister_sealed_session",
        sa.Column("recipient", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("prekey_number", sa.BigInteger, nullable=False),
        sa.Column("highest", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.Text, nullable=False),
    )
    operations.create_index(
        "cloister_sealed_session_by_prekey",
        "cloister_sealed_session",
        ["recipient", "prekey_number", "sender"],
    )


_here: Final = sa.and_(
    _table.c.recipient == sa.bindparam("of_recipient"),
    _table.c.session_id == sa.bindparam("of_session"),
)
# Made once: SQLAlchemy needs longer to make a statement than SQLite to run it.
_SELECT: Final = sa.select(_table.c.highest, _table.c.seen).where(_here)
_UPDATE: Final = (
    _table.update()
    .where(_here)
    .values(highest=sa.bindparam("new_highest"), seen=sa.bindparam("new_seen"))
)
_INSERT: Final = _table.insert()
_COUNT: Final = sa.select(sa.func.count()).where(
    _table.c.recipient == sa.bindparam("of_recipient"),
    _table.c.prekey_number == sa.bindparam("of_prekey"),
    _table.c.sender == sa.bindparam("of_sender"),
)


class SeenNumbers:
    """The numbers that one recipient has accepted.

    Every method takes the caller's connection: a number counts as seen when that transaction is
    committed, and not when it is undone.
    """

    schema: ClassVar[Schema] = Schema(
        "sealed-messages", (Migration(1, "create the table of sessions", _create_table),)
    )

    def __init__(self, recipient: str, *, width: int, sessions_per_sender: int) -> None:
        self._recipient = recipient
        self._width = width
        self._sessions_per_sender = sessions_per_sender

    def mark(self, connection: sa.Connection, session: SessionName, number: int) -> None:
        """Count a number as seen; raise `Replayed` where it was seen, or is too far back."""
        here = {"of_recipient": self._recipient, "of_session": session.session_id}
        row = connection.execute(_SELECT, here).one_or_none()
        window = Window() if row is None else Window(row.highest, int(row.seen, 16))
        if window.has(number, width=self._width):
            raise Replayed(
                f"message {number} was accepted before, or comes after {self._width} later ones",
                where=f"session {session.session_id} of {session.sender}",
            )
        window = window.with_number(number, width=self._width)
        highest, seen = window.highest, f"{window.seen:x}"
        if row is not None:
            connection.execute(_UPDATE, {**here, "new_highest": highest, "new_seen": seen})
            return
        self._check_room(connection, session)
        names = {"recipient": self._recipient, **session._asdict()}
        connection.execute(_INSERT, {**names, "highest": highest, "seen": seen})

    def forget_before(self, connection: sa.Connection, prekey_number: int | None) -> int:
        """Forget the sessions of older prekeys, or all; return how many.

        Those prekeys must be destroyed, or their messages could be replayed.
        """
        gone = _table.c.recipient == self._recipient
        if prekey_number is not None:
            gone = sa.and_(gone, _table.c.prekey_number < prekey_number)
        return connection.execute(_table.delete().where(gone)).rowcount

    def _check_room(self, connection: sa.Connection, session: SessionName) -> None:
        whose = {
            "of_recipient": self._recipient,
            "of_prekey": session.prekey_number,
            "of_sender": session.sender,
        }
        if (connection.scalar(_COUNT, whose) or 0) >= self._sessions_per_sender:
            raise MessageRefused(
                f"more than {self._sessions_per_sender} sessions with one prekey",
                where=session.sender,
                remedy="let the sender keep its sessions longer, or raise sessions_per_sender",
            )
