"""Private rankers on disk: a folder that stays with the client.

``neural.safetensors`` has the C-KNRM* (`cloister.rank.neural_file`), ``forests/`` the trees, if
there are any, and ``ranker.json``, written last, the settings, the weights of the last layer, and a
SHA-256 of every file. So a folder that was half written over is found out. Checksums find damage,
not malice.

Nothing is encrypted. Only the owner may read the files: they tell of the words, queries and
judgements that the ranker was learnt from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import cloister
from cloister.cloud.private_ranker import PrivateRanker, PrivateRankingSettings
from cloister.core.errors import Damaged, DataError, SettingsError
from cloister.core.file_errors import explained, writing
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.neural_file import load_neural, save_neural
from cloister.rank.query_length_forests import (
    load_query_length_forests,
    save_query_length_forests,
)
from cloister.store.incoming import replace_file

__all__ = ["load_private_ranker", "save_private_ranker"]

FORMAT: Final = 1
_LAST: Final = "ranker.json"
_NEURAL: Final = "neural.safetensors"
_FORESTS: Final = "forests"
_AGAIN: Final = "save the ranker again, or restore the folder from a copy"


def save_private_ranker(ranker: PrivateRanker, folder: str | Path) -> None:
    """Write a ranker into a folder, which is made if it is not there.

    What another ranker left there is replaced.
    """
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / _LAST).unlink(missing_ok=True)  # until it is back, the folder is not whole
        if ranker.forests is not None:
            (folder / _FORESTS).mkdir(mode=0o700, exist_ok=True)
        for old in (folder / _FORESTS).glob("*"):
            old.unlink()
    save_neural(ranker.neural, folder / _NEURAL)
    if ranker.forests is not None:
        save_query_length_forests(ranker.forests, folder / _FORESTS)
    record = {
        "cloister": cloister.__version__,
        "format": FORMAT,
        "settings": ranker.settings.model_dump(mode="json"),
        "weights": ranker.layer.weights.tolist(),
        "bias": ranker.layer.bias,
        "files": _digests(folder),
    }
    text = _canonical(record | {"sha256": _digest(_canonical(record).encode())})
    with writing(folder / _LAST):
        replace_file(folder / _LAST, text.encode())


def load_private_ranker(folder: str | Path) -> PrivateRanker:
    """Read a ranker from a folder; its scores are those of the one saved.

    Raises
    ------
    NotFound
        No such folder, or it is not whole.
    DataError
        Not the folder of a private ranker, or of another format.
    Damaged
        A file does not match its checksum.
    """
    folder = Path(folder)
    record = _read(folder / _LAST)
    with explained(folder / _NEURAL):
        if record["files"] != _digests(folder):
            raise Damaged("a file does not match its checksum", where=str(folder), remedy=_AGAIN)
    neural = load_neural(folder / _NEURAL)
    try:
        settings = PrivateRankingSettings(**record["settings"])
        layer = KernelRanker(np.array(record["weights"], np.float64), float(record["bias"]))
    except (KeyError, TypeError, ValueError, SettingsError, DataError) as error:
        raise _foreign(folder / _LAST, str(error)) from None
    forests = None
    if settings.features is not None:
        forests = load_query_length_forests(folder / _FORESTS)
    return PrivateRanker(neural, layer, forests, settings)


def _read(path: Path) -> dict[str, Any]:
    with explained(path):
        content = path.read_bytes()
    try:
        record = json.loads(content)
        told = record.pop("sha256")
        form = record["format"]
        files = record["files"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _foreign(path, str(error)) from None
    if told != _digest(_canonical(record).encode()) or not isinstance(files, dict):
        raise Damaged("the content does not match its checksum", where=str(path), remedy=_AGAIN)
    if form != FORMAT:
        raise DataError(
            f"written in format {form!r}, this version reads {FORMAT}",
            where=str(path),
            remedy="install the version of Cloister that wrote it",
        )
    return dict(record)


def _digests(folder: Path) -> dict[str, str]:
    """Return the checksum of each file but the last one, by its name in the folder."""
    paths = [folder / _NEURAL, *sorted((folder / _FORESTS).glob("*"))]
    return {path.relative_to(folder).as_posix(): _digest(path.read_bytes()) for path in paths}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _foreign(path: Path, why: str) -> DataError:
    return DataError(f"not a private ranker's: {why}", where=str(path), remedy=_AGAIN)
