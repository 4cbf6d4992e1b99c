"""Forests on disk: text with a checksum.

The first line says what the file is and gives a SHA-256 of all that follows: a line of JSON, and
LightGBM's model text. The checksum finds damage, not malice: whoever writes a file can write its
checksum. That the trees are sound is checked by themselves; that they rank well is not.

A file is complete and on the disk before it has its name. Only the owner may read it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

import cloister
from cloister.core.errors import Damaged, DataError
from cloister.core.file_errors import explained, writing
from cloister.rank.forest import Forest
from cloister.store.incoming import replace_file

__all__ = ["load_forest", "save_forest"]

_FIRST: Final = "cloister-forest 1 "  # the number is the format's
_AGAIN: Final = "save the forest again, or restore the file from a copy"


def save_forest(forest: Forest, path: str | Path) -> None:
    """Write a forest to a file, in the place of one that may be there."""
    path = Path(path)
    about = {
        "cloister": cloister.__version__,
        "n_features": forest.n_features,
        "spread": forest.spread,
    }
    content = f"{json.dumps(about, sort_keys=True)}\n{forest.text}".encode()
    digest = hashlib.sha256(content).hexdigest()
    with writing(path):
        replace_file(path, f"{_FIRST}{digest}\n".encode() + content)


def load_forest(path: str | Path) -> Forest:
    """Read a forest from a file; its scores are those of the one saved.

    Raises
    ------
    NotFound
        No such file.
    DataError
        Not a forest's file, or one whose trees do not fit together.
    Damaged
        Its content does not match its checksum.
    """
    path = Path(path)
    with explained(path):
        content = path.read_bytes()
    first, _, rest = content.partition(b"\n")
    if not first.startswith(_FIRST.encode()):
        raise DataError("not a file of a forest", where=str(path), remedy=_AGAIN)
    if first[len(_FIRST) :] != hashlib.sha256(rest).hexdigest().encode():
        raise Damaged("the content does not match its checksum", where=str(path), remedy=_AGAIN)
    about, _, text = rest.partition(b"\n")
    try:
        fields = json.loads(about)
        return Forest(text.decode(), int(fields["n_features"]), float(fields["spread"]))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"its description cannot be read ({error})", where=str(path), remedy=_AGAIN
        ) from None
