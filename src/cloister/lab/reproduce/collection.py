"""Where real collections lie: a folder given, ``CLOISTER_DATA``, or one beside the checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import cloister
from cloister.data.worlds.address import is_world

__all__ = ["Collection", "Collections", "data_folder"]

FOLDERS: Final = {
    "MQ2008": "ltr/mq2008",
    "MSLR sample": "ltr/mslr-web-sample",
    "ClueWeb09": "ltr/clueweb09",
    "MedQuAD": "text/medquad",
    "NFCorpus": "text/nfcorpus",
    "MS MARCO 5k": "text/trecdl-msmarco-5k",
}


def data_folder(given: Path | None = None) -> Path:
    """Return the folder in which collections are looked for."""
    if given is not None:
        return given
    if chosen := os.environ.get("CLOISTER_DATA"):
        return Path(chosen)
    checkout = Path(cloister.__file__).resolve().parents[2]
    return checkout.parent / "shared" / "data"


class Collection(NamedTuple):
    """A collection or a world: its name, and where it is."""

    name: str
    address: str

    @property
    def is_here(self) -> bool:
        """Whether it can be read; worlds always can."""
        return is_world(self.address) or Path(self.address).is_dir()


@dataclass(frozen=True)
class Collections:
    """The collections below one folder.

    Examples
    --------
    >>> Collections(Path("nowhere"))["MQ2008"].is_here
    False
    """

    root: Path

    def __getitem__(self, name: str) -> Collection:
        return Collection(name, str((self.root / FOLDERS[name]).resolve()))
