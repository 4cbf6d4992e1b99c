from __future__ import annotations

import csv
import gzip
import pickle
from collections import Counter
from pathlib import Path

import pytest

from cloister.core.errors import DataError, NotFound
from cloister.data.synthea import open_synthea
from cloister.data.text_layout import detect_text_layout, open_text_collection, summarise_texts

OLD = {
    "patients": [
        "ID,BIRTHDATE,DEATHDATE,SSN,FIRST,LAST,GENDER",
        "p1,1988-05-28,,999-60-7250,Elly802,Koss811,F",
        "p2,1936-09-22,1987-11-06,999-25-1103,Kim254,Barrows624,M",
    ],
    "encounters": [
        "ID,DATE,PATIENT,CODE,DESCRIPTION,REASONCODE,REASONDESCRIPTION",
        "e2,2009-01-11,p1,185345009,Encounter for symptom,10509002,Acute bronchitis",
        "e1,2008-03-11,p1,185349003,Outpatient Encounter,,",
    ],
    "conditions": [
        "START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION",
        "2009-01-08,2009-01-21,p1,e2,10509002,Acute bronchitis",
        "2009-01-11,,p1,e2,36971009,Sinusitis",
    ],
    "immunizations": [
        "DATE,PATIENT,ENCOUNTER,CODE,DESCRIPTION",
        "2008-03-11,p1,e1,140,Influenza  seasonal  injectable",
    ],
    "medications": [
        "START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION,REASONCODE,REASONDESCRIPTION",
        "2009-01-11,2009-01-11,p1,e2,834060,Penicillin,10509002,Acute bronchitis",
    ],
    "allergies": [
        "START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION",
        "1995-03-11,,p2,lost,425525006,Allergy to dairy product",
        "1995-03-11,,p9,lost,425525006,Allergy to dairy product",
    ],
}

NEW = {
    "patients": [
        "Id,BIRTHDATE,DEATHDATE,FIRST,LAST,GENDER",
        '"p1",2017-11-15,,Lou,"Little, Jr.",M',
    ],
    "encounters": [
        "Id,START,STOP,PATIENT,ORGANIZATION,PROVIDER,CODE,DESCRIPTION,REASONCODE,REASONDESCRIPTION",
        "e3,2020-05-01T10:00:00Z,2020-05-01T10:30:00Z,p1,o1,r1,3,Check up,,",
        "e2,2020-05-01T09:00:00Z,2020-05-01T09:30:00Z,p1,o2,r2,2,Emergency,,",
        "e1,2019-01-01T09:00:00Z,2019-01-01T09:30:00Z,p1,o1,r1,1,Check up,,",
    ],
    "procedures": [
        "START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION,BASE_COST,REASONCODE,REASONDESCRIPTION",
        "2020-05-01T09:05:00Z,2020-05-01T09:10:00Z,p1,e2,9,Suture,10.0,,",
    ],
    "careplans": [
        "Id,START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION,REASONCODE,REASONDESCRIPTION",
        "c1,2020-05-01,2020-06-01,p1,e2,8,Wound care,7,Laceration",
    ],
    "organizations": ["Id,NAME,ADDRESS", "o1,CHARLES DREW  INC.,here", "o2,COUNTY HOSPITAL,there"],
    "providers": ["Id,ORGANIZATION,NAME", "r1,o1,Johna Klein", "r2,o2,Dallas Friesen"],
}


def write(folder: Path, tables: dict[str, list[str]], *, compressed: bool = False) -> Path:
    for name, lines in tables.items():
        content = "\n".join([*lines, ""]).encode()
        if compressed:
            (folder / f"{name}.csv.gz").write_bytes(gzip.compress(content))
        else:
            (folder / f"{name}.csv").write_bytes(content)
    return folder


@pytest.mark.parametrize("compressed", [False, True])
def test_a_history_tells_encounters_in_the_order_of_their_dates(
    tmp_path: Path, compressed: bool
) -> None:
    patients = list(open_synthea(write(tmp_path, OLD, compressed=compressed)).patients())
    assert patients[0].history().splitlines() == [
        "Elly802 Koss811, female, born 1988-05-28.",
        "2008-03-11: Outpatient Encounter.",
        "Immunizations: Influenza seasonal injectable.",
        "2009-01-11: Encounter for symptom for Acute bronchitis.",
        "Conditions: Acute bronchitis since 2009-01-08 until 2009-01-21; Sinusitis.",
        "Medications: Penicillin for Acute bronchitis.",
    ]
    assert patients[1].history().splitlines() == [
        "Kim254 Barrows624, male, born 1936-09-22, died 1987-11-06.",
        "Outside any encounter.",
        "Allergies: Allergy to dairy product since 1995-03-11.",
    ]
    assert patients[0].organization_ids == ()


def test_the_new_format_names_the_organisations(tmp_path: Path) -> None:
    (patient,) = open_synthea(write(tmp_path, NEW)).patients()
    assert patient.organization_ids == ("o1", "o2")
    assert patient.history().splitlines() == [
        "Lou Little, Jr., male, born 2017-11-15.",
        "2019-01-01: Check up at CHARLES DREW INC.",
        "2020-05-01: Emergency at COUNTY HOSPITAL.",
        "Procedures: Suture.",
        "Care plans: Wound care for Laceration until 2020-06-01.",
        "2020-05-01: Check up at CHARLES DREW INC.",
    ]


def test_one_organisation_knows_its_own_encounters_only(tmp_path: Path) -> None:
    (patient,) = open_synthea(write(tmp_path, NEW)).patients()
    seen = [encounter.encounter_id for encounter in patient.at("o1").encounters]
    assert seen == ["e1", "e3"]
    assert "Suture" not in patient.at("o1").history()
    assert patient.at("nowhere").encounters == ()


def test_patients_are_documents_of_a_collection(tmp_path: Path) -> None:
    collection = open_text_collection(write(tmp_path, NEW))
    assert collection.kind == "synthea"
    (document,) = collection.documents
    assert (document.doc_id, document.title) == ("p1", "Lou Little, Jr.")
    assert "Wound care" in document.text
    assert collection.fields["p1"]["organization_ids"] == ("o1", "o2")
    assert pickle.loads(pickle.dumps(collection)).documents == collection.documents


def test_no_identity_number_enters_a_history(tmp_path: Path) -> None:
    text = " ".join(patient.history() for patient in open_synthea(write(tmp_path, OLD)).patients())
    assert "999-" not in text


def test_the_summary_counts_rows_and_unknown_patients(tmp_path: Path) -> None:
    assert summarise_texts(write(tmp_path, OLD)) == {
        "kind": "synthea",
        "documents": 2,
        "tables": {
            "allergies": 2,
            "conditions": 2,
            "encounters": 2,
            "immunizations": 1,
            "medications": 1,
            "patients": 2,
        },
        "condition_codes": 2,
        "organizations": 0,
        "patients_at_several": 0,
        "unknown_patients": {"allergies": 1},
    }


def test_rows_have_column_names_in_capitals(tmp_path: Path) -> None:
    records = open_synthea(write(tmp_path, NEW))
    assert next(records.rows("providers")) == {
        "ID": "r1",
        "ORGANIZATION": "o1",
        "NAME": "Johna Klein",
    }
    with pytest.raises(NotFound, match="no table 'payers'"):
        next(records.rows("payers"))


@pytest.mark.parametrize("table", ["patients", "encounters"])
def test_a_folder_without_a_needed_table_is_not_found(tmp_path: Path, table: str) -> None:
    write(tmp_path, {name: lines for name, lines in OLD.items() if name != table})
    assert detect_text_layout(tmp_path) is None
    with pytest.raises(NotFound, match=f"no {table}.csv"):
        open_synthea(tmp_path)


@pytest.mark.parametrize(
    ("table", "column", "complaint"),
    [
        ("patients", "ID", "no column ID"),
        ("patients", "LAST", "no column LAST"),
        ("encounters", "DATE", "no column START or DATE"),
        ("encounters", "PATIENT", "no column PATIENT"),
        ("conditions", "START", "no column START or DATE"),
        ("immunizations", "ENCOUNTER", "no column ENCOUNTER"),
    ],
)
def test_a_missing_column_is_reported_with_its_file(
    tmp_path: Path, table: str, column: str, complaint: str
) -> None:
    header, *rows = OLD[table]
    names = [f"X{name}" if name == column else name for name in header.split(",")]
    write(tmp_path, {**OLD, table: [",".join(names), *rows]})
    with pytest.raises(DataError) as caught:
        open_synthea(tmp_path)
    assert caught.value.what == complaint
    assert caught.value.where == str(tmp_path / f"{table}.csv")
    assert f"X{column}" in caught.value.remedy


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("2009-01-08,,p1", "3 fields, but the header has 6: '2009-01-08,,p1'"),
        ('2009-01-08,,p1,e1,1,"open', "not CSV: unexpected end of data"),
        ('2009-01-08,,p1,e1,1,"a"b', "not CSV: "),
    ],
)
def test_a_malformed_row_is_reported_with_its_line(
    tmp_path: Path, row: str, complaint: str
) -> None:
    header, first, *_ = OLD["conditions"]
    write(tmp_path, {**OLD, "conditions": [header, first, row]})
    with pytest.raises(DataError) as caught:
        list(open_synthea(tmp_path).patients())
    assert caught.value.what.startswith(complaint)
    assert caught.value.where == f"{tmp_path / 'conditions.csv'}:3"


@pytest.mark.parametrize("header", ["", "ID,NAME,id"])
def test_a_header_without_names_or_with_one_twice_is_an_error(tmp_path: Path, header: str) -> None:
    write(tmp_path, {**OLD, "payers": [header]})
    with pytest.raises(DataError, match="the header names no column, or one twice"):
        open_synthea(tmp_path)


OLD_COUNTS = {
    "patients": 1462,
    "encounters": 20524,
    "conditions": 7040,
    "medications": 6048,
    "careplans": 12125,
    "procedures": 10184,
    "immunizations": 13189,
    "allergies": 572,
}
NEW_COUNTS = {
    "patients": 111,
    "encounters": 7584,
    "conditions": 4428,
    "medications": 6124,
    "procedures": 11742,
    "organizations": 215,
    "providers": 215,
    "payers": 10,
    "allergies": 90,
    "careplans": 387,
    "devices": 155,
    "imaging_studies": 58,
    "immunizations": 1774,
    "supplies": 1101,
}


@pytest.mark.parametrize(
    ("name", "tables", "codes", "organizations", "several"),
    [
        ("synthea-ma-1462", OLD_COUNTS, 118, 0, 0),
        ("synthea-ne-111", NEW_COUNTS, 165, 196, 106),
    ],
)
def test_real_records_have_the_published_counts(
    real_data, name, tables, codes, organizations, several
) -> None:
    folder = real_data(f"records/{name}")
    assert detect_text_layout(folder) == "synthea"
    summary = summarise_texts(folder)
    assert summary["documents"] == tables["patients"]
    assert summary["tables"] == tables
    assert summary["condition_codes"] == codes
    assert (summary["organizations"], summary["patients_at_several"]) == (organizations, several)
    assert summary["unknown_patients"] == {}


@pytest.mark.parametrize("name", ["synthea-ma-1462", "synthea-ne-111"])
def test_every_real_row_is_told_in_the_history_of_its_patient(real_data, name: str) -> None:
    folder = real_data(f"records/{name}")
    patients = list(open_synthea(folder).patients())
    assert not any(patient.other_entries for patient in patients)
    for table in ("conditions", "medications", "procedures", "careplans", "allergies"):
        with gzip.open(folder / f"{table}.csv.gz", "rt", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        told = Counter(
            (patient.patient_id, encounter.encounter_id, entry.code)
            for patient in patients
            for encounter in patient.encounters
            for entry in encounter.entries
            if entry.table == table
        )
        assert told == Counter((row["PATIENT"], row["ENCOUNTER"], row["CODE"]) for row in rows)
        histories = {patient.patient_id: patient.history() for patient in patients}
        for row in rows:
            assert " ".join(row["DESCRIPTION"].split()) in histories[row["PATIENT"]]


def test_real_encounters_come_in_order_and_name_their_organisation(real_data) -> None:
    for patient in open_synthea(real_data("records/synthea-ne-111")).patients():
        starts = [encounter.start for encounter in patient.encounters]
        assert starts == sorted(starts)
        assert all(encounter.organization for encounter in patient.encounters)
        parts = [patient.at(name).encounters for name in patient.organization_ids]
        assert sum(map(len, parts)) == len(patient.encounters)
