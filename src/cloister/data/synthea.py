"""Medical records as the Synthea generator exports them: a folder of CSV files.

Walonoski et al., "Synthea: An approach, method, and software mechanism for generating synthetic
patients and the synthetic electronic health care record", JAMIA 2018. Both the old format
(columns ``ID`` and ``DATE``) and the new one (``Id``, ``START``, ``STOP``, with organisations) are
read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from cloister.core.errors import NotFound
from cloister.data.csv_table import CsvTable, open_csv
from cloister.data.synthea_history import ENTRY_TABLES, Patient, read_patients
from cloister.data.text_collection import TextCollection, TextRecord
from cloister.data.text_file import find_text_file, find_text_files

__all__ = ["SyntheaRecords", "SyntheaSummary", "is_synthea", "open_synthea"]

_ENTRY_COLUMNS: Final = (
    ("PATIENT",),
    ("ENCOUNTER",),
    ("START", "DATE"),
    ("CODE",),
    ("DESCRIPTION",),
)
_COLUMNS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "patients": (("ID",), ("BIRTHDATE",), ("FIRST",), ("LAST",), ("GENDER",)),
    "encounters": (("ID",), ("PATIENT",), ("START", "DATE"), ("CODE",), ("DESCRIPTION",)),
    "organizations": (("ID",), ("NAME",)),
    **dict.fromkeys(ENTRY_TABLES, _ENTRY_COLUMNS),
}
_NEEDED_TABLES: Final = ("patients", "encounters")


@dataclass(frozen=True)
class SyntheaSummary:
    """Counts of a folder of records.

    ``documents`` counts the patients, ``tables`` the rows of each table, ``organizations`` those
    that had an encounter, ``patients_at_several`` the patients seen by more than one of them, and
    ``unknown_patients`` by table the rows that name a patient who is not in the patients' table.
    """

    kind: str
    documents: int
    tables: dict[str, int]
    condition_codes: int
    organizations: int
    patients_at_several: int
    unknown_patients: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain dicts, as the command line prints them."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class SyntheaRecords:
    """The tables of one export, by name; their rows are read when asked for."""

    folder: Path
    tables: Mapping[str, CsvTable] = field(repr=False)

    def rows(self, table: str) -> Iterator[dict[str, str]]:
        """Stream the rows of a table as ``column -> value``, column names in capitals."""
        if table not in self.tables:
            raise NotFound(
                f"no table {table!r}",
                where=str(self.folder),
                remedy=f"there are {', '.join(self.tables)}",
            )
        names = tuple(self.tables[table].columns)
        for row in self.tables[table].rows():
            yield dict(zip(names, row, strict=True))

    def patients(self) -> Iterator[Patient]:
        """Stream the patients, each with all encounters and entries."""
        return read_patients(self.tables)

    def text_collection(self) -> TextCollection:
        """Return the patients' histories as documents; there are no queries.

        ``fields`` names the organisations that saw the patient: ``organization_ids``.
        """
        return TextCollection("synthea", str(self.folder), self._read_histories, (), {})

    def _read_histories(self) -> Iterator[TextRecord]:
        for patient in self.patients():
            fields = {"organization_ids": patient.organization_ids}
            yield TextRecord(patient.document(), fields)

    def summary(self) -> SyntheaSummary:
        """Count the rows of every table and what the encounters say about organisations."""
        patient_ids = {name for (name,) in self.tables["patients"].select(("ID",))}
        counts: dict[str, int] = {}
        unknown: dict[str, int] = {}
        for name, table in self.tables.items():
            owners = [owner for (owner,) in table.select(("PATIENT", ""))]
            counts[name] = len(owners)
            n_unknown = sum(owner not in patient_ids for owner in owners)
            if n_unknown and "PATIENT" in table.columns:
                unknown[name] = n_unknown
        places = self._places()
        return SyntheaSummary(
            kind="synthea",
            documents=counts["patients"],
            tables=counts,
            condition_codes=self._n_condition_codes(),
            organizations=len(set[str]().union(*places.values())),
            patients_at_several=sum(len(part) > 1 for part in places.values()),
            unknown_patients=unknown,
        )

    def _places(self) -> dict[str, set[str]]:
        """Collect the organisations of every patient who had an encounter."""
        places: defaultdict[str, set[str]] = defaultdict(set)
        for patient_id, place in self.tables["encounters"].select(
            ("PATIENT",), ("ORGANIZATION", "")
        ):
            if place:
                places[patient_id].add(place)
        return places

    def _n_condition_codes(self) -> int:
        table = self.tables.get("conditions")
        return len({code for (code,) in table.select(("CODE",))}) if table else 0


def is_synthea(folder: str | Path) -> bool:
    """Say whether a folder holds a Synthea export."""
    return all(find_text_file(folder, f"{name}.csv") for name in _NEEDED_TABLES)


def open_synthea(folder: str | Path) -> SyntheaRecords:
    r"""Open a Synthea export, in the old or the new format, plain or gzip.

    Raises
    ------
    NotFound
        There is no table of patients or of encounters.
    DataError
        A table lacks a column that a history needs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "patients.csv").write_text(
    ...         "Id,BIRTHDATE,FIRST,LAST,GENDER\np1,1988-05-28,Elly,Koss,F\n")
    ...     _ = Path(folder, "encounters.csv").write_text(
    ...         "Id,START,PATIENT,CODE,DESCRIPTION\ne1,2009-01-11T08:00:00Z,p1,18,Check up\n")
    ...     records = open_synthea(folder)
    ...     print(next(records.patients()).history())
    Elly Koss, female, born 1988-05-28.
    2009-01-11: Check up.
    """
    folder = Path(folder)
    for name in _NEEDED_TABLES:
        if find_text_file(folder, f"{name}.csv") is None:
            raise NotFound(
                f"no {name}.csv or {name}.csv.gz here",
                where=str(folder),
                remedy="name a folder with the CSV files of a Synthea export",
            )
    tables = {name: open_csv(path) for name, path in find_text_files(folder, ".csv").items()}
    for name, table in tables.items():
        for names in _COLUMNS.get(name, ()):
            table.require(*names)
    return SyntheaRecords(folder, tables)
