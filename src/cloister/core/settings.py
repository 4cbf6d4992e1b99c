"""Frozen settings with validated fields, and their canonical form.

Every experiment, world and reader takes its parameters as one frozen object. A field that does not
exist is an error, not a silent default; the canonical JSON of an object is what result files carry
and what caches are keyed by.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from cloister.core.errors import SettingsError
from cloister.core.file_errors import explained

__all__ = ["Settings"]


class Settings(BaseModel):
    """Base of all settings: frozen, keyword-only, no unknown fields.

    Examples
    --------
    >>> class Walk(Settings):
    ...     steps: int = 3
    >>> Walk(steps=5).steps
    5
    >>> Walk(stride=1)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: stride: unknown setting (given: 1); known: steps
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _explain(type(self), error) from None

    @classmethod
    def from_text(cls, fields: str) -> Self:
        """Read settings written as in an address, ``"queries=10&features=5"``.

        Examples
        --------
        >>> class Walk(Settings):
        ...     steps: int = 3
        >>> Walk.from_text("steps=7")
        Walk(steps=7)
        """
        pairs = parse_qsl(fields, keep_blank_values=True)
        if fields and not pairs:
            raise SettingsError(
                f"cannot read {fields!r} as settings",
                where=_in_words(cls),
                remedy="write name=value, joined by &",
            )
        names = [name for name, _ in pairs]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise SettingsError("given more than once", where=repeated[0], remedy="give it once")
        return cls(**{name: _scalar_or_list(value) for name, value in pairs})

    @classmethod
    def from_toml(cls, path: str | Path, *, table: str = "") -> Self:
        """Read settings from a TOML file, or from one table of it."""
        path = Path(path)
        try:
            with explained(path):
                fields: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"not a TOML file: {error}", where=str(path), remedy="correct the file"
            ) from None
        for name in filter(None, table.split(".")):
            if not isinstance(fields.get(name), Mapping):
                raise SettingsError(f"no table [{table}]", where=str(path))
            fields = fields[name]
        try:
            return cls(**fields)
        except SettingsError as error:
            where = f"{path}: {error.where}"
            raise SettingsError(error.what, where=where, remedy=error.remedy) from None

    def canonical(self) -> str:
        """Return JSON with sorted names: equal settings give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """Return 32 hexadecimal digits that stand for these settings.

        Examples
        --------
        >>> class Walk(Settings):
        ...     steps: int = 3
        >>> Walk().digest() == Walk(steps=3).digest() != Walk(steps=4).digest()
        True
        """
        text = f"{type(self).__name__}:{self.canonical()}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _in_words(kind: type[Settings]) -> str:
    """Return a class's name as people would say it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).removeprefix("_").lower()


def _scalar_or_list(value: str) -> str | list[str]:
    """Let a comma make a list; pydantic turns the parts into numbers."""
    return value.split(",") if "," in value else value


def _explain(kind: type[Settings], error: ValidationError) -> SettingsError:
    """Turn pydantic's report into one error about the first wrong field."""
    first = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    where = name or _in_words(kind)
    if first["type"] == "extra_forbidden":
        known = ", ".join(sorted(kind.model_fields))
        return SettingsError(
            f"unknown setting (given: {first['input']})", where=where, remedy=f"known: {known}"
        )
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing" or not name:  # the input is all settings: too long to quote
        remedy = f"give {name}" if name else ""
        return SettingsError(message, where=where, remedy=remedy)
    return SettingsError(f"{message} (given: {first['input']!r})", where=where)
