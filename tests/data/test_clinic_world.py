from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from datetime import date, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.core.rights import STRANGER, Reader
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.data.worlds.clinic.case import PatientRow, patient_rows
from cloister.data.worlds.clinic.condition import DRUG_FLAGS, SPECIALTIES
from cloister.data.worlds.clinic.files import read_rights, write_clinic
from cloister.data.worlds.clinic.latents import AS_OF, YEAR
from cloister.data.worlds.clinic.lexicon import (
    ALLERGENS,
    CONDITION_INDEX,
    CONDITIONS,
    RELATIVES,
)
from cloister.data.worlds.clinic.names import BRAND, FAMILY_NAME, PLACE, spell
from cloister.data.worlds.clinic.queries import AGE_GROUPS, ClinicQuery
from cloister.data.worlds.clinic.world import patient_id

ADULT_FROM = 12
WORD = re.compile("[a-z]+")
DAY = re.compile(
    r"(\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November"
    r"|December) \d{4})"
)


@cache
def small_world() -> ClinicWorld:
    """Four hundred patients, short records."""
    return ClinicWorld(
        ClinicSettings(
            organisations=3, servers=4, pods=100, staff=40, queries=12, document_bytes=1_500
        )
    )


@cache
def large_world() -> ClinicWorld:
    """As many pods as the ESPRESSO paper has; only a few of them are ever made."""
    return ClinicWorld(ClinicSettings(servers=50, pods=9_500))


def row_of(world: ClinicWorld, number: int) -> PatientRow:
    return next(patient_rows(world.latents(number, number + 1)))


# The lexicon -----------------------------------------------------------------------------------


def test_the_lexicon_is_consistent() -> None:
    assert len(CONDITIONS) >= 60
    assert [entry.rank for entry in CONDITIONS] == list(range(1, len(CONDITIONS) + 1))
    for entry in CONDITIONS:
        assert entry.specialty in SPECIALTIES
        assert set(entry.related) | set(entry.excludes) <= set(CONDITION_INDEX)
        assert entry.name not in entry.related
        assert entry.ages[0] < entry.ages[1] <= entry.until
        assert set(entry.avoid) <= set(DRUG_FLAGS)
        assert len(entry.symptoms) >= 3
        assert len({drug.text for drug in entry.drugs}) == len(entry.drugs)
        assert all(set(drug.flags) <= set(DRUG_FLAGS) for drug in entry.drugs)
        assert all((entry.signs, entry.lay, entry.procedures, entry.advice, entry.related))


def test_no_name_means_two_conditions() -> None:
    owners: dict[str, set[str]] = {}
    for entry in CONDITIONS:
        for name in entry.names + entry.lay:
            owners.setdefault(name.lower(), set()).add(entry.name)
    assert {name: who for name, who in owners.items() if len(who) > 1} == {}


@pytest.mark.parametrize("age", [8, 40])
@pytest.mark.parametrize("allergen", [a.flag for a in ALLERGENS if a.flag])
def test_every_acute_condition_leaves_the_allergic_a_drug(age: int, allergen: str) -> None:
    for entry in CONDITIONS:
        if entry.chronic or not entry.ages[0] <= age <= entry.ages[1]:
            continue
        forbidden = {allergen, "adult" if age < ADULT_FROM else "child"}
        assert any(forbidden.isdisjoint(drug.flags) for drug in entry.drugs), entry.name


@pytest.mark.parametrize("shape", [FAMILY_NAME, PLACE, BRAND])
def test_invented_names_do_not_repeat(shape: object) -> None:
    assert len({spell(shape, rank) for rank in range(200_000)}) == 200_000  # type: ignore[arg-type]


# Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        "servers=2&organisations=3",
        "staff=2&organisations=3",
        "access=0",
        "access=5,101",
        "access=5,5",
        "servers=9999&pods=100000",
        "patients=7",
    ],
)
def test_settings_that_make_no_world_are_refused(fields: str) -> None:
    with pytest.raises(SettingsError):
        ClinicSettings.from_text(fields)


def test_settings_are_read_from_an_address() -> None:
    settings = ClinicSettings.from_text("servers=5&pods=200&staff=20&access=25&queries=3")
    assert (settings.n_pods, settings.staff, settings.access) == (1_000, 20, (25,))


def test_the_world_has_the_sizes_asked_for() -> None:
    world = small_world()
    assert len(world.organisations) == 3
    assert Counter(server.organisation for server in world.servers) == {
        "org-000": 2, "org-001": 1, "org-002": 1,
    }  # fmt: skip
    assert sum(1 for _ in world.pods()) == sum(1 for _ in world.documents()) == world.n_pods == 400
    assert len({member.agent_id for member in world.staff}) == 40
    assert {member.organisation for member in world.staff} == {
        o.party_id for o in world.organisations
    }


def test_pods_outside_the_world_are_not_found() -> None:
    for number in (-1, 400):
        with pytest.raises(NotFound):
            small_world().pod(number)
        with pytest.raises(NotFound):
            small_world().document(number)


# Random access ---------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 474_990), st.integers(1, 8))
def test_a_pod_is_the_same_however_it_is_reached(start: int, n: int) -> None:
    world = large_world()
    documents, pods = list(world.documents(start, start + n)), list(world.pods(start, start + n))
    last = start + n - 1
    assert world.document(last) == documents[-1]
    assert world.pod(last) == pods[-1]
    assert world.document(start) == documents[0]


def test_another_process_makes_the_same_world() -> None:
    program = (
        "import hashlib; from cloister.data.worlds.clinic import *\n"
        "w = ClinicWorld(ClinicSettings(servers=50, pods=9500))\n"
        "print(hashlib.sha256(w.document(300_123).text.encode()).hexdigest(), w.queries[2].text)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    text = large_world().document(300_123).text
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert run.stdout.strip() == f"{digest} {large_world().queries[2].text}"


def test_seeds_make_different_worlds() -> None:
    one, two = (ClinicWorld(ClinicSettings(seed=seed)) for seed in (1, 2))
    assert one.document(3) != two.document(3)
    assert one.staff != two.staff


def test_access_levels_do_not_change_the_records() -> None:
    one, two = (ClinicWorld(ClinicSettings(access=access)) for access in ((5, 50), (50,)))
    assert one.document(3) == two.document(3)
    name = one.search_parties[1].agent_id
    assert (one.readable(name) == two.readable(name)).all()


# Patients --------------------------------------------------------------------------------------


def test_problems_suit_age_and_sex() -> None:
    latents = large_world().latents(0, 20_000)
    for row in patient_rows(latents):
        for condition, onset in zip(row.condition, row.onset, strict=True):
            if condition < 0:
                continue
            entry, years = CONDITIONS[condition], (onset - row.birth) / YEAR
            assert entry.sex in ("", "FM"[row.sex])
            assert entry.ages[0] <= years <= entry.ages[1] + 1.01, entry.name
            assert row.birth <= onset < AS_OF
            assert entry.chronic or onset >= row.record_start
        assert len(set(row.condition) - {-1}) == sum(c >= 0 for c in row.condition) >= 1


def test_conditions_that_exclude_each_other_never_meet() -> None:
    latents = large_world().latents(0, 50_000)
    have = {c: (latents.condition == i).any(axis=1) for c, i in CONDITION_INDEX.items()}
    pairs = [(entry.name, other) for entry in CONDITIONS for other in entry.excludes]
    assert pairs
    assert not any((have[a] & have[b]).any() for a, b in pairs)


def test_nobody_takes_what_they_must_avoid() -> None:
    n_avoided = 0
    for row in patient_rows(large_world().latents(0, 20_000)):
        avoid = {ALLERGENS[a].flag for a in row.allergy if a >= 0} - {""}
        avoid.update(*(CONDITIONS[c].avoid for c in row.condition if c >= 0))
        n_avoided += len(avoid)
        for condition, drug, onset in zip(row.condition, row.drug, row.onset, strict=True):
            if condition < 0 or drug < 0:
                continue
            entry = CONDITIONS[condition]
            day = AS_OF if entry.chronic else onset
            child = day - row.birth < ADULT_FROM * YEAR
            forbidden = avoid | {"adult" if child else "child"}
            assert forbidden.isdisjoint(entry.drugs[drug].flags)
    assert n_avoided > 10_000


def test_relatives_suit_the_illness() -> None:
    for row in patient_rows(large_world().latents(0, 5_000)):
        for condition, relative in zip(row.family, row.relative, strict=True):
            if condition >= 0:
                assert CONDITIONS[condition].heritable
                assert CONDITIONS[condition].sex in ("", "FM"[relative % 2])
                assert relative < len(RELATIVES)


def test_prevalence_falls_and_related_illnesses_meet() -> None:
    latents = large_world().latents(0, 30_000)
    counts = np.bincount(latents.condition[latents.condition >= 0], minlength=len(CONDITIONS))
    assert counts.min() > 0
    assert counts[:10].sum() > 3 * counts[-45:].sum() / 4.5
    middle = (latents.age >= 45) & (latents.age < 65)
    obese = (latents.condition == CONDITION_INDEX["obesity"]).any(axis=1)[middle]
    diabetic = (latents.condition == CONDITION_INDEX["type 2 diabetes"]).any(axis=1)[middle]
    assert diabetic[obese].mean() > 1.3 * diabetic[~obese].mean()


def test_servers_differ_in_what_they_hold() -> None:
    world = ClinicWorld(ClinicSettings(servers=10, pods=2_000, focus=0.5))
    flat = ClinicWorld(ClinicSettings(servers=10, pods=2_000, focus=0.0))
    wins = 0
    for number, server in enumerate(world.servers):
        wanted = [i for i, c in enumerate(CONDITIONS) if c.specialty == server.specialty]
        shares = [
            np.isin(w.latents(2_000 * number, 2_000 * (number + 1)).condition[:, 0], wanted).mean()
            for w in (world, flat)
        ]
        wins += shares[0] > shares[1]
    assert wins == 10


# Records ---------------------------------------------------------------------------------------


def test_records_name_every_problem_and_its_treatment() -> None:
    world = small_world()
    for number, row in enumerate(patient_rows(world.latents(0, 150))):
        text = world.document(number).text.lower()
        for slot, condition in enumerate(row.condition):
            if condition < 0:
                continue
            entry = CONDITIONS[condition]
            assert entry.names[row.wording[slot]].lower() in text
            if row.drug[slot] >= 0:
                assert entry.drugs[row.drug[slot]].text.lower() in text
            if slot == 0:
                assert entry.symptoms[row.symptom[slot]].lower() in text


def test_dates_lie_between_birth_and_today_and_visits_are_in_order() -> None:
    for document, pod in zip(small_world().documents(), small_world().pods(), strict=True):
        days = [datetime.strptime(d, "%d %B %Y").date() for d in DAY.findall(document.text)]
        birth = pod.patient.birth_date
        assert all(birth <= day <= date.fromordinal(AS_OF) for day in days)
        years = [int(year) for year in re.findall(r"since (\d{4})", document.text)]
        assert all(birth.year <= year <= 2025 for year in years)
        visits = [p.split(".")[0] for p in document.text.split("\n\n")[1:]]
        order = [datetime.strptime(visit, "%d %B %Y") for visit in visits]
        assert order == sorted(order)
        assert order


def test_men_have_no_womens_visits_and_babies_do_not_work() -> None:
    world = ClinicWorld(ClinicSettings(document_bytes=1_500))
    ages = world.latents().age
    seen = Counter[str]()
    for number, pod in enumerate(world.pods()):
        text = world.document(number).text
        if pod.patient.sex == "male":
            seen["male"] += 1
            assert not re.search(r"[Pp]regnancy|smear|[Cc]ontraception|menopaus", text)
        else:
            assert not re.search("prostat|[Tt]esticular", text.split("Family history")[0])
        if ages[number] < 14:
            seen["young"] += 1
            assert not re.search(r"[Ww]orks as|Sick note|BP \d|smoked\.", text)
    assert min(seen.values()) > 50


def test_records_are_plain_text_of_at_least_the_size_asked_for() -> None:
    world = ClinicWorld(ClinicSettings())
    sizes = []
    for document in world.documents():
        assert document.text.isascii()
        assert "  " not in document.text
        assert "{" not in document.text
        assert " ." not in document.text
        sizes.append(len(document.text))
    assert min(sizes) >= 5_000
    # Pareto: twice the least size is passed with chance 2 ** -2.5 = 0.18
    assert np.mean(np.array(sizes) > 10_000) == pytest.approx(2**-2.5, abs=0.05)


def test_sentences_begin_with_a_capital() -> None:
    for document in small_world().documents(0, 200):
        starts = re.findall(r"(?<=[a-z)]\. )\S+", document.text.replace("Dr ", "Dr"))
        small = [word for word in starts if word[0].islower() and word not in ("eGFR",)]
        assert not small


def test_histories_are_carried_forward_word_for_word() -> None:
    world = ClinicWorld(ClinicSettings(document_bytes=8_000))
    repeated = 0
    for document in world.documents(0, 100):
        lines = Counter(line for line in document.text.split("\n") if line.startswith("Ongoing: "))
        repeated += any(count >= 3 for count in lines.values())
    assert repeated > 50


def test_words_follow_zipf_and_the_vocabulary_keeps_growing() -> None:
    counts = Counter[str]()
    grown = []
    for number, document in enumerate(large_world().documents(0, 1_600), 1):
        counts.update(WORD.findall(document.text.lower()))
        if number in (400, 1_600):
            grown.append((counts.total(), len(counts)))
    frequency = np.array(sorted(counts.values(), reverse=True), float)
    ranks = np.unique(np.geomspace(10, 1_000, 60).astype(int))
    slope = np.polyfit(np.log(ranks), np.log(frequency[ranks - 1]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)
    (tokens, types), (more_tokens, more_types) = grown
    heaps = np.log(more_types / types) / np.log(more_tokens / tokens)
    assert 0.5 < heaps < 0.8
    assert np.mean(frequency == 1) > 0.3


def test_memory_does_not_grow_with_the_number_of_pods() -> None:
    world = ClinicWorld(ClinicSettings(servers=50, pods=9_500, document_bytes=0))

    def peak(n: int) -> int:
        tracemalloc.start()
        for _ in zip(world.documents(0, n), world.pods(0, n), strict=True):
            pass
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    peak(4_096)  # fills the caches of names, which are bounded
    assert peak(4_096) < peak(1_024) + 500_000


# Rights ----------------------------------------------------------------------------------------


def test_readable_agrees_with_the_rights_of_each_pod() -> None:
    world = small_world()
    pods = list(world.pods())
    agents = [member.agent_id for member in world.staff]
    agents += [party.agent_id for party in world.search_parties]
    agents += [pods[7].patient.agent_id, "https://clinic.example/nobody#me"]
    shares = []
    for agent in agents:
        reader = world.reader(agent)
        allowed = np.array([pod.rights.allow(reader) for pod in pods])
        assert (world.readable(agent) == allowed).all()
        assert (world.readable(agent, 37, 260) == allowed[37:260]).all()
        shares.append(allowed.mean())
    assert sum(share > 0 for share in shares[:40]) >= 30
    assert shares[-3:] == [1.0, 1 / 400, 0.0]  # full access, a patient, somebody unknown


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("0000007", [7]), ("0000000", [0]), ("0000399", [399]), ("0000400", []), ("7", []),
        ("00000007", []), ("-000001", []), ("000000\u0667", []), ("0000007\n", []), ("", []),
        ("9" * 5_000, []), ("000_007", []), (" 000007", []),
    ],
)  # fmt: skip
def test_only_the_exact_id_of_a_patient_opens_a_pod(name: str, pods: list[int]) -> None:
    world = small_world()
    agent = f"https://clinic.example/patients/{name}#me"
    assert np.flatnonzero(world.readable(agent)).tolist() == pods
    by_hand = [patient_id(number) == agent for number in range(world.n_pods)]
    assert world.readable(agent).tolist() == by_hand
    assert world.readable(agent, 5, 20).tolist() == by_hand[5:20]
    for other in (f"{agent}x", agent.replace("#me", ""), f"x{agent}", agent.replace(".", "-")):
        assert not world.readable(other).any()


def test_specialists_read_by_their_group_and_only_what_was_referred() -> None:
    world = small_world()
    by_group = 0
    for pod in world.pods():
        for member in world.staff:
            if member.role == "specialist" and pod.rights.allow(member.reader):
                by_group += 1
                assert member.organisation == pod.organisation
                assert not pod.rights.allow(Reader(member.agent_id))
    assert by_group > 0


def test_pods_are_closed_to_all_others() -> None:
    world = small_world()
    pods = list(world.pods(0, 50))
    for pod in pods:
        assert not pod.rights.public
        assert not pod.rights.allow(STRANGER)
        assert pod.rights.allow(Reader(pod.patient.agent_id))
        others = [p.patient.agent_id for p in pods if p is not pod]
        assert not any(pod.rights.allow(Reader(other)) for other in others)


def test_every_pod_has_a_doctor_of_its_own_organisation() -> None:
    world = small_world()
    for pod in world.pods():
        doctors = [m for m in world.staff if m.agent_id in pod.rights.agents]
        assert any(member.role == "doctor" for member in doctors)
        assert {member.organisation for member in doctors} == {pod.organisation}


@pytest.mark.parametrize("level", [5, 10, 25, 50])
def test_search_parties_read_their_share_on_every_server(level: int) -> None:
    world = large_world()
    party = next(p for p in world.search_parties if p.access_percent == level)
    granted = world.readable(party.agent_id)
    share, n = level / 100, len(granted)
    assert granted.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))
    by_server = granted.reshape(50, -1).mean(axis=1)
    assert by_server == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / 9_500))


def test_full_access_reads_everything() -> None:
    world = large_world()
    assert world.readable(world.search_parties[-1].agent_id).all()


def test_the_smallest_world_still_works() -> None:
    world = ClinicWorld(
        ClinicSettings(organisations=1, servers=1, pods=1, staff=1, queries=3, document_bytes=0)
    )
    assert world.readable(world.staff[0].agent_id).tolist() == [True]
    assert [world.grades(query).tolist() for query in world.queries] == [[3]] * 3


# Queries ---------------------------------------------------------------------------------------


def graded_by_hand(query: ClinicQuery, row: PatientRow) -> int:
    """The definition of the grades, read literally."""
    wanted = CONDITION_INDEX[query.condition]
    age = int((AS_OF - row.birth) / YEAR)
    group = [name for name, first in AGE_GROUPS if age >= first][-1]
    slots = [slot for slot, condition in enumerate(row.condition) if condition == wanted]
    if not slots:
        related = CONDITIONS[row.condition[0]].name in CONDITIONS[wanted].related
        return int(related or wanted in row.family)
    slot = slots[0]
    main = slot == 0 or row.severity[slot] == 3
    true_of_patient = {
        ("symptom", CONDITIONS[wanted].symptoms[row.symptom[slot]]),
        ("age", group),
        ("sex", ("female", "male")[row.sex]),
    }
    true_of_patient |= {("also", CONDITIONS[c].name) for c in row.condition if c >= 0}
    if row.drug[slot] >= 0:
        true_of_patient.add(("drug", CONDITIONS[wanted].drugs[row.drug[slot]].text))
    if row.smoking == 2:
        true_of_patient.add(("smoking", "current"))
    return 3 if main and set(query.facets) <= true_of_patient else 2


def test_grades_follow_their_definition() -> None:
    world = ClinicWorld(ClinicSettings(queries=45, document_bytes=0))
    rows = list(patient_rows(world.latents()))
    kinds = Counter(facet.kind for query in world.queries for facet in query.facets)
    assert set(kinds) == {"symptom", "age", "sex", "drug", "smoking", "also"}
    totals = Counter[int]()
    for query in world.queries:
        grades = world.grades(query)
        assert grades.tolist() == [graded_by_hand(query, row) for row in rows]
        assert (world.grades(query, 50, 777) == grades[50:777]).all()
        assert grades.max() == 3
        totals.update(grades.tolist())
    assert set(totals) == {0, 1, 2, 3}
    assert totals[0] > totals[1] > totals[3]


def test_queries_take_turns_in_length() -> None:
    queries = small_world().queries
    assert [query.kind for query in queries[:4]] == ["short", "medium", "long", "short"]
    assert [len(query.facets) for query in queries[:3]] == [0, 1, 2]
    assert len({query.query_id for query in queries}) == len(queries) == 12
    words = {
        kind: [len(q.text.split()) for q in queries if q.kind == kind] for kind in ("short", "long")
    }
    assert np.mean(words["short"]) < 4 < np.mean(words["long"])


def test_relevance_is_more_than_matching_words() -> None:
    world = ClinicWorld(ClinicSettings(queries=30))
    texts = [document.text.lower() for document in world.documents()]
    missed = misled = 0
    for query in world.queries:
        grades = world.grades(query)
        said = np.array([query.condition.lower() in text for text in texts])
        missed += int(((grades == 3) & ~said).sum())  # relevant, in other words
        misled += int(((grades == 0) & said).sum())  # named, but not the patient's
    assert missed > 50
    assert misled > 50


def test_judgements_are_the_grades_above_nought() -> None:
    world = small_world()
    judged = {(j.query_id, j.doc_id): j.grade for j in world.judgements()}
    for query in world.queries:
        grades = world.grades(query)
        for number in range(world.n_pods):
            key = (query.query_id, f"record-{number:07}")
            assert judged.get(key, 0) == grades[number]
    one = world.queries[1]
    assert {j.query_id for j in world.judgements(one)} == {one.query_id}


# Files -----------------------------------------------------------------------------------------


def test_a_written_world_can_be_read_back(tmp_path: Path) -> None:
    world = small_world()
    calls: list[tuple[int, int]] = []
    write_clinic(world, tmp_path / "clinic", progress=lambda done, all_: calls.append((done, all_)))
    folder = tmp_path / "clinic"

    def lines(name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    corpus = [(d["_id"], d["title"], d["text"]) for d in lines("corpus.jsonl")]
    assert corpus == [(d.doc_id, d.title, d.text) for d in world.documents()]
    assert [q["text"] for q in lines("queries.jsonl")] == [q.text for q in world.queries]
    header, *rows = (folder / "qrels" / "test.tsv").read_text().splitlines()
    assert header == "query-id\tcorpus-id\tscore"
    assert rows == ["\t".join(map(str, judgement)) for judgement in world.judgements()]
    for record, pod in zip(lines("rights.jsonl"), world.pods(), strict=True):
        assert (record["pod"], record["server"]) == (pod.pod_id, pod.server_id)
        assert record["owner"] == pod.rights.owner
        assert record["agents"] == sorted(pod.rights.agents)
        assert record["groups"] == sorted(pod.rights.groups)
    described = json.loads((folder / "world.json").read_text())
    assert ClinicSettings(**described["settings"]) == world.settings
    assert calls[-1] == (400, 400)


def test_a_small_world_has_as_many_organisations_as_fit() -> None:
    assert ClinicSettings(servers=2).organisations == 2
    assert ClinicSettings(staff=3).organisations == 3
    assert ClinicSettings.from_text("servers=8&staff=20").organisations == 5
    with pytest.raises(SettingsError, match="at least as many servers"):
        ClinicSettings(servers=2, organisations=3)


def test_the_rights_that_were_written_are_read_back(tmp_path: Path) -> None:
    world = small_world()
    write_clinic(world, tmp_path)
    assert list(read_rights(tmp_path)) == [(pod.pod_id, pod.rights) for pod in world.pods()]
    (tmp_path / "rights.jsonl").write_text('{"pod": "p", "owner": "o"}\n')
    with pytest.raises(DataError, match="no rights of a pod"):
        list(read_rights(tmp_path))
