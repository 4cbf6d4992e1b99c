"""What is closed at the end of a ``with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Closing"]


class Closing(ABC):
    """Something with a `close`, to be used in a ``with``.

    Examples
    --------
    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     print("open")
    open
    closed
    """

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
