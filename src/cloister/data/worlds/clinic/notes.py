"""Writes the record of one patient: a summary, then notes of visits in the order of their dates.

The summary names every problem. Each acute illness gets the note of its first visit and at times
follow-ups. Reviews of the chronic problems and routine visits fill the record up to its size; each
carries the list of ongoing problems and, at times, the history of the problem, word for word.
"""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.case import Case, Problem
from cloister.data.worlds.clinic.findings import doubts, findings, reports, vital_signs
from cloister.data.worlds.clinic.latents import AS_OF
from cloister.data.worlds.clinic.phrases import (
    COURSE,
    FOLLOW_UP,
    FREQUENCY,
    IMPRESSION,
    NEXT_VISIT,
    ONSET,
    PRESENTS,
    RECOVERY,
    REMOTE_VISIT,
    SEVERITY,
    SYMPTOM,
    TREND,
    VISIT,
    Template,
)
from cloister.data.worlds.clinic.summary import day_text, history, ongoing, summary

__all__ = ["write_record"]

# About; they decide how far apart the visits lie.
BYTES_OF_A_REVIEW: Final = 700
BYTES_OF_A_ROUTINE_VISIT: Final = 380


def write_record(case: Case, n_bytes: int) -> str:
    """Return the record of a patient, at least ``n_bytes`` characters, all of them ASCII."""
    head = summary(case)
    notes: list[tuple[int, int, str]] = []  # day, order of writing, text
    for problem in case.acute:
        notes.extend(_episode(case, problem, len(notes)))
    size = len(head) + sum(len(text) + 2 for _, _, text in notes)
    usual = BYTES_OF_A_REVIEW if case.chronic else BYTES_OF_A_ROUTINE_VISIT
    n_visits = max(1, (n_bytes - size) // usual + 1)
    span = AS_OF - 1 - case.row.record_start
    k = 0
    while size < n_bytes or not notes:  # from the latest back; each has its part of the span
        place = (k % n_visits + (case.word() & 1023) / 1024) / n_visits
        day = AS_OF - 1 - int(place * span)
        text = _visit(case, day)
        notes.append((day, len(notes), text))
        size += len(text) + 2
        k += 1
    notes.sort()
    return "\n\n".join([head, *[text for _, _, text in notes]])


def _episode(case: Case, problem: Problem, number: int) -> list[tuple[int, int, str]]:
    """Return the notes of an acute illness: the first visit, then follow-ups of worse ones."""
    notes = [(problem.onset, number, _first_visit(case, problem))]
    day = problem.onset
    for _ in range(problem.severity - 1):
        day += 4 + case.word() % 18
        if day < AS_OF:
            notes.append((day, number + len(notes), _follow_up(case, problem, day)))
    return notes


def _begin(case: Case, day: int, kinds: tuple[Template, ...] = VISIT) -> str:
    """Return the first words of a note; from here on the case has its age of that day."""
    case.at(day)
    word = case.word()
    locum = word & 7 == 0
    who = f"Dr {case.surname()}" if locum else case.clinicians[(word >> 3) % len(case.clinicians)]
    return case.pick(kinds)(day_text(day), who)


def _first_visit(case: Case, problem: Problem) -> str:
    pick, wording = case.pick, problem.wording
    begin = _begin(case, problem.onset)
    name = f"{SEVERITY[problem.severity]} {problem.name}" if wording.graded else problem.name
    drug = pick(problem.treatment.started) if problem.treatment else "no medicine needed"
    return (
        f"{begin} {_presents(case, problem)} {case.remark()}\n"
        f"{findings(case, problem)} {pick(IMPRESSION)(name)}{doubts(case, problem)}"
        f"{ongoing(case, problem.onset)}\n"
        f"Plan: {drug}; {pick(wording.advice)}; {pick(NEXT_VISIT)}."
    )


def _presents(case: Case, problem: Problem) -> str:
    symptoms = problem.wording.symptoms
    other = symptoms[problem.other_symptom(case.word())]
    return case.pick(PRESENTS)(reports(case), symptoms[problem.symptom], other, case.pick(ONSET))


def _follow_up(case: Case, problem: Problem, day: int) -> str:
    pick, wording = case.pick, problem.wording
    begin = _begin(case, day)
    course = pick(wording.course or RECOVERY)
    opening = pick(FOLLOW_UP)(problem.name, day_text(problem.onset), course)
    return (
        f"{begin} {opening} {case.remark()} {case.remark()}\n{vital_signs(case)} "
        f"Plan: {pick(wording.advice)}; {pick(NEXT_VISIT)}."
    )


def _visit(case: Case, day: int) -> str:
    """Return a review of a chronic problem, or a routine visit."""
    n, word = case.n_ongoing(day), case.word()
    if n == 0 or word & 7 == 0:
        return _routine_visit(case, day)
    choice = case.reviewed.get(n)
    if choice is None:  # main problems five times, milder ones once or twice
        choice = [p for p in case.chronic[:n] for _ in range(5 if p.main else p.severity)]
        case.reviewed[n] = choice
    return _review(case, day, choice[(word >> 3) % len(choice)])


def _routine_visit(case: Case, day: int) -> str:
    begin = _begin(case, day)
    told = f"{case.routine()} {case.remark()}"
    also = f"{vital_signs(case)} {case.remark()} {case.remark()}"
    return f"{begin} {told}\n{also}{ongoing(case, day)}"


def _review(case: Case, day: int, problem: Problem) -> str:
    pick, wording, word = case.pick, problem.wording, case.word()
    treatment = problem.treatment
    remote = word & 7 == 0
    begin = _begin(case, day, REMOTE_VISIT if remote else VISIT)
    past = f" {history(case, problem)}" if word & 8 else ""
    course = f" {pick(COURSE)}" if word & 16 else ""
    drug = f" {pick(treatment.adherence)}" if word & 32 and treatment else ""
    found = "Not examined." if remote else findings(case, problem)
    asked = f"; {pick(wording.requested)}" if word & 192 == 0 else ""
    treated = pick(treatment.continued) if treatment else "no change"
    return (
        f"{begin} {pick(wording.reviews[problem.naming])}{past}\n"
        f"{_complaints(case, problem)}{course}{drug} {case.remark()} {case.remark()}\n"
        f"{found}{doubts(case, problem)}{ongoing(case, day)}\n"
        f"Plan: {treated}; {pick(wording.advice)}{asked}; {pick(NEXT_VISIT)}."
    )


def _complaints(case: Case, problem: Problem) -> str:
    """Return the leading symptom as it is now, and often another one that is absent."""
    pick, wording, word = case.pick, problem.wording, case.word()
    if word & 1:
        leading = wording.symptoms[problem.symptom]
        present = pick(SYMPTOM)(reports(case), leading, pick(FREQUENCY))
    else:
        present = f"{wording.symptom_capitals[problem.symptom]} {pick(TREND)}."
    if word & 6 == 0:
        return present
    return f"{present} {pick(wording.without[problem.other_symptom(word >> 3)])}"
