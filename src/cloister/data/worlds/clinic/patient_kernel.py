"""Draws the patients of the clinic world, pod by pod.

All that is drawn for a pod comes from Philox streams keyed by (seed, pod), so any range of pods can
be made anywhere, in any order, with the same result.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cloister.core.counter_random import STREAM_WORDS, next_uniform, start_stream
from cloister.core.kernel import inline_kernel, kernel
from cloister.data.worlds.clinic.condition import DRUG_FLAGS
from cloister.data.worlds.clinic.latents import (
    AS_OF,
    MAX_ALLERGIES,
    MAX_PROBLEMS,
    PURPOSE_LATENTS,
    YEAR,
    Latents,
    SitesOfPods,
    empty_latents,
)
from cloister.data.worlds.clinic.lexicon import (
    ALLERGENS,
    MAX_AGE,
    RELATIVES,
    LexiconTables,
    lexicon_tables,
)

__all__ = ["draw_latents"]

MAX_SIZE_FACTOR: Final = 150.0  # 750 KB over 5 KB, as in the ESPRESSO paper's table 2
COMORBIDITY: Final = 0.35  # chance that a further problem is related to one already there
INHERITED: Final = 0.3  # chance that a relative's illness is also the patient's own
TRIES: Final = 10  # to find a problem that fits the ones already there
CHILD_UNTIL: Final = 12  # years; below, drugs flagged "adult" are not given
ADULT_DRUG: Final = np.uint32(1 << DRUG_FLAGS.index("adult"))
CHILD_DRUG: Final = np.uint32(1 << DRUG_FLAGS.index("child"))
N_RELATIVES: Final = len(RELATIVES)
N_ALLERGENS: Final = len(ALLERGENS)

# Ages in years at equally spaced shares of the population, youngest first.
AGE_QUANTILES: Final = np.array(
    [0.5, 6, 12, 19, 26, 32, 37, 42, 47, 52, 57, 61, 65, 69, 73, 77, 82, 98], np.float64
)


def draw_latents(seed: int, start: int, stop: int, sites: SitesOfPods, tail: float) -> Latents:
    """Return the latents of the pods ``start`` to ``stop``."""
    latents = empty_latents(max(0, stop - start))
    _draw_range(seed, start, tail, sites, lexicon_tables(), latents)
    return latents


@kernel
def _draw_range(
    seed: int, start: int, tail: float, sites: SitesOfPods, lexicon: LexiconTables, out: Latents
) -> None:
    state = np.zeros(STREAM_WORDS, np.uint32)
    for row in range(len(out.birth)):
        pod = start + row
        server = pod // sites.pods
        start_stream(state, seed, 0, pod, PURPOSE_LATENTS)
        _draw_person(state, row, sites.server_lean[server], tail, out)
        _draw_problems(state, row, sites.server_specialty[server], sites.focus, lexicon, out)
        _draw_smoking(state, row, lexicon, out)
        _draw_allergies(state, row, out)
        _draw_treatment(state, row, lexicon, out)
        _draw_family(state, row, lexicon, out)
        _draw_care(state, row, sites.server_organisation[server], sites, lexicon, out)


@inline_kernel
def _below(state: Any, n: Any) -> Any:
    """Return a whole number from 0 to n - 1."""
    return min(int(next_uniform(state) * n), n - 1)


@inline_kernel
def _day_of_age(birth: Any, years: Any) -> Any:
    return int(birth + np.ceil(years * YEAR))


@inline_kernel
def _draw_person(state: Any, row: int, lean: float, tail: float, out: Latents) -> None:
    place = next_uniform(state) ** lean * (len(AGE_QUANTILES) - 1)
    low = min(int(place), len(AGE_QUANTILES) - 2)
    step = AGE_QUANTILES[low + 1] - AGE_QUANTILES[low]
    years = AGE_QUANTILES[low] + (place - low) * step
    birth = AS_OF - int(years * YEAR) - 1
    out.birth[row] = birth
    out.sex[row] = 0 if next_uniform(state) < 0.51 else 1
    span = int((3.0 + 17.0 * next_uniform(state)) * YEAR)
    out.record_start[row] = max(birth + 3, AS_OF - span)
    out.size_factor[row] = min(next_uniform(state) ** (-1.0 / tail), MAX_SIZE_FACTOR)


@inline_kernel
def _draw_problems(
    state: Any, row: int, specialty: int, focus: float, lexicon: LexiconTables, out: Latents
) -> None:
    age = min(int((AS_OF - out.birth[row]) / YEAR), MAX_AGE)
    cumulative = lexicon.cumulative[out.sex[row], age]
    burden = 1.0 + age / 17.0
    frailty = -np.log(next_uniform(state) * next_uniform(state)) / 2.0  # gamma, mean 1
    n_wanted = min(1 + int(burden * frailty), MAX_PROBLEMS)
    n = 0
    for _ in range(n_wanted):
        found = -1
        focused = n == 0 and next_uniform(state) < focus
        for _attempt in range(TRIES):
            chosen = _propose(state, row, n, cumulative, lexicon, out)
            if not _fits(row, n, chosen, cumulative, lexicon, out):
                continue
            found = chosen
            if not focused or lexicon.specialty[chosen] == specialty:
                break
        if found < 0:
            break
        _set_problem(state, row, n, found, lexicon, out)
        n += 1


@inline_kernel
def _propose(
    state: Any, row: int, n: int, cumulative: Any, lexicon: LexiconTables, out: Latents
) -> int:
    """Return a condition related to one already there, or any by its prevalence."""
    if n > 0 and next_uniform(state) < COMORBIDITY:
        known = out.condition[row, _below(state, n)]
        return int(lexicon.related[known, _below(state, lexicon.n_related[known])])
    return int(np.searchsorted(cumulative, next_uniform(state) * cumulative[-1], side="right"))


@inline_kernel
def _fits(
    row: int, n: int, chosen: int, cumulative: Any, lexicon: LexiconTables, out: Latents
) -> bool:
    before = cumulative[chosen - 1] if chosen > 0 else 0.0
    fits: bool = cumulative[chosen] > before  # else not at this age, or not for this sex
    for slot in range(n):
        fits &= not lexicon.excludes[chosen, out.condition[row, slot]]
    return fits


@inline_kernel
def _set_problem(
    state: Any, row: int, slot: int, chosen: int, lexicon: LexiconTables, out: Latents
) -> None:
    birth = out.birth[row]
    first = _day_of_age(birth, lexicon.first_age[chosen])
    last = min(AS_OF - 1, _day_of_age(birth, lexicon.last_age[chosen] + 1) - 1)
    if not lexicon.chronic[chosen]:
        first = max(first, out.record_start[row])
    first = min(first, AS_OF - 1)
    out.condition[row, slot] = chosen
    out.onset[row, slot] = first + int(next_uniform(state) * max(0, last - first))
    chance = next_uniform(state)
    severity = 1 + int(chance > 0.45) + int(chance > 0.85)
    out.severity[row, slot] = max(severity, 2) if slot == 0 else severity
    out.wording[row, slot] = _below(state, lexicon.n_names[chosen])
    out.symptom[row, slot] = _below(state, lexicon.n_symptoms[chosen])


@inline_kernel
def _draw_smoking(state: Any, row: int, lexicon: LexiconTables, out: Latents) -> None:
    chance = next_uniform(state)
    smoking = int(chance > 0.55) + int(chance > 0.82)
    for slot in range(MAX_PROBLEMS):
        condition = out.condition[row, slot]
        if condition >= 0 and lexicon.smoking[condition]:
            smoking = max(smoking, 1)
    out.smoking[row] = smoking if AS_OF - out.birth[row] > 18 * YEAR else 0


@inline_kernel
def _draw_allergies(state: Any, row: int, out: Latents) -> None:
    chance = next_uniform(state)
    n = int(chance < 0.25) + int(chance < 0.05)
    for entry in range(n):
        drawn = int(N_ALLERGENS ** next_uniform(state)) - 1  # the first are the most frequent
        if entry == 0 or drawn != out.allergy[row, 0]:
            out.allergy[row, entry] = drawn


@inline_kernel
def _draw_treatment(state: Any, row: int, lexicon: LexiconTables, out: Latents) -> None:
    """Choose a drug for each problem among those that nothing speaks against."""
    avoid = np.uint32(0)
    for entry in range(MAX_ALLERGIES):
        if out.allergy[row, entry] >= 0:
            avoid |= lexicon.allergen_flags[out.allergy[row, entry]]
    for slot in range(MAX_PROBLEMS):
        if out.condition[row, slot] >= 0:
            avoid |= lexicon.avoid[out.condition[row, slot]]
    for slot in range(MAX_PROBLEMS):
        condition = out.condition[row, slot]
        if condition < 0:
            break
        day = AS_OF if lexicon.chronic[condition] else out.onset[row, slot]
        child = day - out.birth[row] < CHILD_UNTIL * YEAR
        forbidden = avoid | (ADULT_DRUG if child else CHILD_DRUG)
        n = lexicon.n_drugs[condition]
        first = min(int(next_uniform(state) ** 2 * n), n - 1)
        for step in range(n):
            drug = (first + step) % n
            if lexicon.drug_flags[condition, drug] & forbidden == 0:
                out.drug[row, slot] = drug
                break


@inline_kernel
def _old_enough(relative: Any, age: Any, first_age: Any) -> Any:
    """Make it a grandparent where a brother, sister or parent would be too young."""
    sibling, parent = relative in (2, 3), relative < 2
    young = (sibling and (age < 40 or first_age > age)) or (parent and first_age > age + 25)
    return 4 + relative % 2 if young else relative


@inline_kernel
def _draw_family(state: Any, row: int, lexicon: LexiconTables, out: Latents) -> None:
    chance = next_uniform(state)
    n = int(chance < 0.65) + int(chance < 0.3) + int(chance < 0.1)
    age = int((AS_OF - out.birth[row]) / YEAR)
    filled = 0
    for _ in range(n):
        place = next_uniform(state) * lexicon.heritable[-1]
        condition = int(np.searchsorted(lexicon.heritable, place, side="right"))
        own = out.condition[row, 0]
        before = lexicon.heritable[own - 1] if own > 0 else 0.0
        if next_uniform(state) < INHERITED and lexicon.heritable[own] > before:
            condition = own
        relative = _below(state, N_RELATIVES)
        if lexicon.sex[condition] >= 0:
            relative = relative // 2 * 2 + lexicon.sex[condition]
        relative = _old_enough(relative, age, lexicon.first_age[condition])
        known = False
        for entry in range(filled):
            known |= out.family[row, entry] == condition
        if not known:
            out.family[row, filled] = condition
            out.relative[row, filled] = relative
            filled += 1


@inline_kernel
def _draw_care(
    state: Any,
    row: int,
    organisation: int,
    sites: SitesOfPods,
    lexicon: LexiconTables,
    out: Latents,
) -> None:
    """Choose the doctor, at times a deputy and a nurse, and the specialty of severe cases."""
    first, last = sites.doctor_offsets[organisation], sites.doctor_offsets[organisation + 1]
    out.doctor[row] = sites.doctors[first + _below(state, last - first)]
    deputy = sites.doctors[first + _below(state, last - first)]
    if next_uniform(state) < 0.3 and deputy != out.doctor[row]:
        out.deputy[row] = deputy
    first, last = sites.nurse_offsets[organisation], sites.nurse_offsets[organisation + 1]
    if next_uniform(state) < 0.5 and last > first:
        out.nurse[row] = sites.nurses[first + _below(state, last - first)]
    if out.severity[row, 0] == 3:
        out.referred[row] = lexicon.specialty[out.condition[row, 0]]
