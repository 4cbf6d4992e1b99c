"""Arrays kept on disk, keyed by the content they were made from and by the settings.

An entry is a folder of ``.npy`` files that are memory-mapped when opened again. It is written
under another name and renamed when it is complete, so a killed process leaves no half entry, and
two processes may write the same one. To find the content's digest without reading a large file
again, the cache remembers it with the file's size, inode and time of change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.file_errors import explained
from cloister.core.settings import Settings
from cloister.data.byte_strings import ByteStrings
from cloister.data.ranking_data import RankingData

__all__ = ["cache_folder", "cached_arrays", "ranking_arrays", "ranking_data_of"]

Arrays = dict[str, NDArray[Any]]

FORMAT: Final = 1  # change it when an entry's layout or a reader's arithmetic changes
ABANDONED_S: Final = 3600.0  # no writer takes an hour
SETTLED_S: Final = 2.0  # a file changed this lately may change again within its time stamp


def cache_folder() -> Path:
    """Return where cached arrays lie: ``CLOISTER_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("CLOISTER_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("cloister")


def cached_arrays(path: Path, settings: Settings, make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays made from a file under some settings, from the cache if they are there."""
    folder = cache_folder() / f"v{FORMAT}"
    before = _stamp(path)
    key = hashlib.blake2b(
        f"{_content_digest(path, folder)}:{settings.digest()}".encode(), digest_size=20
    ).hexdigest()
    entry = folder / "arrays" / key
    found = _open_entry(entry)
    if found is not None:
        return found
    arrays = make()
    if _stamp(path) == before:  # else the arrays may not be those of the digest
        _write_entry(entry, arrays)
    for array in arrays.values():
        array.flags.writeable = False  # as they are when they come from the disk
    return arrays


def _content_digest(path: Path, folder: Path) -> str:
    stamp = _stamp(path)
    name = hashlib.blake2b(str(path.resolve()).encode(), digest_size=16).hexdigest()
    note = folder / "digests" / f"{name}.json"
    try:
        remembered = json.loads(note.read_text())
        if remembered["stamp"] == stamp:
            return str(remembered["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # no note, or a damaged one: read the file
    with explained(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "blake2b").hexdigest()
    if time.time() - max(stamp[1:3]) / 1e9 > SETTLED_S:
        _write_text(note, json.dumps({"stamp": stamp, "digest": digest}))
    return digest


def _stamp(path: Path) -> list[int]:
    """Return what changes with a file: size, times of change, and which file it is."""
    with explained(path):
        status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]


def _open_entry(entry: Path) -> Arrays | None:
    """Map the arrays of an entry; None if it is not there or not whole."""
    try:
        sizes: dict[str, int] = json.loads((entry / "entry.json").read_text())
        if any((entry / f"{name}.npy").stat().st_size != size for name, size in sizes.items()):
            return None
        return {name: _open_array(entry / f"{name}.npy") for name in sizes}
    except (OSError, ValueError, AttributeError):
        return None


def _open_array(path: Path) -> NDArray[Any]:
    # np.load cannot map an array of no bytes.
    header = np.load(path, mmap_mode="r") if path.stat().st_size > 128 else np.load(path)
    return np.asarray(header)


def _write_entry(entry: Path, arrays: Arrays) -> None:
    """Write an entry whole or not at all; a full disk costs speed, not the result."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _sweep(entry.parent)
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=entry.parent))
    except OSError:
        return
    try:
        for name, array in arrays.items():
            np.save(partial / f"{name}.npy", array)
        sizes = {name: (partial / f"{name}.npy").stat().st_size for name in arrays}
        (partial / "entry.json").write_text(json.dumps(sizes))
        shutil.rmtree(entry, ignore_errors=True)  # a damaged one
        partial.rename(entry)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed have left."""
    for partial in folder.glob(".partial-*"):
        if time.time() - partial.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(partial, ignore_errors=True)


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(text)
        partial.replace(path)
    except OSError:
        pass


def ranking_arrays(data: RankingData) -> Arrays:
    """Lay a data set out as named arrays."""
    arrays = {"features": data.features, "labels": data.labels, "offsets": data.offsets}
    for name, texts in (("query_ids", data.query_ids), ("doc_ids", data.doc_ids)):
        strings = _strings(texts)
        arrays[f"{name}_block"], arrays[f"{name}_offsets"] = strings.block, strings.offsets
    return arrays


def ranking_data_of(arrays: Arrays) -> RankingData:
    """Put a data set together from named arrays."""
    query_ids, doc_ids = (
        ByteStrings(arrays[f"{name}_block"], arrays[f"{name}_offsets"])
        for name in ("query_ids", "doc_ids")
    )
    return RankingData(arrays["features"], arrays["labels"], arrays["offsets"], query_ids, doc_ids)


def _strings(texts: Sequence[str]) -> ByteStrings:
    return texts.compact() if isinstance(texts, ByteStrings) else ByteStrings.of(texts)
