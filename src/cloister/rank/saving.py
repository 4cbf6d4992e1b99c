"""Rankers on disk: safetensors or npz, with their settings, and never pickled.

A file holds the array ``parameters`` and one JSON text: the ranker's settings, the version of
Cloister that wrote it, what the caller added, and a SHA-256 of all of these. The text is
safetensors' metadata string ``cloister``, or the array ``cloister`` of an npz file. It is one
string because safetensors shuffles several: so equal rankers give equal bytes.

A file is complete and on the disk before it has its name, so that a crash leaves the old file or
the new one. Only the owner may read it: parameters tell of those whose clicks they were learnt
from.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cloister
from cloister.core.errors import Damaged, DataError, SettingsError
from cloister.core.file_errors import explained, writing
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.store.incoming import incoming_file, sync_folder

__all__ = ["SavedRanker", "load_ranker", "load_saved", "save_ranker"]

Floats = NDArray[np.float32]

FORMAT: Final = 1  # change it when the layout of the record changes
_RECORD: Final = "cloister"
_PARAMETERS: Final = "parameters"
_FIELDS: Final = {"cloister": str, "extra": dict, "format": int, "settings": dict, "sha256": str}
_AGAIN: Final = "save the ranker again, or restore the file from a copy"


class SavedRanker(NamedTuple):
    """What a file holds: the ranker, what was saved with it, and the version that wrote it."""

    ranker: Ranker
    extra: dict[str, Any]
    version: str


def save_ranker(
    ranker: Ranker, path: str | Path, *, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a ranker to a file, in the place of one that may be there.

    Parameters
    ----------
    ranker
        Its parameters must be finite.
    path
        ``.safetensors`` or ``.npz``: the ending chooses the format.
    extra
        What else to keep, as JSON has it: say, the settings and the seed of the training. A tuple
        comes back as a list.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ranker = Ranker(RankerSettings(n_features=2), np.array([1.0, -0.5], np.float32))
    ...     save_ranker(ranker, f"{folder}/a.safetensors", extra={"seed": 3})
    ...     saved = load_saved(f"{folder}/a.safetensors")
    >>> saved.ranker.parameters, saved.extra, saved.version == cloister.__version__
    (array([ 1. , -0.5], dtype=float32), {'seed': 3}, True)
    """
    path = Path(path)
    kind = _format_of(path)
    _require_finite(ranker.parameters, "Ranker")
    content = kind.encoded(ranker.parameters, _record_of(ranker, extra or {}))
    with writing(path), incoming_file(path.parent) as incoming:
        incoming.stream.write(content)
        incoming.stream.flush()
        os.fsync(incoming.stream.fileno())
        incoming.path.replace(path)
        sync_folder(path.parent)


def load_ranker(path: str | Path) -> Ranker:
    """Read a ranker from a file; see `load_saved` for what is saved beside it."""
    return load_saved(path).ranker


def load_saved(path: str | Path) -> SavedRanker:
    """Read a ranker from a file, with what was saved beside it.

    Raises
    ------
    NotFound
        No such file.
    DataError
        The file is truncated, or no ranker's, or its parameters are not finite or do not fit its
        settings.
    Damaged
        Its content does not match its checksum.
    """
    path = Path(path)
    kind = _format_of(path)
    with explained(path):
        path.open("rb").close()
        parameters, text = _decoded(kind, path)
    record = _checked_record(text, parameters, path)
    try:
        ranker = Ranker(RankerSettings(**record["settings"]), parameters)
    except (SettingsError, DataError) as error:
        raise DataError(
            f"the ranker's settings and parameters do not fit ({error.message})",
            where=str(path),
            remedy=_AGAIN,
        ) from None
    _require_finite(parameters, str(path))
    return SavedRanker(ranker, record["extra"], record["cloister"])


def _require_finite(parameters: Floats, where: str) -> None:
    if not np.isfinite(parameters).all():
        raise DataError(
            "a parameter is not finite",
            where=where,
            remedy="train again, with a smaller learning rate",
        )


def _record_of(ranker: Ranker, extra: Mapping[str, Any]) -> str:
    """Return the JSON text that goes beside the parameters."""
    if not all(isinstance(name, str) for name in extra):
        raise DataError("names must be strings", where="extra")
    try:
        as_read = json.loads(_canonical(dict(extra)))  # the checksum is of what will be read
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"cannot be written as JSON ({error})",
            where="extra",
            remedy="give plain strings, finite numbers, lists and dicts",
        ) from None
    record = {
        "cloister": cloister.__version__,
        "extra": as_read,
        "format": FORMAT,
        "settings": ranker.settings.model_dump(mode="json"),
    }
    return _canonical(record | {"sha256": _checksum(record, ranker.parameters)})


def _checksum(record: Mapping[str, Any], parameters: Floats) -> str:
    """Return the digest of a record without its own digest, and of the parameters."""
    sha256 = hashlib.sha256(_canonical(record).encode())
    sha256.update(np.ascontiguousarray(parameters, "<f4").tobytes())
    return sha256.hexdigest()


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checked_record(text: str, parameters: Floats, path: Path) -> dict[str, Any]:
    """Read the text beside the parameters, and compare both with their checksum."""
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise DataError(
                f"written in format {record['format']!r}, this version reads {FORMAT}",
                where=str(path),
                remedy="install the version of Cloister that wrote it",
            )
        sound = {name: type(value) for name, value in record.items()} == _FIELDS
        told = record.pop("sha256", None)
        found = _checksum(record, parameters)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise _foreign(path, "its description cannot be read")
    if told != found:
        raise Damaged("the content does not match its checksum", where=str(path), remedy=_AGAIN)
    return dict(record)


def _foreign(path: Path, why: str) -> DataError:
    return DataError(f"not a whole file of a ranker: {why}", where=str(path), remedy=_AGAIN)


class _Format(NamedTuple):
    """One way to put an array and a text into a file."""

    encoded: Callable[[Floats, str], bytes]
    decoded: Callable[[Path], tuple[NDArray[Any], Any]]


def _format_of(path: Path) -> _Format:
    if path.suffix not in _FORMATS:
        raise SettingsError(
            f"no format for the ending {path.suffix!r}",
            where=str(path),
            remedy=f"end the file's name in {' or '.join(_FORMATS)}",
        )
    return _FORMATS[path.suffix]


def _decoded(kind: _Format, path: Path) -> tuple[Floats, str]:
    try:
        parameters, text = kind.decoded(path)
    except OSError:
        raise
    except Exception as error:  # whatever a parser says of bytes that it cannot read
        raise _foreign(path, str(error)) from None
    if parameters.dtype != np.float32 or not isinstance(text, str):
        raise _foreign(path, "its arrays have other types")
    return parameters, text


def _to_safetensors(parameters: Floats, text: str) -> bytes:
    from safetensors.numpy import save

    return save({_PARAMETERS: parameters}, metadata={_RECORD: text})


def _from_safetensors(path: Path) -> tuple[NDArray[Any], Any]:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        # A copy: what the library gives may lie in the mapped file.
        return np.array(file.get_tensor(_PARAMETERS)), (file.metadata() or {}).get(_RECORD)


def _to_npz(parameters: Floats, text: str) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **{_PARAMETERS: parameters, _RECORD: np.array(text)})
    return stream.getvalue()


def _from_npz(path: Path) -> tuple[NDArray[Any], Any]:
    # From memory: given a path, NumPy leaves the file of a damaged archive open.
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
        return file[_PARAMETERS], file[_RECORD].item()


_FORMATS: Final = {
    ".safetensors": _Format(_to_safetensors, _from_safetensors),
    ".npz": _Format(_to_npz, _from_npz),
}
