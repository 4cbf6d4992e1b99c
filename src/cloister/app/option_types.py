"""Values that no option can mean: numbers beyond 64 bits, numbers that are none, empty paths."""

from __future__ import annotations

import copy
import math
from typing import Any, Final

import click

__all__ = ["checked_type"]

LARGEST: Final = 2**63 - 1  # what arrays, databases and files count with


def checked_type(kind: click.ParamType[Any]) -> click.ParamType[Any]:
    """Return a type that reads the same values, but for those that cannot be meant.

    Examples
    --------
    >>> checked_type(click.FLOAT).convert("nan", None, None)
    Traceback (most recent call last):
    ...
    click.exceptions.BadParameter: nan is not a finite number
    """
    for plain, checked in _CHECKED.items():
        if isinstance(kind, plain):
            return _as(checked, kind)
    return kind


def _as(checked: type[click.ParamType[Any]], kind: click.ParamType[Any]) -> click.ParamType[Any]:
    made = copy.copy(kind)
    made.__class__ = type(checked.__name__, (checked, type(kind)), {})
    if isinstance(made, click.Path):  # who reads or writes the file says why it is not possible
        made.readable = made.writable = False
    return made


class _Whole(click.ParamType[Any]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(f"{value} is too large a number", param, ctx)
        return number


class _Finite(click.ParamType[Any]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class _Place(click.ParamType[Any]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and (not value.strip() or "\0" in value):
            self.fail("a path is needed here, and this is none", param, ctx)
        return super().convert(value, param, ctx)


_CHECKED: Final[dict[type[click.ParamType[Any]], type[click.ParamType[Any]]]] = {
    click.types.IntParamType: _Whole,
    click.types.FloatParamType: _Finite,
    click.Path: _Place,
}
