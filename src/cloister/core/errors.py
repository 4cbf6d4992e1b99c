"""One tree of errors: each says what was wrong, where, and what to do about it."""

from __future__ import annotations

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
        What the reader can do about it.

    Examples
    --------
    >>> error = CloisterError("the file ends in the middle of a record", where="a.txt:3",
    ...                       remedy="fetch the file again")
    >>> print(error)
    a.txt:3: the file ends in the middle of a record; fetch the file again
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.what}{advice}"

    def __reduce__(self) -> tuple[object, ...]:
        """Carry the three parts across processes."""
        return (_rebuild, (type(self), self.what, self.where, self.remedy))


def _rebuild(kind: type[CloisterError], what: str, where: str, remedy: str) -> CloisterError:
    return kind(what, where=where, remedy=remedy)


class SettingsError(CloisterError):
    """A setting is missing, unknown, or outside its range."""


class DataError(CloisterError):
    """Input data cannot be read as what it claims to be."""


class NotFound(CloisterError):
    """A file, record or name does not exist, or may not be seen: the two look alike."""


class AccessDenied(CloisterError):
    """Somebody asked for something that they may not do."""


class BudgetExceeded(CloisterError):
    """A release would cost more privacy than its party allows."""


class StoreError(CloisterError):
    """The store could not be opened, read or written."""


class Conflict(StoreError):
    """Somebody else changed the same record in the meantime."""


class Damaged(StoreError):
    """Stored bytes do not match their checksum."""


class MissingDependency(CloisterError):
    """An optional package or program is needed and not installed."""
