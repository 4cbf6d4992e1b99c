"""The head of a record, and what each note carries on from it: histories and ongoing problems."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import Final

from cloister.data.worlds.clinic.case import Case, Problem
from cloister.data.worlds.clinic.latents import AS_OF, YEAR
from cloister.data.worlds.clinic.lexicon import ALLERGENS, RELATIVES
from cloister.data.worlds.clinic.phrases import BACKGROUND, CALLED, SEVERITY
from cloister.data.worlds.clinic.remarks import life_stage
from cloister.data.worlds.clinic.wording import wordings

__all__ = ["day_text", "history", "ongoing", "summary"]

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@lru_cache(maxsize=40_000)  # about as many days as a long life has
def day_text(day: int) -> str:
    """Return a day as notes write it.

    Examples
    --------
    >>> day_text(737_000)
    '2 November 2018'
    """
    when = date.fromordinal(day)
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def summary(case: Case) -> str:
    """Return the head of a record: who the patient is, and every problem by name."""
    row = case.row
    case.at(AS_OF)
    sex = ("female", "male")[row.sex]
    lines = [
        f"{case.name}, {sex}, born {day_text(row.birth)}. Lives in {case.home}{_occupation(case)}.",
        f"Registered with {case.clinicians[0]} since {_year(row.record_start)}. "
        f"{_allergies(case)} {_smoking(case)}",
        _family(case) + ongoing(case, AS_OF),
    ]
    if case.acute:
        past = sorted(case.acute, key=lambda p: p.onset)
        lines.append("Past: " + ", ".join(f"{p.name} ({_year(p.onset)})" for p in past) + ".")
    lines += [history(case, p) for p in case.chronic if p.main]
    return "\n".join(lines)


def history(case: Case, problem: Problem) -> str:
    """Return how a chronic problem began; the words are chosen once for a patient."""
    text = case.histories.get(problem.condition)
    if text is None:
        text = case.histories[problem.condition] = _history(case, problem)
    return text


def _history(case: Case, problem: Problem) -> str:
    pick, wording = case.pick, problem.wording
    other = wording.symptoms[problem.other_symptom(case.word())]
    template = pick(BACKGROUND)
    text = template(
        problem.capital, _year(problem.onset), wording.symptoms[problem.symptom], other,
        pick(wording.procedures), f"Dr {case.surname()}", f"{case.place()} hospital", problem.name,
    )  # fmt: skip
    if case.word() & 3 == 0:
        text += " " + pick(CALLED)(pick(wording.lay))
    return text


def ongoing(case: Case, day: int) -> str:
    """Return a line with the chronic problems begun by a day, in the same words each time.

    It starts with a line break, and is empty if there are none.
    """
    n = case.n_ongoing(day)
    text = case.ongoing.get(n)
    if text is None:
        parts = [_ongoing_part(problem) for problem in case.chronic[:n]]
        text = case.ongoing[n] = f"\nOngoing: {'; '.join(parts)}." if parts else ""
    return text


def _ongoing_part(problem: Problem) -> str:
    degree = f"{SEVERITY[problem.severity]}, " if problem.wording.graded else ""
    drug = f", {problem.treatment.text}" if problem.treatment else ""
    return f"{problem.name} ({degree}since {_year(problem.onset)}){drug}"


def _occupation(case: Case) -> str:
    stage = life_stage(case.age)
    if stage == 0:
        return " with the parents"
    if stage == 1:
        return f", goes to {case.school} School"
    worked = "works" if stage == 2 else "retired, worked"
    article = "an" if case.job[0] in "aeiou" else "a"
    return f", {worked} as {article} {case.job} at {case.employer}"


def _allergies(case: Case) -> str:
    known = [ALLERGENS[a] for a in case.row.allergy if a >= 0]
    if not known:
        return "No known allergies."
    return "Allergies: " + ", ".join(f"{a.name} ({case.pick(a.reactions)})" for a in known) + "."


def _smoking(case: Case) -> str:
    if case.age < 14:
        return "No smokers at home." if case.word() & 3 else "Parents smoke outdoors."
    if case.row.smoking == 0:
        return "Never smoked."
    if case.row.smoking == 2:
        return f"Smokes {5 * (1 + case.word() % 5)} a day."
    earliest, latest = int(case.row.birth + 18 * YEAR), AS_OF
    return f"Gave up smoking in {_year(earliest + case.word() % (latest - earliest))}."


def _family(case: Case) -> str:
    told = [
        f"{RELATIVES[relative]} {case.pick(wordings()[condition].names)}"
        for condition, relative in zip(case.row.family, case.row.relative, strict=True)
        if condition >= 0
    ]
    return f"Family history: {'; '.join(told)}." if told else "Family history: nothing of note."


def _year(day: int) -> int:
    return date.fromordinal(day).year
