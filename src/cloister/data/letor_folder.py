"""Folders of LETOR files: which files there are, and how they make folds.

Four layouts are known:

- *folds*: ``Fold1`` to ``Fold5``, each with ``train``, ``vali`` and ``test`` (LETOR 4.0, MSLR);
- *parts*: numbered files such as ``S1`` to ``S5``, which rotate into folds as LETOR 4.0 does it:
  fold i trains on parts i, i+1, i+2, validates on i+3 and tests on i+4;
- *split*: files named after ``train``, ``vali`` and ``test`` (Yahoo's ``set1.train.txt``,
  Istella's ``train.txt``), or only some of them;
- *file*: a single file, used for training and testing alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.data.byte_strings import ByteStrings
from cloister.data.letor import LetorSettings, read_letor
from cloister.data.normalise import column_scale, normalise
from cloister.data.ranking_data import RankingData

__all__ = ["Fold", "FoldData", "LetorFolder", "concatenate", "find_letor"]

Layout = Literal["folds", "parts", "split", "file"]
Paths = tuple[Path, ...]

_ENDINGS: Final = (".txt", ".txt.gz", ".svm", ".svm.gz", ".svmlight", ".svmlight.gz", ".dat")
_ROLE: Final = re.compile(r"(?:^|[._-])(train|vali|valid|validation|dev|test)(?=[._-]|$)")
_PART: Final = re.compile(r"^([A-Za-z]+)(\d+)$")


class Fold(NamedTuple):
    """The files of one fold; ``validation`` may be empty."""

    train: Paths
    validation: Paths
    test: Paths


class FoldData(NamedTuple):
    """The data of one fold; ``validation`` is None where the source has none."""

    train: RankingData
    validation: RankingData | None
    test: RankingData


class LetorFolder(NamedTuple):
    """What was found at a path."""

    layout: Layout
    folds: tuple[Fold, ...]

    @property
    def files(self) -> Paths:
        """All files that together hold each query once."""
        folds = self.folds if self.layout == "split" else self.folds[:1]
        return tuple(sorted({path for fold in folds for part in fold for path in part}))

    def load_fold(self, number: int = 1, settings: LetorSettings | None = None) -> FoldData:
        """Read one fold, numbered from 1.

        A global normalisation is learnt from the training part and applied to all three.
        """
        if not 1 <= number <= len(self.folds):
            raise SettingsError(
                f"no fold {number}", where="fold", remedy=f"there are {len(self.folds)}"
            )
        settings = settings or LetorSettings()
        fold = self.folds[number - 1]
        is_global = settings.normalise.startswith("global")
        file_settings = settings.model_copy(update={"normalise": "none"} if is_global else {})
        parts = [
            concatenate([read_letor(path, file_settings) for path in paths]) if paths else None
            for paths in fold
        ]
        width = max((part.n_features for part in parts if part is not None), default=0)
        train, validation, test = (part and _padded_to(part, width) for part in parts)
        if train is None or test is None:
            missing = "training" if train is None else "test"
            raise DataError(
                f"no {missing} file", where=f"fold {number}",
                remedy="a fold needs files named after train and test",
            )  # fmt: skip
        if is_global:
            method, scale = settings.normalise, column_scale(train, settings.normalise)
            train, test = (normalise(part, method, scale=scale) for part in (train, test))
            validation = validation and normalise(validation, method, scale=scale)
        return FoldData(train, validation, test)


def find_letor(path: str | Path) -> LetorFolder:
    """Find the LETOR files at a path, a file or a folder."""
    path = Path(path)
    if not path.exists():
        raise NotFound("no such file or folder", where=str(path))
    if path.is_file():
        return LetorFolder("file", (Fold((path,), (), (path,)),))
    if not path.is_dir():
        raise DataError("neither a file nor a folder", where=str(path))
    fold_folders = [p for p in path.iterdir() if p.is_dir() and _fold_number(p.name)]
    if fold_folders:
        fold_folders.sort(key=lambda p: _fold_number(p.name))
        folds = [fold for p in fold_folders for fold in _splits(_letor_files(p))]
        return LetorFolder("folds", tuple(folds))
    files = _letor_files(path)
    parts = sorted((part, file) for file in files if (part := _part(file)))
    if len(parts) >= 3 and len({name for (name, _), _ in parts}) == 1:
        return LetorFolder("parts", _rotations([file for _, file in parts]))
    if any(_role(file) for file in files):
        return LetorFolder("split", tuple(_splits(files)))
    if len(files) == 1:
        return LetorFolder("file", (Fold((files[0],), (), (files[0],)),))
    raise DataError(
        "no LETOR files in a known layout", where=str(path),
        remedy="name a file, or a folder with Fold1..5, S1..5, or train/vali/test files",
    )  # fmt: skip


def concatenate(parts: Iterable[RankingData]) -> RankingData:
    """Put data sets one behind the other; missing last features become 0.

    Queries of different parts stay apart even if they share an id.
    """
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    width = max(part.n_features for part in parts)
    ends = np.cumsum([0] + [part.n_rows for part in parts])
    offsets = [part.offsets[1:] + start for part, start in zip(parts, ends, strict=False)]
    named = all(len(part.doc_ids) for part in parts)
    return RankingData(
        np.concatenate([_padded_to(part, width).features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([np.zeros(1, np.int64), *offsets]),
        ByteStrings.joined([part.query_ids for part in parts]),
        ByteStrings.joined([part.doc_ids for part in parts]) if named else (),
    )


def _padded_to(data: RankingData, width: int) -> RankingData:
    missing = width - data.n_features
    if missing <= 0:
        return data
    features = np.pad(data.features, ((0, 0), (0, missing)))
    return RankingData(features, data.labels, data.offsets, data.query_ids, data.doc_ids)


def _letor_files(folder: Path) -> list[Path]:
    """Return the files by name; where one lies there plain and compressed, the plain one."""
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):  # plain before .gz
        if file.is_file() and file.name.endswith(_ENDINGS) and not file.name.startswith("."):
            found.setdefault(file.name.removesuffix(".gz"), file)
    return list(found.values())


def _fold_number(name: str) -> int:
    found = re.fullmatch(r"(?i)fold(\d+)", name)
    return int(found[1]) if found else 0


def _part(file: Path) -> tuple[str, int] | None:
    found = _PART.match(file.name.split(".")[0])
    return (found[1], int(found[2])) if found and not _role(file) else None


def _role(file: Path) -> str:
    """Return which part of a split a file's name says it is; empty if none."""
    found = _ROLE.search(file.name.lower())
    if not found:
        return ""
    return found[1] if found[1] in ("train", "test") else "validation"


def _splits(files: list[Path]) -> list[Fold]:
    """Return one split for each name before the part's: Yahoo's set1 and set2 stay apart."""
    collections: dict[str, dict[str, list[Path]]] = {}
    for file in files:
        if role := _role(file):
            name = file.name[: _ROLE.search(file.name.lower()).start()]  # type: ignore[union-attr]
            collections.setdefault(name, {}).setdefault(role, []).append(file)
    return [
        Fold(*(tuple(by_role.get(role, ())) for role in ("train", "validation", "test")))
        for _, by_role in sorted(collections.items())
    ]


def _rotations(files: list[Path]) -> tuple[Fold, ...]:
    n = len(files)
    return tuple(
        Fold(
            tuple(files[(i + k) % n] for k in range(n - 2)),
            (files[(i + n - 2) % n],),
            (files[(i + n - 1) % n],),
        )
        for i in range(n)
    )
