"""Daily life in the clinic world's notes: work, family, travel, products, routine visits.

These sentences carry the invented names, and so the rare words. A place for a name is written in
braces; `Remark` keeps the sentence together with what it needs. The names known for a patient
(``home``, ``partner``, ``employer``, ``pharmacy``) come back in each note; the others are new.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final, NamedTuple

from cloister.data.worlds.clinic.phrases import skewed

__all__ = ["HOBBIES", "JOBS", "REMARKS", "Remark", "ROUTINE", "Routine", "life_stage", "routine_of"]


class Remark(NamedTuple):
    """A sentence: its template, and what goes into its places, in order."""

    fill: Callable[..., str]
    needs: tuple[str, ...]


class Routine(NamedTuple):
    """A visit without an illness: for whom, and what is written."""

    sex: str  # "F", "M", or "" for both
    ages: tuple[int, int]
    remark: Remark


def remark(text: str) -> Remark:
    """Return a sentence from its written form.

    Examples
    --------
    >>> remark("Back from {place} with {relative}.").needs
    ('place', 'relative')
    """
    needs = tuple(name for _, name, _, _ in string.Formatter().parse(text) if name)
    for name in needs:
        text = text.replace("{" + name + "}", "{}", 1)
    return Remark(text.format, needs)


def life_stage(age: int) -> int:
    """Return 0 for small children, 1 for school children, 2 for adults, 3 for the retired.

    Examples
    --------
    >>> [life_stage(age) for age in (2, 9, 40, 70)]
    [0, 1, 2, 3]
    """
    return (age >= 5) + (age >= 18) + (age >= 67)


JOBS: Final = tuple(  # occupation, kind of employer
    (job.strip(), kind.strip())
    for job, _, kind in (
        line.partition(":")
        for line in skewed("""
teacher: School
nurse: Infirmary
shop assistant: Stores
bus driver: Coaches
clerk: Insurance
warehouse worker: Logistics
electrician: Electrics
cleaner: Services
software developer: Systems
cook: Catering
bricklayer: Builders
accountant: Partners
mechanic: Motors
gardener: Nurseries
hairdresser: Salon
baker: Bakery
farm worker: Farms
welder: Shipyard
postman: Parcels
librarian: Library
tailor: Textiles
plumber: Heating
brewer: Brewery
joiner: Joinery
laboratory technician: Laboratories
architect: Design
security guard: Security
printer: Press
tram conductor: Tramways
optician: Optics
translator: Languages
quarry worker: Quarries
fishmonger: Fisheries
glazier: Glassworks
miller: Mills
potter: Ceramics
""")
    )
)

HOBBIES: Final = skewed("""
walking
gardening
reading
swimming
cooking
choir
football
knitting
cycling
painting
chess
fishing
dancing
pottery
photography
table tennis
birdwatching
woodwork
yoga
bowls
sailing
allotment work
crosswords
beekeeping
embroidery
archery
model railways
stamp collecting
accordion
genealogy
""")

_ANY_AGE: Final = """
Letter from Dr {surname}, {place} hospital, filed.
Medicines now from {pharmacy}.
Spent a week in {place} and did well there.
Second opinion by Dr {surname} in {place} brings nothing new.
Asks about {brand}, seen in an advertisement.
Results were sent to Dr {surname} in {place} by mistake; copy requested.
Was given {brand} samples at {place}; not needed.
Seen out of hours by Dr {surname} in {place}, who advised waiting.
Thinks of moving from {home} to {place}.
Transport from {home} arranged by {surname} Taxis.
Forms for the {surname} insurance completed.
Stayed with {person} in {place} while the house was painted.
Photograph of the {brand} packet shown; leaflet explained.
Interpreter {person} present by telephone.
Missed the last appointment because of roadworks near {place}.
Flat in {home} is damp; landlord {surname} informed.
"""
_ADULT: Final = """
Uses the {brand} monitor at home.
{Relative} came along to the visit.
Travelled to {place} without trouble.
Neighbour in {home}, {person}, gave a lift.
Switched from {brand} to a generic product, no difference noticed.
Bought {brand} tablets online; asked to stop them.
Tried {brand} cream from the chemist without effect.
Meets friends in {place} for {hobby} once a week.
Has taken up {hobby} with {person}.
Met {person} from {place}, who has similar problems.
Reads about health on the {brand} site; some of it misleading.
Came by the {brand} bus, which was late.
Wears the {brand} wristband to count steps.
Gave up {hobby} last winter, misses it.
Dog {given} needs long walks, which helps.
Funeral of {person} in {place} last month; low for a while.
Wedding of {person} in {place} coming up.
Solicitor {person} asks for a report; consent signed.
"""
REMARKS: Final[tuple[tuple[Remark, ...], ...]] = tuple(
    tuple(remark(line) for line in skewed(text, top=2))
    for text in (
        _ANY_AGE
        + """
Goes to the {nursery} in {home}.
Looked after by {person} during the week.
Grandparents live in {place}.
Drinks {brand} milk since spring.
Sleeps through since the visit to {place}.
Playmate {person} has a cold.
Uses {brand} cream after the bath.
        """.rstrip(),
        _ANY_AGE
        + """
Attends {school} in {home}.
Class trip to {place} went well.
Keen on {hobby}; won a prize in {place}.
Friend {person} was off school too.
Teacher {person} noticed no problems.
Missed two days at {school}.
Wears {brand} insoles.
Summer camp in {place} planned.
        """.rstrip(),
        _ANY_AGE
        + _ADULT
        + """
Works as {a_job} at {employer}.
Busy time at {employer}; overtime every week.
Sick note for {employer} issued.
Back at work at {employer} since Monday.
Colleague {person} covers the night shifts.
Applied for a post at {surname} {kind} in {place}.
Commutes from {home} to {place} every day.
{Partner} helps a lot at home.
Holiday in {place} with {partner} planned.
Manager {person} at {employer} is supportive.
        """.rstrip(),
        _ANY_AGE
        + _ADULT
        + """
Lives in {home}; {partner} manages the shopping.
Used to be {a_job} at {employer}.
Home help from {surname} Care comes twice a week.
Daughter {person} visits from {place}.
Grandson {person} set up the {brand} pill box.
Lunch club in {home} on Thursdays.
Moved closer to {place} to be near family.
Walks with a {brand} stick outdoors.
Old friends from {employer} meet every month.
Volunteers at the {surname} trust in {home}.
        """.rstrip(),
    )
)


def _routine(line: str) -> Routine:
    sex, first, last, text = line.split(maxsplit=3)
    return Routine("" if sex == "*" else sex, (int(first), int(last)), remark(text))


# Sex ("*" for both), first and last age, what is written.
ROUTINE: Final = tuple(
    _routine(line.strip())
    for line in """
* 0 5 Vaccination according to schedule, batch {brand}. Tolerated well, leaflet given.
* 0 5 Development check: meets the milestones. Growth chart updated, vitamin drops explained.
* 0 2 Nappy rash, improving with {brand} paste. Feeding well, gaining weight.
* 0 4 Teething and restless nights; {brand} gel tried. {Relative} reassured.
* 2 9 Head lice found at nursery or school; {brand} lotion and combing explained.
* 3 17 Fit for sport: certificate for {school} signed. Heart and lungs normal.
* 4 17 Wart on the finger frozen with {brand} spray. Second session offered.
* 5 17 Growth and posture check. Teeth in good order, brace from {surname} Dental planned.
* 5 17 Graze on the knee cleaned after a fall in {place}. Tetanus cover up to date.
* 6 17 Eye test after school screening: glasses from {surname} Optics fit well.
* 11 17 Booster vaccination given in the left arm. Waited fifteen minutes, no reaction.
* 14 40 Travel advice before a trip to {place}. Vaccinations updated, mosquito protection explained.
* 18 66 Work health form for {employer} completed. No restrictions.
* 18 66 Pre-employment medical for {surname} {kind}. Vision and hearing adequate.
* 18 66 Screen work at {employer}: neck exercises shown, chair height discussed.
* 18 90 Ear wax removed from both sides by irrigation. Eardrums intact.
* 18 90 Small cut on the hand from a {brand} knife; cleaned and closed with strips.
* 18 90 Tick bite behind the knee after a walk near {place}. Tick removed, told what rash to watch.
* 18 90 Ingrown toenail trimmed; podiatry with {surname} in {place} suggested.
* 18 90 Insect sting on the forearm, cool compress and {brand} gel. Settled while waiting.
* 18 90 Stitches from {place} hospital removed. Wound clean and dry.
* 18 90 Harmless skin tag at the collar shown; left alone. Uses {brand} soap.
F 25 64 Cervical smear taken, cervix looks healthy. Result will come by letter.
F 18 44 Contraception reviewed. Happy with {brand}; repeat issued for a year.
F 50 70 Back from breast screening at {place}: no recall. Breast examination normal.
M 45 75 Asks for a health check. Testicular and abdominal examination normal.
* 40 74 Health check: risk of heart attack calculated and explained. Will try {brand} bread.
* 55 75 Bowel screening kit explained and handed out; to be posted to {place}.
* 60 98 Flu vaccination given in the left arm, {brand} batch. No reaction.
* 65 98 Pneumococcal vaccination given. Falls risk discussed with {relative}.
* 70 98 Driving licence form completed. Eyesight sufficient with glasses from {surname} Optics.
* 75 98 Power of attorney letter for {person} written. Wishes for the future noted.
* 30 98 Blood test taken for the yearly check; sample sent to {place}.
* 16 98 Prescription renewal only. No new complaints. Collected by {relative}.
* 16 60 Blister after a long hike to {place}; dressed with {brand} plaster.
* 18 98 Blood donor session in {place} went well; plaster from {brand} removed.
    """.strip().splitlines()
)


def routine_of(sex: str, age: int) -> tuple[Remark, ...]:
    """Return the routine visits of people of a sex and an age.

    Examples
    --------
    >>> len(routine_of("F", 30)) > len(routine_of("M", 30))
    True
    """
    return tuple(
        routine.remark
        for routine in ROUTINE
        if routine.ages[0] <= age <= routine.ages[1] and routine.sex in ("", sex)
    )
