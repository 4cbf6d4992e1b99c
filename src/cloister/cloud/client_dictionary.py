"""What the client keeps to ask its index: a secret, and which words, phrases and pairs have boxes.

The file is an array file (:mod:`cloister.store.array_layout`) of the kind ``client-dictionary``,
readable by its owner only. It is all that a client needs, beside the index on the server. **Whoever
has it reads the index**: it holds the secret, and the words of the collection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from cloister.cloud.ranking_keys import RankingKeys
from cloister.cloud.sealed_boxes import INDEX_ID_BYTES, SECRET_BYTES, BoxSecret
from cloister.core.errors import CloisterError, DataError
from cloister.index.analysis import TextAnalysis
from cloister.privacy.private_file import read_private_file
from cloister.rank.tree_features import TreeFeatureSettings
from cloister.store.array_file import from_bytes, write_arrays

__all__ = ["ClientDictionary"]

Integers = NDArray[np.int64]

KIND: Final = "client-dictionary"
FORMAT: Final = 1
_WHAT: Final = "a client's dictionary"


@dataclass(frozen=True, eq=False)
class ClientDictionary:
    """The client's side of one index; ``repr()`` does not show the secret.

    Parameters
    ----------
    secret
        32 bytes. All labels and keys come from it.
    index_id
        Of the index that was built with it.
    analysis
        How texts were cut into terms; queries are cut alike.
    words, document_frequencies
        The words that have boxes, and in how many documents each occurs.
    phrases, pairs
        Which have boxes: rising numbers (first word's position) x (number of words) + (second
        word's position). Of a pair the first word is the lower string.
    features
        Of the trees; None without trees. They say which words have places.
    longest
        Queries of so many different terms and longer ones are scored by the same trees.

    Raises
    ------
    DataError
        If the parts do not fit together.

    Examples
    --------
    >>> dictionary = ClientDictionary(
    ...     bytes(32), bytes(16), TextAnalysis(), ("dry", "cough"), np.array([3, 5]),
    ...     phrases=np.array([1]), pairs=np.array([2]), features=None, longest=0)
    >>> dictionary.has_phrase("dry", "cough"), dictionary.has_phrase("cough", "dry")
    (True, False)
    >>> dictionary.has_pair("dry", "cough"), dictionary.document_frequency("fever")
    (True, 0)
    """

    secret: bytes = field(repr=False)
    index_id: bytes
    analysis: TextAnalysis
    words: tuple[str, ...] = field(repr=False)
    document_frequencies: Integers = field(repr=False)
    phrases: Integers = field(repr=False)
    pairs: Integers = field(repr=False)
    features: TreeFeatureSettings | None
    longest: int

    def __post_init__(self) -> None:
        n = len(self.words)
        if len(self.secret) != SECRET_BYTES or len(self.index_id) != INDEX_ID_BYTES:
            _refuse("the secret or the index id is of another length")
        if len(self.positions) != n or self.document_frequencies.shape != (n,):
            _refuse("words do not fit their document frequencies, or one stands twice")
        if any(not word or "\0" in word for word in self.words):
            _refuse("a word is empty or has a zero character")
        for codes in (self.phrases, self.pairs):
            sound = codes.ndim == 1 and (
                not len(codes)
                or (codes[0] >= 0 and codes[-1] < n * n and bool((codes[1:] > codes[:-1]).all()))
            )
            if not sound:
                _refuse("phrases or pairs are of no words, or do not rise")
        if self.longest < 0:
            _refuse("the longest length is at least 0")

    @classmethod
    def of_keys(
        cls,
        keys: RankingKeys,
        document_frequencies: NDArray[Any],
        boxes: tuple[bytes, bytes],
        analysis: TextAnalysis,
        features: TreeFeatureSettings | None,
        longest: int,
        *,
        with_pairs: bool = True,
    ) -> ClientDictionary:
        """Return the dictionary of an index.

        Parameters
        ----------
        boxes
            The secret and the index's id.
        with_pairs
            Whether pairs have boxes.
        """
        numbers, n = keys.word_numbers, len(keys.words)
        phrases, pairs = (
            np.array(sorted(numbers[a] * n + numbers[b] for a, b in found), np.int64)
            for found in (keys.phrases, keys.pairs if with_pairs else ())
        )
        df = np.asarray(document_frequencies, np.int64)
        return cls(*boxes, analysis, keys.words, df, phrases, pairs, features, longest)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each word."""
        return {word: position for position, word in enumerate(self.words)}

    @cached_property
    def boxes(self) -> BoxSecret:
        """Labels and keys of the boxes."""
        return BoxSecret(self.secret, self.index_id)

    def has_word(self, word: str) -> bool:
        """Say whether a word has a box."""
        return word in self.positions

    def document_frequency(self, word: str) -> int:
        """Return in how many documents a word occurs."""
        position = self.positions.get(word)
        return 0 if position is None else int(self.document_frequencies[position])

    def has_phrase(self, first: str, second: str) -> bool:
        """Say whether two adjacent words, in this order, have a box."""
        return self._among(self.phrases, first, second)

    def has_pair(self, a: str, b: str) -> bool:
        """Say whether two words that stand near each other have a box, in either order."""
        return self._among(self.pairs, min(a, b), max(a, b))

    def _among(self, codes: Integers, first: str, second: str) -> bool:
        a, b = self.positions.get(first), self.positions.get(second)
        if a is None or b is None:
            return False
        code = a * len(self.words) + b
        place = int(np.searchsorted(codes, code))
        return place < len(codes) and int(codes[place]) == code

    def save(self, path: str | Path) -> None:
        """Write the file with mode 0600, in the place of one that may be there."""
        header = {
            "format": FORMAT,
            "secret": self.secret.hex(),
            "index_id": self.index_id.hex(),
            "analysis": self.analysis.model_dump(mode="json"),
            "features": None if self.features is None else self.features.model_dump(mode="json"),
            "longest": self.longest,
        }
        arrays: dict[str, NDArray[Any]] = {
            "words": np.frombuffer("\0".join(self.words).encode(), np.uint8),
            "document_frequencies": self.document_frequencies,
            "phrases": self.phrases,
            "pairs": self.pairs,
        }
        write_arrays(path, KIND, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> ClientDictionary:
        """Read a file that nobody but its owner may read.

        Raises
        ------
        NotFound
            There is no such file.
        AccessDenied
            Others may read or write it.
        DataError
            It is something else, or its parts contradict each other.
        Damaged
            It is cut off or does not match its checksums.
        """
        header, arrays = from_bytes(read_private_file(path), KIND, what=_WHAT)
        if header.get("format") != FORMAT:
            _refuse(f"this version reads format {FORMAT}")
        try:
            features = header["features"]
            words = arrays.pop("words").tobytes().decode()
            return cls(
                secret=bytes.fromhex(header["secret"]),
                index_id=bytes.fromhex(header["index_id"]),
                analysis=TextAnalysis(**header["analysis"]),
                words=tuple(words.split("\0")) if words else (),
                features=None if features is None else TreeFeatureSettings(**features),
                longest=int(header["longest"]),
                **arrays,
            )
        except CloisterError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            _refuse(f"cannot be read ({type(error).__name__})")


def _refuse(what: str) -> NoReturn:
    raise DataError(what, where=KIND, remedy="build the index again")
