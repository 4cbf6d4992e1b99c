"""Records to plain JSON values and back, by their type hints, with every value checked."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from cloister.core.errors import DataError, SettingsError
from cloister.core.settings import Settings

__all__ = ["Codec", "codec_of"]

MAX_INTEGER: Final = 2**63 - 1
_WHERE: Final = "record"


class Codec(NamedTuple):
    """How values of one type are written as JSON values, and read; both raise `DataError`."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def codec_of(kind: Any) -> Codec:
    """Make the codec of a type.

    Known are text, numbers, truth values, literals, named tuples, dataclasses, settings, tuples
    of any length, mappings from text, new names for these, and each of them or None.

    Examples
    --------
    >>> codec = codec_of(tuple[int, ...])
    >>> codec.encode((1, 2)), codec.decode([1, 2])
    ([1, 2], (1, 2))
    >>> codec.decode([1, True])
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: record: not an integer; correct the data or leave it out
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if hasattr(kind, "__supertype__"):  # a NewType
        return codec_of(kind.__supertype__)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        return _optional(kind, arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(codec_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping) and arguments[0] is str:
        return _mapping(codec_of(arguments[1]))
    if isinstance(kind, type):
        return _class(kind)
    raise SettingsError(f"{kind} cannot be part of a message", where=_WHERE)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DataError("not text", where=_WHERE)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise DataError("not valid Unicode", where=_WHERE) from None
    return str(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError("neither true nor false", where=_WHERE)
    return value


def _integer(value: Any) -> int:
    if type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER:
        return value  # nearly always; what follows asks abstract classes, which is slow
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise DataError("not an integer", where=_WHERE)
    if abs(int(value)) > MAX_INTEGER:
        raise DataError("an integer out of range", where=_WHERE)
    return int(value)


def _number(value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DataError("not a number", where=_WHERE)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError("not a finite number", where=_WHERE)
    return number


_PLAIN: Final[dict[Any, Codec]] = {
    str: Codec(_text, _text),
    bool: Codec(_truth, _truth),
    int: Codec(_integer, _integer),
    float: Codec(_number, _number),
}


def _literal(allowed: tuple[Any, ...]) -> Codec:
    def check(value: Any) -> Any:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise DataError("not one of the values allowed", where=_WHERE)
        return value

    return Codec(check, check)


def _optional(kind: Any, arguments: tuple[Any, ...]) -> Codec:
    others = [one for one in arguments if one is not types.NoneType]
    if len(others) != 1 or len(arguments) != 2:
        raise SettingsError(f"{kind} cannot be part of a message", where=_WHERE)
    inner = codec_of(others[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value: None if value is None else inner.decode(value),
    )


def _sequence(inner: Codec) -> Codec:
    def decode(value: Any) -> tuple[Any, ...]:
        return tuple(map(inner.decode, _list(value)))

    return Codec(lambda value: [inner.encode(one) for one in value], decode)


def _mapping(inner: Codec) -> Codec:
    def convert(part: Callable[[Any], Any], value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise DataError("not a table", where=_WHERE)
        return {_text(name): part(one) for name, one in value.items()}

    return Codec(partial(convert, inner.encode), partial(convert, inner.decode))


def _class(kind: type[Any]) -> Codec:
    if issubclass(kind, Settings):
        return _settings(kind)
    hints = get_type_hints(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = list(kind._fields)
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    else:
        raise SettingsError(f"{kind.__name__} cannot be part of a message", where=_WHERE)
    inner = [codec_of(hints[name]) for name in names]
    writing = [(name, codec.encode) for name, codec in zip(names, inner, strict=True)]
    reading = [codec.decode for codec in inner]

    def encode(value: Any) -> list[Any]:
        if not isinstance(value, kind):
            raise DataError(f"not a {kind.__name__}", where=_WHERE)
        return [write(getattr(value, name)) for name, write in writing]

    def decode(value: Any) -> Any:
        fields = _list(value)
        if len(fields) != len(reading):
            raise DataError(f"not a {kind.__name__}", where=_WHERE)
        return kind(*[read(one) for read, one in zip(reading, fields, strict=True)])

    return Codec(encode, decode)


def _settings(kind: type[Settings]) -> Codec:
    def encode(value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise DataError(f"not a {kind.__name__}", where=_WHERE)
        dumped: dict[str, Any] = value.model_dump(mode="json")
        return dumped

    def decode(value: Any) -> Settings:
        if not isinstance(value, dict):
            raise DataError(f"not a {kind.__name__}", where=_WHERE)
        try:
            found = kind(**value)
        except SettingsError:
            raise DataError(f"not a {kind.__name__}", where=_WHERE) from None
        if encode(found) != value:  # pydantic fills in what is left out, and reads "1" as 1
            raise DataError(f"not a {kind.__name__}", where=_WHERE)
        return found

    return Codec(encode, decode)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DataError("not a list", where=_WHERE)
    return value
