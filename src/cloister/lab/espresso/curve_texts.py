"""Texts, queries and grades of a collection, for the curve over access levels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cloister.core.errors import DataError
from cloister.core.ids import DocId
from cloister.core.records import Judgement
from cloister.data.beir import open_beir
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld

__all__ = ["CurveTexts", "beir_texts", "clinic_texts"]


class CurveTexts(NamedTuple):
    """A collection: texts, queries, and for each query the grades by number of the text."""

    documents: Sequence[str]
    queries: Sequence[str]
    grades: Sequence[Mapping[int, int]]


def beir_texts(folder: str | Path, split: str = "test") -> CurveTexts:
    """Read a collection in the BEIR layout, with the queries that a split judges."""
    collection = open_beir(folder)
    if split not in collection.judgements:
        raise DataError(f"no judgements {split}", where=str(folder))
    numbers = {document.doc_id: i for i, document in enumerate(collection.documents)}
    grades = _grades(collection.judgements[split], numbers)
    judged = [query for query in collection.queries if query.query_id in grades]
    return CurveTexts(
        [f"{document.title}\n{document.text}" for document in collection.documents],
        [query.text for query in judged],
        [grades[query.query_id] for query in judged],
    )


def clinic_texts(settings: ClinicSettings) -> CurveTexts:
    """Make a clinic world; its grades come from how patients were made, not from people."""
    world = ClinicWorld(settings)
    documents = list(world.documents())
    numbers = {document.doc_id: i for i, document in enumerate(documents)}
    grades = _grades(world.judgements(), numbers)
    return CurveTexts(
        [f"{document.title}\n{document.text}" for document in documents],
        [query.text for query in world.queries],
        [grades.get(query.query_id, {}) for query in world.queries],
    )


def _grades(
    judgements: Iterable[Judgement], numbers: Mapping[DocId, int]
) -> dict[str, dict[int, int]]:
    grades: dict[str, dict[int, int]] = defaultdict(dict)
    for query_id, doc_id, grade in judgements:
        if doc_id in numbers and grade > 0:
            grades[query_id][numbers[doc_id]] = grade
    return grades
