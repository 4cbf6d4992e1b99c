"""Rankers as files that are named by their content: what serves is known by its SHA-256."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cloister.core.errors import CloisterError, DataError
from cloister.rank.ranker import Ranker
from cloister.rank.saving import load_ranker, save_ranker
from cloister.store.files import Files

__all__ = ["RankerFiles", "ranker_bytes", "ranker_from_bytes"]

_FILE: Final = "ranker.safetensors"
MOST_BYTES: Final = 1 << 26


def ranker_bytes(ranker: Ranker) -> bytes:
    """Return a ranker as safetensors; equal rankers give equal bytes in one version of Cloister.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> ranker = Ranker.initial(RankerSettings(n_features=3))
    >>> ranker_bytes(ranker) == ranker_bytes(Ranker.initial(RankerSettings(n_features=3)))
    True
    """
    with TemporaryDirectory(prefix="cloister-") as folder:
        path = Path(folder, _FILE)
        save_ranker(ranker, path)
        return path.read_bytes()


def ranker_from_bytes(content: bytes) -> Ranker:
    """Read a ranker; raise `DataError` at anything else."""
    if len(content) > MOST_BYTES:
        raise DataError(f"a ranker has at most {MOST_BYTES} bytes", where="ranker")
    with TemporaryDirectory(prefix="cloister-") as folder:
        path = Path(folder, _FILE)
        path.write_bytes(content)
        try:
            return load_ranker(path)
        except CloisterError as error:
            raise DataError(error.what, where="ranker") from None


class RankerFiles:
    """The rankers that have served, or were tried. Threads and processes may share it.

    Parameters
    ----------
    root
        A folder for `cloister.store.files.Files`.
    """

    def __init__(self, root: str | Path) -> None:
        self._files = Files(root)

    def put(self, ranker: Ranker) -> str:
        """Keep a ranker; return its digest."""
        return self._files.put(ranker_bytes(ranker)).digest

    def put_bytes(self, content: bytes) -> str:
        """Keep a ranker that came as bytes, if it is one; return its digest."""
        ranker_from_bytes(content)
        return self._files.put(content).digest

    def read(self, digest: str) -> Ranker:
        """Return a ranker, checked against its digest."""
        return ranker_from_bytes(self.read_bytes(digest))

    def read_bytes(self, digest: str) -> bytes:
        """Return a ranker's bytes, checked against their digest."""
        return self._files.read(digest)

    def __contains__(self, digest: str) -> bool:
        return digest in self._files
