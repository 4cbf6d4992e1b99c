"""One patient in words: what the latents say about them, and the names of their life.

A `Case` is made to write one record. It draws from the patient's own random streams, so the record
depends on nothing but the settings and the number of the pod.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar

from cloister.data.worlds.clinic.latents import AS_OF, PURPOSE_TEXT, YEAR, Latents
from cloister.data.worlds.clinic.names import (
    BRAND,
    FAMILY_NAME,
    GIVEN_NAMES,
    OFFSET,
    PLACE,
    NameShape,
    random_words,
    spell,
)
from cloister.data.worlds.clinic.remarks import (
    HOBBIES,
    JOBS,
    REMARKS,
    Remark,
    life_stage,
    routine_of,
)
from cloister.data.worlds.clinic.wording import Treatment, Wording, capital, wordings

__all__ = ["Case", "PatientRow", "Problem", "patient_name", "patient_rows"]

T = TypeVar("T")


class PatientRow(NamedTuple):
    """One row of `Latents` as plain numbers and lists; the fields have the same names."""

    birth: int
    sex: int
    record_start: int
    smoking: int
    size_factor: float
    condition: list[int]
    onset: list[int]
    severity: list[int]
    wording: list[int]
    symptom: list[int]
    drug: list[int]
    family: list[int]
    relative: list[int]
    allergy: list[int]
    doctor: int
    deputy: int
    nurse: int
    referred: int


def patient_rows(latents: Latents) -> Iterator[PatientRow]:
    """Return the rows of latents one by one, as plain numbers."""
    return map(PatientRow._make, zip(*(column.tolist() for column in latents), strict=True))


class Problem(NamedTuple):
    """One problem of one patient, ready for writing."""

    condition: int
    onset: int
    severity: int
    main: bool
    wording: Wording
    naming: int  # which name the record uses
    symptom: int  # the leading one
    treatment: Treatment | None

    @property
    def name(self) -> str:
        """The name that this patient's record uses."""
        return self.wording.names[self.naming]

    @property
    def capital(self) -> str:
        """The name as a sentence begins with it."""
        return self.wording.capitals[self.naming]

    def other_symptom(self, word: int) -> int:
        """Return one of the symptoms that are not the leading one."""
        n = len(self.wording.symptoms)
        return (self.symptom + 1 + word % (n - 1)) % n


def _speller(shape: NameShape) -> Callable[[Case], str]:
    """Return a method that invents a name; it does what `spell` does, without a second call."""
    beginnings, ends, stride, size = shape
    n = len(beginnings)

    def invent(case: Case) -> str:
        end, beginning = divmod((case.rank() * stride + OFFSET) % size, n)
        return beginnings[beginning] + ends[end]

    return invent


class Case:
    """The patient of one pod while their record is written.

    Parameters
    ----------
    seed, pod
        Name the patient's random stream.
    row
        The patient's latents.
    clinicians
        Names of those who see the patient, the most frequent first.
    ranks
        Gives the ranks of invented names, from the patient's own stream.
    """

    def __init__(
        self,
        seed: int,
        pod: int,
        row: PatientRow,
        *,
        clinicians: tuple[str, ...],
        ranks: Callable[[], int],
    ) -> None:
        self.word = random_words(seed, pod, PURPOSE_TEXT)
        self.rank = ranks
        self.row = row
        self.name = patient_name(self.rank, row.sex)
        self.clinicians = clinicians
        self.problems = _problems(row)
        self.chronic = sorted(
            (p for p in self.problems if p.wording.chronic), key=lambda p: p.onset
        )
        self.acute = [p for p in self.problems if not p.wording.chronic]
        self.onsets = [p.onset for p in self.chronic]
        self.onset_of = {p.condition: p.onset for p in self.chronic}
        self.at(AS_OF)
        self.home: str = self.place()
        self.job: str
        self.kind: str
        self.job, self.kind = self.pick(JOBS)
        self.employer: str = f"{self.surname()} {self.kind}"
        self.school: str = self.surname()
        self.partner: str = self.given_name()
        self.pharmacy: str = f"the {self.surname()} pharmacy in {self.home}"
        self.build = 0.85 + 0.35 * (self.word() & 255) / 255  # of the usual weight
        self.histories: dict[int, str] = {}  # by condition
        self.ongoing: dict[int, str] = {}  # by the number of chronic problems so far
        self.reviewed: dict[int, list[Problem]] = {}  # likewise: what a review may be about
        self.n_routine = self.n_remark = self.word()  # turn through what there is to say

    def at(self, day: int) -> None:
        """Begin a note of a day."""
        self.day = day
        self.age = int((day - self.row.birth) / YEAR)
        self._remarks = _REMARKS[life_stage(self.age)]

    def has(self, condition: int) -> bool:
        """Say whether a chronic condition had begun by the day of the note."""
        return self.onset_of.get(condition, AS_OF + 1) <= self.day

    def n_ongoing(self, day: int) -> int:
        """Return how many of the chronic problems had begun by a day."""
        return bisect_right(self.onsets, day)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of some things, all alike likely."""
        return options[self.word() % len(options)]

    place = _speller(PLACE)
    surname = _speller(FAMILY_NAME)
    brand = _speller(BRAND)

    def given_name(self) -> str:
        """Return a given name."""
        names = GIVEN_NAMES[self.word() & 1]
        return names[self.rank() % len(names)]

    def person(self) -> str:
        """Return a full name."""
        return f"{self.given_name()} {self.surname()}"

    def relative(self) -> str:
        """Return somebody close to the patient at their age."""
        if self.age < 18:
            return self.pick(("mother", "father", "grandmother", "aunt"))
        if self.age < 60:
            kin = self.pick(("sister ", "brother ", "friend ", "cousin "))
        else:
            kin = self.pick(("daughter ", "son ", "neighbour ", "niece ", "nephew "))
        return _KIN_NAME[kin](self)

    def remark(self) -> str:
        """Return a sentence about daily life that suits the patient's age."""
        options = self._remarks
        # Never the same one twice running.
        self.n_remark += 1 + self.word() % (len(options) - 1)
        fill, makers = options[self.n_remark % len(options)]
        return fill(*[make(self) for make in makers])

    def routine(self) -> str:
        """Return what a routine visit is for; the kinds take turns, so none comes back soon."""
        self.n_routine += 1
        options = _routine_of(self.row.sex, self.age)
        fill, makers = options[self.n_routine % len(options)]
        return fill(*[make(self) for make in makers])


def patient_name(rank: Callable[[], int], sex: int) -> str:
    """Return a patient's name from the first two ranks of their stream."""
    names = GIVEN_NAMES[sex]
    return f"{names[rank() % len(names)]} {spell(FAMILY_NAME, rank())}"


def _kin(kin: str, sex: int | None) -> Callable[[Case], str]:
    def name(case: Case) -> str:
        names = GIVEN_NAMES[case.word() & 1 if sex is None else sex]
        return kin + names[case.rank() % len(names)]

    return name


_KIN_NAME: Final = {
    kin: _kin(kin, sex)
    for kin, sex in {
        "sister ": 0, "brother ": 1, "friend ": None, "cousin ": None, "daughter ": 0, "son ": 1,
        "neighbour ": None, "niece ": 0, "nephew ": 1,
    }.items()
}  # fmt: skip

_MAKERS: Final[dict[str, Callable[[Case], str]]] = {
    "place": Case.place,
    "surname": Case.surname,
    "brand": Case.brand,
    "person": Case.person,
    "given": Case.given_name,
    "relative": Case.relative,
    "Relative": lambda case: capital(case.relative()),
    "hobby": lambda case: case.pick(HOBBIES),
    "home": lambda case: case.home,
    "partner": lambda case: f"partner {case.partner}",
    "Partner": lambda case: f"Partner {case.partner}",
    "employer": lambda case: case.employer,
    "kind": lambda case: case.kind,
    "a_job": lambda case: ("an " if case.job[0] in "aeiou" else "a ") + case.job,
    "pharmacy": lambda case: case.pharmacy,
    "school": lambda case: f"{case.school} School",
    "nursery": lambda case: f"{case.school} nursery",
}

Maker = Callable[[Case], str]


def _ready(remark: Remark) -> tuple[Callable[..., str], tuple[Maker, ...]]:
    return remark.fill, tuple(_MAKERS[need] for need in remark.needs)


_REMARKS: Final = tuple(tuple(map(_ready, stage)) for stage in REMARKS)


@cache
def _routine_of(sex: int, age: int) -> tuple[tuple[Callable[..., str], tuple[Maker, ...]], ...]:
    return tuple(_ready(remark) for remark in routine_of("FM"[sex], age))


def _problems(row: PatientRow) -> list[Problem]:
    known = wordings()
    return [
        Problem(
            condition, onset, severity, main=slot == 0 or severity == 3,
            wording=known[condition], naming=row.wording[slot], symptom=row.symptom[slot],
            treatment=known[condition].treatments[row.drug[slot]] if row.drug[slot] >= 0 else None,
        )
        for slot, (condition, onset, severity) in enumerate(
            zip(row.condition, row.onset, row.severity, strict=True)
        )
        if condition >= 0
    ]  # fmt: skip
