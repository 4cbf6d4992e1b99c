"""Queries of the clinic world, and how relevant each patient is: decided by latents, not by words.

A query is made from a patient who exists, so that something relevant does too: one of their main
problems in the words of a layman or a clinician, and things that are true of that patient (facets).

Grades: 3, the condition is a main problem and all facets hold; 2, the patient has the condition;
1, it runs in the family, or a related condition is the principal problem; 0, none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.ids import QueryId
from cloister.data.worlds.clinic.case import PatientRow
from cloister.data.worlds.clinic.latents import Latents
from cloister.data.worlds.clinic.lexicon import CONDITION_INDEX, CONDITIONS
from cloister.data.worlds.clinic.wording import drug_name, wordings

__all__ = ["ClinicQuery", "Facet", "KINDS", "grade", "make_query"]

KINDS: Final = ("short", "medium", "long")
AGE_GROUPS: Final = (("child", 0), ("young adult", 16), ("middle-aged", 40), ("elderly", 65))
_LIMITS: Final = np.array([first for _, first in AGE_GROUPS[1:]])


class Facet(NamedTuple):
    """Something that must hold besides the condition.

    ``kind`` is ``"symptom"`` (the leading one) or ``"drug"``, both of the condition itself, or
    ``"age"``, ``"sex"``, ``"smoking"`` or ``"also"`` (another condition that the patient has).
    """

    kind: str
    value: str


class ClinicQuery(NamedTuple):
    """A query with what it means."""

    query_id: QueryId
    text: str
    kind: str
    condition: str
    facets: tuple[Facet, ...]


def grade(query: ClinicQuery, latents: Latents) -> NDArray[np.int8]:
    """Return the grade of each patient, 0 to 3."""
    condition = CONDITION_INDEX[query.condition]
    mine = latents.condition == condition
    has = mine.any(axis=1)
    best = (mine & latents.main).any(axis=1)
    for facet in query.facets:
        best &= _holds(facet, condition, mine, latents)
    related = np.isin(latents.condition[:, 0], wordings()[condition].related)
    near = related | (latents.family == condition).any(axis=1)
    return np.where(best, 3, np.where(has, 2, near)).astype(np.int8)


def _holds(
    facet: Facet, condition: int, mine: NDArray[np.bool_], latents: Latents
) -> NDArray[np.bool_]:
    """Say for each patient whether a facet holds; ``mine`` are the problems asked about."""
    wording = wordings()[condition]
    held: NDArray[np.bool_]
    match facet.kind:
        case "symptom":
            held = mine & (latents.symptom == wording.symptoms.index(facet.value))
        case "drug":
            texts = [treatment.text for treatment in wording.treatments]
            held = mine & (latents.drug == texts.index(facet.value))
        case "also":
            held = latents.condition == CONDITION_INDEX[facet.value]
        case "age":
            group = [name for name, _ in AGE_GROUPS].index(facet.value)
            held = np.searchsorted(_LIMITS, latents.age, side="right")[:, None] == group
        case "sex":
            held = latents.sex[:, None] == ("female", "male").index(facet.value)
        case _:  # smoking
            held = latents.smoking[:, None] == 2
    return np.asarray(held.any(axis=1))


def make_query(
    number: int, kind: str, row: PatientRow, age: int, rng: np.random.Generator
) -> ClinicQuery:
    """Return a query whose grade for the given patient is 3."""
    main = [s for s, c in enumerate(row.condition) if c >= 0 and (s == 0 or row.severity[s] == 3)]
    slot = int(rng.choice(main))
    condition = row.condition[slot]
    facets = _facets_of(row, slot, age)
    n_facets = min(KINDS.index(kind), len(facets))
    chosen = [facets[i] for i in rng.permutation(len(facets))[:n_facets]]
    wording = wordings()[condition]
    names = wording.lay * 2 + wording.names  # people search in lay words more often
    text = _PHRASES[kind](str(rng.choice(names)), chosen, rng)
    return ClinicQuery(
        QueryId(f"q{number:04}"), text, kind, CONDITIONS[condition].name, tuple(chosen)
    )


def _facets_of(row: PatientRow, slot: int, age: int) -> list[Facet]:
    wording = wordings()[row.condition[slot]]
    facets = [
        Facet("symptom", wording.symptoms[row.symptom[slot]]),
        Facet("age", AGE_GROUPS[int(np.searchsorted(_LIMITS, age, side="right"))][0]),
    ]
    if not CONDITIONS[row.condition[slot]].sex:
        facets.append(Facet("sex", ("female", "male")[row.sex]))
    if row.drug[slot] >= 0:
        facets.append(Facet("drug", wording.treatments[row.drug[slot]].text))
    if row.smoking == 2:
        facets.append(Facet("smoking", "current"))
    others = [c for s, c in enumerate(row.condition) if c >= 0 and s != slot]
    facets += [Facet("also", CONDITIONS[c].name) for c in others[:2]]
    return facets


def _short(name: str, facets: list[Facet], rng: np.random.Generator) -> str:
    return name


def _medium(name: str, facets: list[Facet], rng: np.random.Generator) -> str:
    words = [name, *(_keywords(facet, rng) for facet in facets)]
    rng.shuffle(words)
    return " ".join(words)


def _long(name: str, facets: list[Facet], rng: np.random.Generator) -> str:
    opening = rng.choice(["patients with", "people treated for", "cases of", "records of"])
    return ", ".join([f"{opening} {name}", *(_clause(facet, rng) for facet in facets)])


_PHRASES: Final[dict[str, Callable[[str, list[Facet], np.random.Generator], str]]] = {
    "short": _short,
    "medium": _medium,
    "long": _long,
}


def _keywords(facet: Facet, rng: np.random.Generator) -> str:
    match facet.kind:
        case "drug":
            return drug_name(facet.value)
        case "also":
            return str(rng.choice(wordings()[CONDITION_INDEX[facet.value]].names))
        case "smoking":
            return "smoker"
        case _:
            return facet.value


def _clause(facet: Facet, rng: np.random.Generator) -> str:
    words = _keywords(facet, rng)
    match facet.kind:
        case "symptom":
            return f"mainly {words}"
        case "drug":
            return f"on {words}"
        case "also":
            return f"who also have {words}"
        case "age" | "sex":
            return f"{words} patients only"
        case _:
            return "still smoking"
