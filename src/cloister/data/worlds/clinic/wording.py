"""The lexicon made ready for writing: every sentence that needs no name or date, spelt once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

from cloister.data.worlds.clinic.condition import Condition, LabTest
from cloister.data.worlds.clinic.lexicon import CONDITION_INDEX, CONDITIONS
from cloister.data.worlds.clinic.phrases import (
    ADHERENCE,
    CONTINUE,
    NOT_SUGGESTED,
    REQUESTED,
    RESULT,
    REVIEW,
    SIGN,
    START,
    WITHOUT,
    Template,
)

__all__ = ["Wording", "capital", "drug_name", "wordings"]

N_VALUES: Final = 12  # different values of a test at one severity
_DOSE = re.compile(
    r" (?:\d|once|twice|three|four|every|each|at |as |with meals|before|after|according|up to"
    r"|during|for |by |single|in |taken).*"
)

Sentences = tuple[str, ...]


class Treatment(NamedTuple):
    """One prescription, and what is said about it."""

    text: str
    continued: Sentences
    started: Sentences
    adherence: Sentences


class Wording(NamedTuple):
    """All that can be said about a condition."""

    names: Sentences
    capitals: Sentences  # of the names
    lay: Sentences
    reviews: tuple[Sentences, ...]  # by name
    symptoms: Sentences
    symptom_capitals: Sentences
    without: tuple[Sentences, ...]  # by symptom
    signs: Sentences
    results: tuple[Sentences, ...]  # by severity, 1 to 3
    treatments: tuple[Treatment, ...]
    procedures: Sentences
    requested: Sentences
    advice: Sentences
    not_suggested: Sentences  # in the record of somebody who does not have it
    related: tuple[int, ...]
    course: Sentences
    graded: bool
    chronic: bool


def capital(text: str) -> str:
    """Return a text with its first letter made large, the others left alone.

    Examples
    --------
    >>> capital("type 2 diabetes")
    'Type 2 diabetes'
    """
    return text[:1].upper() + text[1:]


def drug_name(prescription: str) -> str:
    """Return a prescription without its dose.

    Examples
    --------
    >>> drug_name("insulin glargine 18 units at night"), drug_name("hormonal coil")
    ('insulin glargine', 'hormonal coil')
    """
    return _DOSE.sub("", prescription)


@cache
def wordings() -> tuple[Wording, ...]:
    """Return the wording of each condition, in the order of `CONDITIONS`."""
    return tuple(_wording(entry) for entry in CONDITIONS)


def _said(templates: Iterable[Template], *things: str) -> Sentences:
    """Return each thing in each template."""
    return tuple(template(thing) for thing in things for template in templates)


def _wording(entry: Condition) -> Wording:
    return Wording(
        names=entry.names,
        capitals=tuple(map(capital, entry.names)),
        lay=entry.lay,
        reviews=tuple(_said(REVIEW, name) for name in entry.names),
        symptoms=entry.symptoms,
        symptom_capitals=tuple(map(capital, entry.symptoms)),
        without=tuple(_said(WITHOUT, symptom) for symptom in entry.symptoms),
        signs=_said(SIGN, *entry.signs),
        results=((), *(_results(entry.tests, severity) for severity in (1, 2, 3))),
        treatments=tuple(_treatment(drug.text) for drug in entry.drugs),
        procedures=entry.procedures,
        requested=_said(REQUESTED, *entry.procedures),
        advice=entry.advice,
        not_suggested=_said(NOT_SUGGESTED, entry.name),
        related=tuple(CONDITION_INDEX[name] for name in entry.related),
        course=entry.course,
        graded=entry.graded,
        chronic=entry.chronic,
    )


def _treatment(prescription: str) -> Treatment:
    return Treatment(
        prescription,
        continued=_said(CONTINUE, prescription),
        started=_said(START, prescription),
        adherence=_said(ADHERENCE, drug_name(prescription)),
    )


def _results(tests: Sequence[LabTest], severity: int) -> Sentences:
    """Return the results of all tests at one severity; severe cases have severe values."""
    sentences = []
    for test in tests:
        # "eGFR" and "NT-proBNP" are spelt as they are wherever they stand.
        first = test.name if test.name[1:2].isupper() else capital(test.name)
        for k in range(N_VALUES):
            place = (severity - 1 + (k + 0.5) / N_VALUES) / 3
            number = test.mild + (test.severe - test.mild) * place
            value = f"{number:.{test.decimals}f}{test.unit}"
            sentences += [template(first, test.name, value) for template in dict.fromkeys(RESULT)]
    return tuple(sentences)
