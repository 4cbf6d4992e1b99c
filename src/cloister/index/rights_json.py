"""A list of rights as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from cloister.core.rights import NOBODY, Rights

__all__ = ["rights_from_json", "rights_to_json"]

_NAMES: Final = tuple(field.name for field in fields(Rights))


def rights_to_json(rights: Sequence[Rights]) -> bytes:
    """Write rights; what is as for nobody is left out.

    Examples
    --------
    >>> rights_to_json([NOBODY, Rights(public=True)])
    b'[{},{"public":true}]'
    """
    return json.dumps([_listed(one) for one in rights], separators=(",", ":")).encode("ascii")


def rights_from_json(content: bytes) -> tuple[Rights, ...]:
    """Read rights; what is not said is as for nobody.

    Raises
    ------
    ValueError
        Something is said that is not known here, or of a wrong kind. It is never taken for less.
    """
    listed = json.loads(content)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise ValueError("not a list of rights")
    return tuple(Rights(**{name: _value(name, one[name]) for name in one}) for one in listed)


def _listed(rights: Rights) -> dict[str, Any]:
    said = {name: getattr(rights, name) for name in _NAMES}
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in said.items()
        if value != getattr(NOBODY, name)
    }


def _value(name: str, value: Any) -> Any:
    if name not in _NAMES:
        raise ValueError(f"unknown rights {name!r}")
    nothing = getattr(NOBODY, name)
    if isinstance(nothing, frozenset) and isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return frozenset(value)
    elif type(value) is type(nothing):
        return value
    raise ValueError(f"rights {name!r} of a wrong kind")
