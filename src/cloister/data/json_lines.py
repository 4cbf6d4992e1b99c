"""JSON lines: one object a line, with checked access to its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cloister.core.errors import DataError
from cloister.data.text_file import read_lines, shortened

__all__ = ["JsonLine", "read_json_lines"]


class JsonLine(NamedTuple):
    """One object of a file of JSON lines, and where it stands.

    Examples
    --------
    >>> line = JsonLine(Path("a.jsonl"), 3, '{"_id": 7}', {"_id": 7})
    >>> line.identifier("_id"), line.text("title", optional=True)
    ('7', '')
    >>> line.text("text")
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: a.jsonl:3: no text in field 'text': '{"_id": 7}'; ...
    """

    path: Path
    number: int
    line: str
    fields: dict[str, Any]

    def identifier(self, key: str) -> str:
        """Return a field as an id; a whole number becomes its digits."""
        value = self.fields.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.error(f"no id in field {key!r}")

    def text(self, key: str, *, optional: bool = False) -> str:
        """Return a text field; a missing or null one is empty if ``optional``."""
        value = self.fields.get(key)
        if isinstance(value, str):
            return value
        if value is None and optional:
            return ""
        raise self.error(f"no text in field {key!r}")

    def whole_number(self, key: str) -> int:
        """Return a field that holds a whole number."""
        value = self.fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.error(f"no whole number in field {key!r}")

    def objects(self, key: str) -> list[JsonLine]:
        """Return a list of objects inside this one, each with checked access."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
            raise self.error(f"no list of objects in field {key!r}")
        return [JsonLine(self.path, self.number, "", part) for part in value]

    def without(self, *keys: str) -> dict[str, Any]:
        """Return the fields other than ``keys``."""
        return {key: value for key, value in self.fields.items() if key not in keys}

    def error(self, what: str) -> DataError:
        """Make an error that says where this line stands and what it says."""
        text = self.line or json.dumps(self.fields)
        return DataError(f"{what}: {shortened(text)}", where=f"{self.path}:{self.number}")


def read_json_lines(path: str | Path) -> Iterator[JsonLine]:
    """Yield the objects of a file, plain or gzip; blank lines are passed over."""
    path = Path(path)
    for number, line in read_lines(path):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            if not line.strip():
                continue
            raise DataError(
                f"not JSON ({error}): {shortened(line)}",
                where=f"{path}:{number}",
                remedy="write one JSON object a line",
            ) from None
        if not isinstance(fields, dict):
            raise DataError(
                f"not a JSON object: {shortened(line)}",
                where=f"{path}:{number}",
                remedy="write one JSON object a line",
            )
        yield JsonLine(path, number, line, fields)
