"""Sentences of the clinic world's notes, as templates with numbered places.

Each list is one kind of sentence; which place means what is said above it. Lists are skewed: the
first templates are used more often than the last, as phrases are in real notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = [
    "ADHERENCE", "BACKGROUND", "CALLED", "CONTINUE", "COURSE", "FOLLOW_UP", "FREQUENCY",
    "IMPRESSION", "NEXT_VISIT", "NOT_SUGGESTED", "ONSET", "PRESENTS", "RECOVERY", "REMOTE_VISIT",
    "REPORTS", "REPORTS_OF_PARENTS", "REQUESTED", "RESULT", "REVIEW", "SEVERITY", "SIGN", "START",
    "SYMPTOM", "TREND", "Template", "UNUSUAL", "VISIT", "VITAL_SIGNS", "VITAL_SIGNS_OF_A_CHILD",
    "WITHOUT", "skewed",
]  # fmt: skip

Template = Callable[..., str]


def skewed(text: str, *, top: int = 4) -> tuple[str, ...]:
    """Return the lines of a text, the first repeated ``top`` times, the others less and less.

    Examples
    --------
    >>> skewed('''
    ... often
    ... at times
    ... ''')
    ('often', 'often', 'often', 'often', 'at times', 'at times')
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(line for k, line in enumerate(lines) for _ in range(max(1, round(top / (k + 1)))))


def _templates(text: str) -> tuple[Template, ...]:
    return tuple(line.format for line in skewed(text))


SEVERITY: Final = ("", "mild", "moderate", "severe")

# {0} date, {1} clinician
VISIT: Final = _templates("""
{0}. Surgery visit with {1}.
{0}. Seen by {1}.
{0}. Seen in the practice by {1}.
{0}. Appointment with {1}.
{0}. Urgent appointment, {1}.
{0}. Walk-in, seen by {1}.
{0}. Evening surgery, {1}.
""")

REMOTE_VISIT: Final = _templates("""
{0}. Telephone consultation, {1}.
{0}. Video consultation with {1}.
{0}. Call back by {1}.
""")

# {0} condition
REVIEW: Final = _templates("""
Review of {0}.
Comes for review of {0}.
Here for the regular check of {0}.
Follow-up for {0}.
Booked in because of {0}.
Wants to talk about {0}.
Recalled for {0}.
Medication review, mainly {0}.
""")

REPORTS: Final = skewed("""
Reports
Complains of
Mentions
Describes
Troubled by
Asks about
Bothered by
Admits to
""")
REPORTS_OF_PARENTS: Final = skewed("""
Mother reports
Parents describe
Father reports
Mother noticed
Parents are worried about
Grandmother noticed
""")

# {0} verb of report, {1} symptom, {2} how often
SYMPTOM: Final = _templates("""
{0} {1} {2}.
{0} {1}, {2}.
{0} {1} {2}, otherwise well.
{0} {1} {2} and wonders what else can be done.
""")
FREQUENCY: Final = skewed("""
on most days
now and then
about once a week
since the last visit
for the past fortnight
mainly in the morning
less often than before
again this month
after a busy week
more at weekends
since stopping for a few days
when the weather turns
""")
# What follows a symptom, without a verb
TREND: Final = skewed("""
unchanged
a little better
improving slowly
worse in the last weeks
much better on treatment
back after a quiet spell
no longer a nuisance
up and down
better since the dose was changed
""")
# {0} symptom
WITHOUT: Final = _templates("""
No {0}.
Denies {0}.
No {0} since the last visit.
Asked about {0}: none.
Free of {0}.
""")
COURSE: Final = skewed("""
Stable on the whole.
Feels well in general.
Coping well at home.
Sleeps and eats normally.
Has had a difficult month.
Pleased with the progress.
Finds daily life manageable.
Somewhat discouraged today.
Energy has returned.
Appetite fair, weight steady.
Mood cheerful, full of plans.
Struggles with the routine.
""")
# {0} drug
ADHERENCE: Final = _templates("""
Continues with {0}.
No trouble with {0}.
Getting on well with {0}.
Sometimes forgets {0}.
Asks how long to go on with {0}.
Satisfied with {0}.
Unsure about the benefit of {0}.
Ran out of {0} last week.
""")

# {0} systolic, {1} diastolic, {2} pulse, {3} weight
VITAL_SIGNS: Final = _templates("""
BP {0}/{1}, pulse {2}, weight {3} kg.
Blood pressure {0}/{1} mmHg, pulse {2} per minute, weight {3} kg.
Weight {3} kg, BP {0}/{1}.
BP {0}/{1} sitting, pulse {2} regular.
Observations: {0}/{1}, {2} per minute, {3} kg.
""")
# {0} weight, {1} pulse
VITAL_SIGNS_OF_A_CHILD: Final = _templates("""
Weight {0} kg, along the centile.
Weight {0} kg, pulse {1} per minute.
Alert and playful, weight {0} kg.
Weight {0} kg. Chest clear, abdomen soft.
""")
# {0} sign
SIGN: Final = _templates("""
On examination {0}.
Findings: {0}.
Examination shows {0}.
Today {0}.
Noted: {0}.
""")
# {0} test with a capital, {1} test, {2} value with unit
RESULT: Final = _templates("""
{0} {2}.
{0} now {2}.
Measured: {1} {2}.
Recorded {1} {2}.
""")
# {0} another condition
NOT_SUGGESTED: Final = _templates("""
Nothing to suggest {0}.
No sign of {0}.
Considered {0}; thought unlikely.
Worried about {0}; reassured.
Has read about {0}; explained why it does not fit.
Asked whether it could be {0}; unlikely.
""")

# {0} drug
CONTINUE: Final = _templates("""
continue {0}
{0} as before
go on with {0}
repeat prescription for {0}
{0} renewed for three months
""")
START: Final = _templates("""
started {0}
given {0}
prescribed {0}
{0} from today
""")
# {0} procedure
REQUESTED: Final = _templates("""
{0} requested
booked for {0}
referral: {0}
{0} discussed and agreed
waiting for {0}
{0} offered, wants to think about it
""")
NEXT_VISIT: Final = skewed("""
review in three months
see again in six weeks
come back if worse
review in half a year
telephone call in two weeks
next check in a month
review with results
yearly review due in spring
nurse appointment made
""")

# {0} condition with a capital, {1} year, {2} symptom, {3} another symptom, {4} procedure,
# {5} doctor, {6} hospital, {7} condition
BACKGROUND: Final = _templates("""
{0} first recorded in {1} after {2} and {3}; {4} at {6}, {5}.
{0} since {1}. Began with {2}, later {3}. Under {5} at {6}; {4} done there.
{0}: noted in {1} because of {2}. {5} ({6}) confirmed it; {4} followed.
History of {7} going back to {1}, when {2} led to {4} at {6}. {5} saw the case for {3}.
""")
# {0} lay name
CALLED: Final = _templates("""
The patient calls it {0}.
In the patient's own words: {0}.
Known at home as {0}.
""")

# {0} verb of report, {1} symptom, {2} another symptom, {3} since when
PRESENTS: Final = _templates("""
{0} {1} {3}, now also {2}.
{0} {1} and {2} {3}.
{0} {1} {3}. Then {2}.
{0} {1} {3}, with {2} at times.
""")
ONSET: Final = skewed("""
for three days
since yesterday
for two days
for nearly a week
since the weekend
for ten days
since Monday
for five days
""")
# {0} condition
IMPRESSION: Final = _templates("""
Impression: {0}.
Assessment: {0}.
Diagnosis: {0}.
Fits {0}.
Working diagnosis {0}.
""")
# {0} condition, {1} day on which it began, {2} how it goes
FOLLOW_UP: Final = _templates("""
Follow-up of {0} (seen {1}): {2}.
Back about {0} (seen {1}); {2}.
Return visit for {0}, first seen {1}: {2}.
""")
RECOVERY: Final = skewed("""
much better
nearly back to normal
settling slowly
fully recovered
still tired but improving
two bad nights, then better
""")
# {0} condition, {1} somebody
UNUSUAL: Final = _templates("""
{1} has been found to have {0}, so asks for a check; nothing of the kind here.
Talks at length about {1}, who has {0}.
Looks after {1}, who has {0}.
Shaken by news that {1} has {0}.
""")
