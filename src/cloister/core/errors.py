"""One tree of errors: each says what was wrong, where, and what to do about it."""

from __future__ import annotations

import re
from typing import ClassVar

__all__ = [
    "AccessDenied",
    "BudgetExceeded",
    "CloisterError",
    "Conflict",
    "Damaged",
    "DataError",
    "MissingDependency",
    "NotFound",
    "SettingsError",
    "StoreError",
    "kind_in_words",
]


class CloisterError(Exception):
    """The root of all errors that Cloister raises on purpose.

    Parameters
    ----------
    what
        What was wrong, as a sentence without a full stop.
    where
        The file and line, the setting, the party or the record that it concerns.
    remedy
        What the reader can do about it; each kind of error has a usual one.

    Examples
    --------
    >>> error = CloisterError("the file ends in the middle of a record", where="a.txt:3",
    ...                       remedy="fetch the file again")
    >>> print(error)
    a.txt:3: the file ends in the middle of a record; fetch the file again
    """

    usual_remedy: ClassVar[str] = "see the documentation"
    wrong_usage: ClassVar[bool] = False  # whether whoever gave the command has to change it

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy or self.usual_remedy

    @property
    def message(self) -> str:
        """What was wrong and where, without the remedy."""
        return f"{self.where}: {self.what}" if self.where else self.what

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the three parts across processes."""
        return (_rebuild, (type(self), self.what, self.where, self.remedy))


def kind_in_words(error: BaseException | str) -> str:
    """Return what kind of error it is, or what its class's name says, as people would say it.

    Examples
    --------
    >>> kind_in_words(ConnectionResetError()), kind_in_words("StoreError")
    ('connection reset error', 'store error')
    """
    name = error if isinstance(error, str) else type(error).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _rebuild(kind: type[CloisterError], what: str, where: str, remedy: str) -> CloisterError:
    return kind(what, where=where, remedy=remedy)


class SettingsError(CloisterError):
    """A setting is missing, unknown, or outside its range."""

    usual_remedy = "change the setting"
    wrong_usage = True


class DataError(CloisterError):
    """Input data cannot be read as what it claims to be."""

    usual_remedy = "correct the data or leave it out"


class NotFound(CloisterError):
    """A file, record or name does not exist, or may not be seen: the two look alike."""

    usual_remedy = "check the name"
    wrong_usage = True


class AccessDenied(CloisterError):
    """Somebody asked for something that they may not do."""

    usual_remedy = "ask the owner for access"


class BudgetExceeded(CloisterError):
    """A release would cost more privacy than its party allows."""

    usual_remedy = "release less, or raise the party's limit"


class StoreError(CloisterError):
    """The store could not be opened, read or written."""

    usual_remedy = "see that the store exists, answers and has room"


class Conflict(StoreError):
    """Somebody else changed the same record in the meantime."""

    usual_remedy = "read the record again and repeat the change"


class Damaged(StoreError):
    """Stored bytes do not match their checksum."""

    usual_remedy = "restore them from a backup"


class MissingDependency(CloisterError):
    """An optional package or program is needed and not installed."""

    usual_remedy = "install it"
