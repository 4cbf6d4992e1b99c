"""The *intents* world: several users' preferences for the same queries.

Documents and features are those of a features world. Each intent has its own law of relevance:
part of it is shared by all, the rest is the intent's alone (``agreement`` sets the share), so two
users may want different documents for one query. A document has a grade for each intent.

The same record holds real collections with judgements by intent (TREC Web's subtopics).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.data.letor import LetorSettings, read_letor
from cloister.data.letor_folder import concatenate, find_letor
from cloister.data.ranking_data import RankingData
from cloister.data.text_file import read_lines, shortened
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld, ordered_product

__all__ = ["IntentData", "IntentsSettings", "IntentsWorld", "read_intents"]

# Share of a query's documents that an intent calls relevant, as in the TREC Web collections.
RELEVANT_SHARE: Final = 0.12
CONSTANT: Final = 1e-5  # a column that varies less varies by rounding only


@dataclass(frozen=True)
class IntentData:
    """A data set with one column of labels an intent.

    ``data.labels`` holds the grades that disregard intents.
    """

    data: RankingData
    intent_labels: NDArray[np.int8]

    def __post_init__(self) -> None:
        if self.intent_labels.ndim != 2 or len(self.intent_labels) != self.data.n_rows:
            raise DataError("one row of intent labels for each row of data", where="IntentData")

    @property
    def n_intents(self) -> int:
        """Number of intents."""
        return int(self.intent_labels.shape[1])

    def for_intent(self, intent: int) -> RankingData:
        """Return the data as one intent's users see it; features are shared."""
        return replace(self.data, labels=np.ascontiguousarray(self.intent_labels[:, intent]))


class IntentsSettings(Settings):
    """What an intents world is made of.

    Parameters
    ----------
    intents
        Number of groups of users.
    agreement
        Share of the relevance signal's variance on which all intents agree (1: all the same).
    """

    seed: int = Field(default=1, ge=0)
    queries: int = Field(default=200, ge=1)
    documents: int = Field(default=100, ge=1)
    features: int = Field(default=42, ge=2)
    intents: int = Field(default=4, ge=1, le=64)
    agreement: float = Field(default=0.2, ge=0, le=1)
    noise: float = Field(default=0.1, ge=0, lt=1)
    grades: int = Field(default=2, ge=2, le=5)
    spread: float = Field(default=0.3, ge=0, le=2)


class IntentsWorld:
    """A seeded data set with several users' preferences.

    Examples
    --------
    >>> world = IntentsWorld(IntentsSettings(queries=5, documents=20, features=8, intents=3))
    >>> drawn = world.data()
    >>> drawn.n_intents, drawn.data.n_queries, drawn.intent_labels.shape[0] == drawn.data.n_rows
    (3, 5, True)
    """

    def __init__(self, settings: IntentsSettings | None = None) -> None:
        self.settings = settings or IntentsSettings()
        settings = self.settings
        self._documents = FeaturesWorld(
            FeaturesSettings(
                seed=settings.seed,
                queries=settings.queries,
                documents=settings.documents,
                features=settings.features,
                spread=settings.spread,
                nonlinearity=0,
            )
        )
        rng = stream(settings.seed, "intents world", "law")
        shared = rng.standard_normal((1, settings.features))
        own = rng.standard_normal((settings.intents, settings.features))
        self.weights = np.sqrt(settings.agreement) * shared + np.sqrt(1 - settings.agreement) * own

    def data(self, part: str = "train") -> IntentData:
        """Make the data set; ``part`` names another draw from the same law."""
        settings = self.settings
        data = self._documents.data(part)
        features = _standardised_by_query(data)
        rng = stream(settings.seed, "intents world", "noise", part)
        signal = ordered_product(features, np.ascontiguousarray(self.weights.T, np.float32))
        signal = _to_one_width(signal)
        noise = rng.standard_normal(signal.shape, dtype=np.float32)
        wanted = signal * np.sqrt(1 - settings.noise) + noise * np.sqrt(settings.noise)
        labels = _grade(wanted, settings.grades)
        return IntentData(replace(data, labels=labels.max(axis=1)), labels)


def _standardised_by_query(data: RankingData) -> NDArray[np.float32]:
    """Take each query's mean away and bring columns to one width: intents differ inside queries."""
    starts, lengths = data.offsets[:-1], np.maximum(data.lengths, 1)[:, None]
    means = np.add.reduceat(data.features, starts, axis=0) / lengths
    centred = data.features - np.repeat(means, data.lengths, axis=0)
    return _to_one_width(centred)


def _to_one_width(columns: NDArray[np.floating]) -> NDArray[np.float32]:
    """Divide each column by its standard deviation; one that hardly varies becomes 0."""
    width = columns.std(axis=0)
    return np.asarray(columns / np.where(width > CONSTANT, width, np.inf), np.float32)


def _grade(wanted: NDArray[np.float32], n_grades: int) -> NDArray[np.int8]:
    """Cut each intent's wishes into grades: a small share is relevant, less so highly."""
    shares = 1 - RELEVANT_SHARE * 0.5 ** np.arange(n_grades - 1)
    cuts = np.quantile(wanted, shares, axis=0)
    return np.asarray(np.sum(wanted[None] > cuts[:, None], axis=0), np.int8)


def read_intents(folder: str | Path, settings: LetorSettings | None = None) -> IntentData:
    """Read LETOR parts with an ``intents.tsv(.gz)`` beside them.

    The table's columns are ``qid docid graded intent0 intent1 ...``, one line for each row of the
    LETOR files, joined on query and document.
    """
    folder = Path(folder)
    data = concatenate(read_letor(path, settings) for path in find_letor(folder).files)
    tables = sorted(folder.glob("intents.tsv*"))
    if not tables:
        raise DataError("no intents.tsv", where=str(folder))
    labels = _read_table(tables[0])
    owner = np.repeat(np.arange(data.n_queries), data.lengths)
    query_ids = list(data.query_ids)
    try:
        rows = [labels[query_ids[q], doc] for q, doc in zip(owner, data.doc_ids, strict=True)]
    except KeyError as error:
        raise DataError(f"no intents for the row {error.args[0]}", where=str(tables[0])) from None
    return IntentData(data, np.array(rows, np.int8))


def _read_table(path: Path) -> dict[tuple[str, str], list[int]]:
    lines = read_lines(path)
    names = next(lines, (1, ""))[1].rstrip("\n").split("\t")
    columns = [i for i, name in enumerate(names) if name.startswith("intent")]
    if names[:2] != ["qid", "docid"] or not columns:
        raise DataError("expected columns qid, docid, ..., intent0, ...", where=f"{path}:1")
    labels = {}
    for number, line in lines:
        cells = line.rstrip("\n").split("\t")
        try:
            labels[cells[0], cells[1]] = [int(cells[i]) for i in columns]
        except (IndexError, ValueError):
            raise DataError(f"malformed line {shortened(line)}", where=f"{path}:{number}") from None
    return labels
