"""What the clinic world knows about one illness: the record, and how a lexicon entry is written.

An entry is one call of `condition` with its lists written as text, parts split by semicolons. A
drug may carry flags after a bar (``"amoxicillin 500 mg three times daily|penicillin,adult"``): a
patient who must avoid a flag never gets the drug. A test is a name, the values from mild to severe
and a unit (``"HbA1c 49-92 mmol/mol"``).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cloister.core.errors import DataError

__all__ = ["Condition", "Drug", "DRUG_FLAGS", "LabTest", "SPECIALTIES", "condition"]

SPECIALTIES: Final = (
    "cardiology", "respiratory", "endocrinology", "gastroenterology", "nephrology", "neurology",
    "psychiatry", "rheumatology", "dermatology", "gynaecology", "urology", "oncology",
    "ophthalmology", "audiology", "infections",
)  # fmt: skip

# Why somebody may not take a drug: an allergy, an age, or another illness.
DRUG_FLAGS: Final = (
    "penicillin", "nsaid", "aspirin", "opioid", "sulfonamide", "adult", "child", "antiplatelet",
    "beta_blocker", "nitrate", "teratogen", "tetracycline", "triptan",
)  # fmt: skip

_TEST = re.compile(r"(?P<name>.+?) (?P<mild>\d+(?:\.\d+)?)-(?P<severe>\d+(?:\.\d+)?)(?P<unit>.*)")


class Drug(NamedTuple):
    """A prescription, and the flags of those who must not have it."""

    text: str
    flags: tuple[str, ...] = ()


class LabTest(NamedTuple):
    """A measurement: its value in a mild and in a severe case, and its unit with a blank before."""

    name: str
    mild: float
    severe: float
    unit: str
    decimals: int


class Condition(NamedTuple):
    """One illness or state that a patient can have.

    ``rank`` is its place in the order of prevalence, from 1; ``ages`` are the years of life in
    which it begins; ``excludes`` are conditions that nobody has together with it; ``avoid`` are
    the drug flags that its patients must not have.
    """

    name: str
    rank: int
    specialty: str
    chronic: bool
    ages: tuple[int, int]
    until: int  # nobody older has it in the record
    sex: str  # "F", "M", or "" for both
    names: tuple[str, ...]  # as clinicians write it, the main name first
    lay: tuple[str, ...]  # as patients say it
    symptoms: tuple[str, ...]
    signs: tuple[str, ...]
    drugs: tuple[Drug, ...]
    tests: tuple[LabTest, ...]
    procedures: tuple[str, ...]
    advice: tuple[str, ...]
    related: tuple[str, ...]
    excludes: tuple[str, ...]
    avoid: tuple[str, ...]
    course: tuple[str, ...]  # how a follow-up goes, if not as usual
    heritable: bool
    graded: bool  # whether mild, moderate and severe make sense


def condition(
    name: str,
    rank: int,
    specialty: str,
    *,
    ages: tuple[int, int],
    names: str,
    lay: str,
    symptoms: str,
    signs: str,
    drugs: str,
    procedures: str,
    advice: str,
    related: str,
    tests: str = "",
    chronic: bool = True,
    until: int = 120,
    sex: str = "",
    excludes: str = "",
    avoid: str = "",
    course: str = "",
    heritable: bool = False,
    graded: bool = True,
) -> Condition:
    """Return a lexicon entry from its written form.

    Examples
    --------
    >>> cold = condition("common cold", 1, "infections", ages=(0, 90), names="coryza",
    ...     lay="a cold", symptoms="sneezing; sore throat", signs="red throat",
    ...     drugs="ibuprofen 400 mg as needed|nsaid,adult", tests="temperature 37.4-38.6 degrees",
    ...     procedures="none", advice="drink plenty", related="", chronic=False)
    >>> cold.names, cold.symptoms
    (('common cold', 'coryza'), ('sneezing', 'sore throat'))
    >>> cold.drugs[0].flags, cold.tests[0].severe
    (('nsaid', 'adult'), 38.6)
    """
    return Condition(
        name=name, rank=rank, specialty=specialty, chronic=chronic, ages=ages,
        until=until, sex=sex,
        names=(name, *_parts(names)), lay=_parts(lay), symptoms=_parts(symptoms),
        signs=_parts(signs), drugs=tuple(_drug(part) for part in _parts(drugs)),
        tests=tuple(_test(part) for part in _parts(tests)), procedures=_parts(procedures),
        advice=_parts(advice), related=_parts(related), excludes=_parts(excludes),
        avoid=_parts(avoid), course=_parts(course), heritable=heritable, graded=graded,
    )  # fmt: skip


def _parts(text: str) -> tuple[str, ...]:
    """Split at semicolons; a line break in the source counts as one blank."""
    return tuple(part for part in (" ".join(p.split()) for p in text.split(";")) if part)


def _drug(text: str) -> Drug:
    name, _, flags = text.partition("|")
    return Drug(name, tuple(flags.split(",")) if flags else ())


def _test(text: str) -> LabTest:
    match = _TEST.fullmatch(text)
    if match is None:
        raise DataError(
            f"cannot read {text!r} as a test", where="clinic lexicon",
            remedy="write a name, the mild and the severe value with a hyphen between, and a unit",
        )  # fmt: skip
    mild, severe = match["mild"], match["severe"]
    decimals = len(mild.partition(".")[2])
    return LabTest(match["name"], float(mild), float(severe), match["unit"], decimals)
