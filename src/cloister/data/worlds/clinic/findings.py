"""What a clinician finds: vital signs, signs, test values, and what is ruled out."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.case import Case, Problem
from cloister.data.worlds.clinic.latents import YEAR
from cloister.data.worlds.clinic.lexicon import CONDITION_INDEX, CONDITIONS
from cloister.data.worlds.clinic.phrases import (
    REPORTS,
    REPORTS_OF_PARENTS,
    UNUSUAL,
    VITAL_SIGNS,
    VITAL_SIGNS_OF_A_CHILD,
)
from cloister.data.worlds.clinic.wording import wordings

__all__ = ["doubts", "findings", "reports", "vital_signs"]

SPEAKS_FROM: Final = 6  # years; before, the parents report
USUAL_KG: Final = (66, 79)  # of women, of men
EXTRA_KG: Final = 30  # of the obese
OBESITY: Final = CONDITION_INDEX["obesity"]
HYPERTENSION: Final = CONDITION_INDEX["hypertension"]
GROWN_UP: Final = 16  # years; before, blood pressure is not measured

# What anybody's acquaintance may have.
_OF_OTHERS: Final = tuple(
    name for entry in CONDITIONS if entry.chronic and not entry.sex for name in entry.names
)


def reports(case: Case) -> str:
    """Return the verb of a complaint, with the parents as its subject for a small child."""
    return case.pick(REPORTS if case.age >= SPEAKS_FROM else REPORTS_OF_PARENTS)


def findings(case: Case, problem: Problem) -> str:
    """Return the sentences of the examination for one problem."""
    text = f"{vital_signs(case)} {case.pick(problem.wording.signs)}"
    results = problem.wording.results[problem.severity]
    word = case.word()
    if results and word & 3:
        return f"{text} {results[(word >> 2) % len(results)]}"
    return text


def vital_signs(case: Case) -> str:
    """Return blood pressure and weight, or what is measured of a child."""
    word = case.word()
    if case.age < GROWN_UP:
        kg = _usual_weight_of_a_child((case.day - case.row.birth) / YEAR) * case.build
        pulse = 118 - 3 * case.age + (word & 15)
        return case.pick(VITAL_SIGNS_OF_A_CHILD)(f"{kg:.1f}", pulse)
    systolic = (134 if case.has(HYPERTENSION) else 110) + word % 25
    diastolic = systolic // 2 + 8 + (word >> 7) % 12
    kg = int(USUAL_KG[case.row.sex] * case.build) + (word >> 5 & 3)
    kg += EXTRA_KG if case.has(OBESITY) else 0
    return case.pick(VITAL_SIGNS)(systolic, diastolic, 58 + (word >> 11) % 30, kg)


def _usual_weight_of_a_child(years: float) -> float:
    """Return kilograms: fast in the first year, then steadily, then the growth of adolescence."""
    if years < 1:
        return 3.5 + 6.3 * years
    return 9.8 + 2.5 * (years - 1) if years < 10 else 32.3 + 4.6 * (years - 10)


def doubts(case: Case, problem: Problem) -> str:
    """Return a sentence about an illness that the patient does not have, or nothing."""
    word = case.word()
    if word & 3 == 0:
        related = problem.wording.related
        other = related[(word >> 2) % len(related)]
        entry = CONDITIONS[other]
        sound = entry.sex in ("", "FM"[case.row.sex]) and entry.ages[0] <= case.age
        if sound and other not in case.row.condition:
            return " " + case.pick(wordings()[other].not_suggested)
    elif word & 31 == 1 and case.age >= GROWN_UP:
        return " " + case.pick(UNUSUAL)(case.pick(_OF_OTHERS), case.person())
    return ""
