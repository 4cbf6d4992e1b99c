"""Medical histories of Synthea patients: encounters with what was found and done in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from cloister.core.ids import DocId
from cloister.core.records import Document
from cloister.data.csv_table import CsvTable

__all__ = ["ENTRY_TABLES", "Encounter", "Entry", "Patient", "read_patients"]

ENTRY_TABLES: Final = {  # table -> heading in a history, in this order
    "conditions": "Conditions",
    "medications": "Medications",
    "procedures": "Procedures",
    "careplans": "Care plans",
    "immunizations": "Immunizations",
    "allergies": "Allergies",
}
_GENDERS: Final = {"F": "female", "M": "male"}


class Entry(NamedTuple):
    """One line of a record: a condition, a medication, a procedure and so on."""

    table: str
    code: str
    description: str
    start: str
    stop: str = ""
    reason: str = ""

    def in_words(self, today: str = "") -> str:
        """Return the entry in words, with dates where they differ from ``today``.

        Examples
        --------
        >>> Entry("conditions", "38822007", "Cystitis", "2010-10-16", "2010-10-23").in_words()
        'Cystitis since 2010-10-16 until 2010-10-23'
        """
        start, stop = self.start[:10], self.stop[:10]
        reason = f" for {self.reason}" if self.reason else ""
        since = f" since {start}" if start and start != today else ""
        until = f" until {stop}" if stop and stop != start else ""
        return f"{self.description}{reason}{since}{until}"


class Encounter(NamedTuple):
    """One visit: when, why and where (the new format knows the organisation), and its entries."""

    encounter_id: str
    start: str
    code: str
    description: str
    reason: str = ""
    organization_id: str = ""
    organization: str = ""
    entries: tuple[Entry, ...] = ()


class Patient(NamedTuple):
    """A patient with all encounters in the order of their dates.

    ``other_entries`` are those that name no encounter of this patient.

    Examples
    --------
    >>> flu = Entry("conditions", "6142004", "Influenza", "2009-01-11")
    >>> visit = Encounter("e1", "2009-01-11", "185345009", "Encounter for symptom", entries=(flu,))
    >>> print(Patient("p1", "Elly Koss", "F", "1988-05-28", encounters=(visit,)).history())
    Elly Koss, female, born 1988-05-28.
    2009-01-11: Encounter for symptom.
    Conditions: Influenza.
    """

    patient_id: str
    name: str
    gender: str
    birth_date: str
    death_date: str = ""
    encounters: tuple[Encounter, ...] = ()
    other_entries: tuple[Entry, ...] = ()

    @property
    def organization_ids(self) -> tuple[str, ...]:
        """The organisations that saw the patient, in the order of the first visit."""
        ids = (encounter.organization_id for encounter in self.encounters)
        return tuple(dict.fromkeys(filter(None, ids)))

    def at(self, organization_id: str) -> Patient:
        """Return what one organisation knows of the patient: its own encounters only."""
        own = tuple(e for e in self.encounters if e.organization_id == organization_id)
        return self._replace(encounters=own, other_entries=())

    def history(self) -> str:
        """Return the medical history as one readable text."""
        died = f", died {self.death_date}" if self.death_date else ""
        gender = _GENDERS.get(self.gender, self.gender)
        lines = [f"{self.name}, {gender}, born {self.birth_date}{died}."]
        for encounter in self.encounters:
            reason = f" for {encounter.reason}" if encounter.reason else ""
            place = f" at {encounter.organization}" if encounter.organization else ""
            day = encounter.start[:10]
            lines.append(_sentence(f"{day}: {encounter.description}{reason}{place}"))
            lines.extend(_entry_lines(encounter.entries, day))
        if self.other_entries:
            lines.append("Outside any encounter.")
            lines.extend(_entry_lines(self.other_entries))
        return "\n".join(lines)

    def document(self) -> Document:
        """Return the history as a document with the patient's name as title."""
        return Document(DocId(self.patient_id), self.history(), self.name)


def read_patients(tables: Mapping[str, CsvTable]) -> Iterator[Patient]:
    """Yield the patients in the order of their table; the other tables are kept in memory."""
    encounters = _read_encounters(tables["encounters"], tables.get("organizations"))
    entries = _read_entries(tables)
    columns = (("ID",), ("FIRST",), ("LAST",), ("GENDER",), ("BIRTHDATE",), ("DEATHDATE", ""))
    for patient_id, first, last, gender, born, died in tables["patients"].select(*columns):
        own_entries = entries.pop(patient_id, {})
        visits = tuple(
            encounter._replace(entries=_in_order(own_entries.pop(encounter.encounter_id, ())))
            for encounter in sorted(encounters.pop(patient_id, ()), key=lambda visit: visit.start)
        )
        others = _in_order(entry for part in own_entries.values() for entry in part)
        yield Patient(patient_id, f"{first} {last}".strip(), gender, born, died, visits, others)


def _read_encounters(table: CsvTable, organizations: CsvTable | None) -> dict[str, list[Encounter]]:
    """Collect the encounters by patient."""
    names = dict(_pairs(organizations)) if organizations else {}
    found: defaultdict[str, list[Encounter]] = defaultdict(list)
    columns = (("PATIENT",), ("ID",), ("START", "DATE"), ("CODE",), ("DESCRIPTION",))
    optional = (("REASONDESCRIPTION", ""), ("ORGANIZATION", ""))
    for row in table.select(*columns, *optional):
        patient_id, encounter_id, start, code, description, reason, place = row
        found[patient_id].append(
            Encounter(
                encounter_id,
                start,
                code,
                _plain(description),
                _plain(reason),
                place,
                names.get(place, ""),
            )
        )
    return found


def _pairs(organizations: CsvTable) -> Iterator[tuple[str, str]]:
    for organization_id, name in organizations.select(("ID",), ("NAME",)):
        yield organization_id, _plain(name)


def _read_entries(tables: Mapping[str, CsvTable]) -> dict[str, dict[str, list[Entry]]]:
    """Collect the entries of all tables by patient and encounter."""
    found: defaultdict[str, defaultdict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    columns = (("PATIENT",), ("ENCOUNTER",), ("CODE",), ("DESCRIPTION",), ("START", "DATE"))
    optional = (("STOP", ""), ("REASONDESCRIPTION", ""))
    for name in ENTRY_TABLES:
        rows = tables[name].select(*columns, *optional) if name in tables else ()
        for patient_id, encounter_id, code, description, start, stop, reason in rows:
            entry = Entry(name, code, _plain(description), start, stop, _plain(reason))
            found[patient_id][encounter_id].append(entry)
    return {patient_id: dict(parts) for patient_id, parts in found.items()}


def _plain(text: str) -> str:
    """Join the words by single blanks: Synthea writes two where a comma was."""
    return " ".join(text.split())


def _in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.start))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _entry_lines(entries: Iterable[Entry], day: str = "") -> Iterator[str]:
    """Yield one line a kind of entry."""
    by_table: defaultdict[str, list[str]] = defaultdict(list)
    for entry in entries:
        by_table[entry.table].append(entry.in_words(day))
    for table, heading in ENTRY_TABLES.items():
        if table in by_table:
            yield _sentence(f"{heading}: {'; '.join(by_table[table])}")
