"""What a client asks of the server that keeps its private index, and what comes back.

A request carries, of each box that the query needs, its label and its key: the server opens these
boxes and no others, and may keep what it saw for ever. In JSON, bytes are base64 (the alphabet that
is safe in addresses).

A record that was read is sound in itself: nothing stands twice, and every number lies in its range.
Whether it fits the index is found out when it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cloister.cloud.sealed_boxes import KEY_BYTES, LABEL_BYTES
from cloister.core.errors import DataError

__all__ = ["AskedBox", "AskedPair", "AskedWord", "RankAnswer", "RankRequest"]

MAX_WORDS: Final = 1024  # different ones; a question of a patient has a few hundred
MAX_PLACES: Final = 32  # as TreeFeatureSettings.n_positions
MAX_PAIRS: Final = MAX_PLACES * (MAX_PLACES - 1) // 2
MAX_CANDIDATES: Final = 1_000_000

Place = Annotated[int, Field(ge=0, lt=MAX_PLACES)]
DocumentNumber = Annotated[int, Field(ge=0, lt=2**31)]
Candidates = Annotated[tuple[DocumentNumber, ...], Field(max_length=MAX_CANDIDATES, fail_fast=True)]


class _Message(BaseModel):
    """A frozen record that reads and writes JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
    )

    @classmethod
    def from_json(cls, content: bytes | str) -> Self:
        """Read a record.

        Raises
        ------
        DataError
            If it is not one; the error does not repeat what was given.
        """
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise DataError(
                _first_fault(error), where=cls.__name__, remedy="send what the protocol says"
            ) from None

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return self.model_dump_json().encode()


class AskedBox(_Message):
    """A box that the server shall open.

    Parameters
    ----------
    label
        Where it lies.
    key
        Opens this box and no other.
    """

    label: bytes = Field(min_length=LABEL_BYTES, max_length=LABEL_BYTES)
    key: bytes = Field(min_length=KEY_BYTES, max_length=KEY_BYTES, repr=False)


class AskedWord(AskedBox):
    """The box of a word.

    Parameters
    ----------
    place
        Its place among the features of trees, from 0; -1 if it has none.
    """

    place: int = Field(default=-1, ge=-1, lt=MAX_PLACES)


class AskedPair(AskedBox):
    """The box of two words that stand near each other in some documents.

    Parameters
    ----------
    first, second
        Their places, the lower first.
    turned
        Whether the query has them in the other order than the box.
    """

    first: Place
    second: Place
    turned: bool


class RankRequest(_Message):
    """A query in keyed labels.

    Words and adjacent words that have no box are not named: ``n_terms`` says how many there are.
    Boxes of one kind may come in any order; a client sorts them by label, so that the order says
    nothing of the query's.

    Parameters
    ----------
    model
        The box with the weights and the trees.
    n_terms
        Different terms of the query, with those that have no box.
    words
        Boxes of its words.
    phrases
        Boxes of its adjacent words.
    pairs
        Boxes of its words that stand near each other somewhere.
    candidates
        Numbers of documents to be ranked; None asks for all documents of the closures.
    k
        How many of the best are wanted.

    Examples
    --------
    >>> box = AskedBox(label=bytes(16), key=bytes(32))
    >>> request = RankRequest(model=box, n_terms=1, candidates=(4, 2), k=5)
    >>> RankRequest.from_json(request.to_json()) == request
    True
    >>> RankRequest.from_json(b'{"k": 0}')
    Traceback (most recent call last):
    ...
    cloister.core.errors.DataError: RankRequest: model: Field required; send what the protocol says
    """

    model: AskedBox
    n_terms: int = Field(ge=0, le=MAX_WORDS)
    words: tuple[AskedWord, ...] = Field(default=(), max_length=MAX_WORDS, fail_fast=True)
    phrases: tuple[AskedBox, ...] = Field(default=(), max_length=MAX_WORDS, fail_fast=True)
    pairs: tuple[AskedPair, ...] = Field(default=(), max_length=MAX_PAIRS, fail_fast=True)
    candidates: Candidates | None = None
    k: int = Field(ge=1, le=MAX_CANDIDATES)

    @property
    def n_phrases(self) -> int:
        """Adjacent words of the query, with those that have no box."""
        return max(0, self.n_terms - 1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _once("a box", (box.label for box in (*self.words, *self.phrases, *self.pairs)))
        places = [word.place for word in self.words if word.place >= 0]
        _once("a place", places)
        _once("a pair of places", ((pair.first, pair.second) for pair in self.pairs))
        _once("a candidate", self.candidates or ())
        if len(self.words) > self.n_terms or any(place >= self.n_terms for place in places):
            raise ValueError("there are more words or places than terms")
        if len(self.phrases) > self.n_phrases:
            raise ValueError("there are more adjacent words than terms")
        known = set(places)
        for pair in self.pairs:
            if not pair.first < pair.second or not {pair.first, pair.second} <= known:
                raise ValueError("a pair is not of two places of words, the lower first")
        return self


class RankAnswer(_Message):
    """The best documents, best first; of equal scores the lower number first.

    Parameters
    ----------
    documents
        Their numbers.
    names
        Their names, sealed under a key that the server does not have.
    scores
        w . phi + b of the last layer.
    n_scored
        How many documents were scored.
    """

    documents: tuple[DocumentNumber, ...]
    names: tuple[bytes, ...]
    scores: tuple[float, ...]
    n_scored: int = Field(ge=0)

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        if not len(self.documents) == len(self.names) == len(self.scores) <= self.n_scored:
            raise ValueError("documents, names and scores do not fit together")
        return self


def _once(what: str, given: Iterable[Any]) -> None:
    values = list(given)
    if len(set(values)) != len(values):
        raise ValueError(f"{what} is given twice")


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    place = ".".join(str(part) for part in first["loc"])
    return f"{place[:80]}: {message}" if place else message
