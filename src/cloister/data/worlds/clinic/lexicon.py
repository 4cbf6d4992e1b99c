"""The clinic world's medical knowledge: conditions by prevalence, allergies, numbers for kernels.

Everything here was written for this world. It is meant to be plausible to a reader and consistent
with itself; it is not medical advice.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.data.worlds.clinic.condition import DRUG_FLAGS, SPECIALTIES, Condition
from cloister.data.worlds.clinic.conditions_family import FAMILY_MEDICINE
from cloister.data.worlds.clinic.conditions_gut import METABOLISM_AND_GUT
from cloister.data.worlds.clinic.conditions_heart import HEART_AND_LUNGS
from cloister.data.worlds.clinic.conditions_joints import JOINTS_SKIN_AND_SENSES
from cloister.data.worlds.clinic.conditions_mind import MIND_AND_NERVES

__all__ = [
    "ALLERGENS", "Allergen", "CONDITIONS", "CONDITION_INDEX", "LexiconTables", "RELATIVES",
    "lexicon_tables",
]  # fmt: skip

CONDITIONS: Final[tuple[Condition, ...]] = tuple(
    sorted(
        FAMILY_MEDICINE
        + METABOLISM_AND_GUT
        + HEART_AND_LUNGS
        + JOINTS_SKIN_AND_SENSES
        + MIND_AND_NERVES,
        key=lambda entry: entry.rank,
    )
)
CONDITION_INDEX: Final = {entry.name: i for i, entry in enumerate(CONDITIONS)}

PREVALENCE_EXPONENT: Final = 0.9  # of the Zipf law over the order of prevalence
MAX_AGE: Final = 100
RECENT_YEARS: Final = 2  # an acute illness may lie this long behind its last possible age
SMOKERS_DISEASES: Final = frozenset({"COPD", "lung cancer", "peripheral arterial disease"})


class Allergen(NamedTuple):
    """Something that a patient reacts to; ``flag`` names the drugs to avoid, if any."""

    name: str
    reactions: tuple[str, ...]
    flag: str = ""


ALLERGENS: Final = (  # most frequent first
    Allergen("penicillin", ("rash", "hives", "swelling of the lips"), "penicillin"),
    Allergen("anti-inflammatory drugs", ("wheezing", "stomach bleeding"), "nsaid"),
    Allergen("nuts", ("hives", "anaphylaxis", "itching mouth")),
    Allergen("codeine", ("vomiting", "confusion"), "opioid"),
    Allergen("sulfonamides", ("rash", "fever"), "sulfonamide"),
    Allergen("nickel", ("contact rash",)),
    Allergen("aspirin", ("wheezing", "hives"), "aspirin"),
    Allergen("latex", ("contact rash", "sneezing")),
    Allergen("bee stings", ("large local swelling", "anaphylaxis")),
    Allergen("iodine contrast", ("flushing", "hives")),
    Allergen("egg", ("rash", "vomiting")),
    Allergen("sticking plaster", ("blisters",)),
)

RELATIVES: Final = (  # women at even places, men at odd ones
    "mother", "father", "sister", "brother", "grandmother", "grandfather",
)  # fmt: skip


class LexiconTables(NamedTuple):
    """The lexicon as arrays: one row a condition, in the order of `CONDITIONS`."""

    cumulative: NDArray[np.float64]  # [sex, age, condition]: cumulated prevalence
    heritable: NDArray[np.float64]  # cumulated prevalence among the heritable conditions
    chronic: NDArray[np.bool_]
    first_age: NDArray[np.int32]
    last_age: NDArray[np.int32]
    sex: NDArray[np.int8]  # 0 women only, 1 men only, -1 both
    specialty: NDArray[np.int8]
    smoking: NDArray[np.bool_]
    n_names: NDArray[np.int8]
    n_symptoms: NDArray[np.int8]
    n_drugs: NDArray[np.int8]
    drug_flags: NDArray[np.uint32]  # [condition, drug]
    avoid: NDArray[np.uint32]
    allergen_flags: NDArray[np.uint32]
    n_related: NDArray[np.int8]
    related: NDArray[np.int16]  # [condition, place]
    excludes: NDArray[np.bool_]  # [condition, condition], symmetric


def flag_bits(flags: tuple[str, ...]) -> int:
    """Return drug flags as bits.

    Examples
    --------
    >>> flag_bits(("penicillin", "aspirin"))
    5
    """
    return sum(1 << DRUG_FLAGS.index(flag) for flag in flags)


@cache
def lexicon_tables() -> LexiconTables:
    """Return the tables; they are made once a process.

    Examples
    --------
    >>> tables = lexicon_tables()
    >>> tables.cumulative.shape[0], bool(tables.chronic[CONDITION_INDEX["asthma"]])
    (2, True)
    """
    prevalence = np.arange(1, len(CONDITIONS) + 1) ** -PREVALENCE_EXPONENT
    heritable = np.array([c.heritable for c in CONDITIONS])
    return LexiconTables(
        cumulative=np.cumsum(prevalence * _eligible(), axis=2),
        heritable=np.cumsum(prevalence * heritable),
        chronic=np.array([c.chronic for c in CONDITIONS]),
        first_age=np.array([c.ages[0] for c in CONDITIONS], np.int32),
        last_age=np.array([c.ages[1] for c in CONDITIONS], np.int32),
        sex=np.array([{"F": 0, "M": 1, "": -1}[c.sex] for c in CONDITIONS], np.int8),
        specialty=np.array([SPECIALTIES.index(c.specialty) for c in CONDITIONS], np.int8),
        smoking=np.array([c.name in SMOKERS_DISEASES for c in CONDITIONS]),
        n_names=np.array([len(c.names) for c in CONDITIONS], np.int8),
        n_symptoms=np.array([len(c.symptoms) for c in CONDITIONS], np.int8),
        n_drugs=np.array([len(c.drugs) for c in CONDITIONS], np.int8),
        drug_flags=_padded([[flag_bits(d.flags) for d in c.drugs] for c in CONDITIONS], np.uint32),
        avoid=np.array([flag_bits(c.avoid) for c in CONDITIONS], np.uint32),
        allergen_flags=np.array(
            [flag_bits((a.flag,) if a.flag else ()) for a in ALLERGENS], np.uint32
        ),
        n_related=np.array([len(c.related) for c in CONDITIONS], np.int8),
        related=_padded(
            [[CONDITION_INDEX[name] for name in c.related] for c in CONDITIONS], np.int16
        ),
        excludes=_excludes(),
    )


def _eligible() -> NDArray[np.float64]:
    """Return, for each sex, age and condition, how far that condition is possible: 0 to 1.

    A chronic illness becomes likelier as the ages at which it begins are passed; an acute one is
    in the record of those who are of its ages, or were shortly before.
    """
    table = np.zeros((2, MAX_AGE + 1, len(CONDITIONS)))
    ages = np.arange(MAX_AGE + 1)
    for i, entry in enumerate(CONDITIONS):
        first, last = entry.ages
        if entry.chronic:
            share = np.clip((ages - first + 1) / (last - first), 0.0, 1.0) * (ages <= entry.until)
        else:
            share = ((ages >= first) & (ages <= last + RECENT_YEARS)).astype(float)
        for sex, letter in enumerate("FM"):
            table[sex, :, i] = share * (entry.sex in ("", letter))
    return table


def _excludes() -> NDArray[np.bool_]:
    table = np.eye(len(CONDITIONS), dtype=np.bool_)
    for i, entry in enumerate(CONDITIONS):
        for name in entry.excludes:
            table[i, CONDITION_INDEX[name]] = table[CONDITION_INDEX[name], i] = True
    return table


def _padded(rows: list[list[int]], dtype: Any) -> NDArray[Any]:
    table = np.zeros((len(rows), max(map(len, rows))), dtype)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table
