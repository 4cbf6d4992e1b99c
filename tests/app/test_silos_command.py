"""``cloister silos`` as a researcher uses it."""

from __future__ import annotations

import json
import math
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from app.outcome import Outcome, Run
from cloister.app import command_line, silos_command
from cloister.app.silos_output import silos_result
from cloister.lab.silos.experiment import MEASURES, Figures, measure_silos
from cloister.lab.silos.settings import SilosSettings
from cloister.lab.silos.training import SYSTEMS
from cloister.privacy.ledger.check import check_ledger
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level

WORLD = "world:clinic?servers=2&organisations=2&pods=40&queries=60&document_bytes=0&staff=8"
SIZES = {"n_training": 8, "n_validation": 5, "n_test": 5}
QUERIES = ("--queries", "8", "--validation-queries", "5", "--test-queries", "5")
PARTIES = ["party-a", "party-b"]


def new_ledger(folder: Path, limits: dict[str, Limit] | None = None) -> str:
    address = str(folder / "ledger.db")
    with Ledger.open(address) as ledger:
        for party, limit in {**dict.fromkeys(PARTIES), **(limits or {})}.items():
            ledger.set_limit(party, limit, purpose="test")
    return address


def ran(*arguments: str) -> Outcome:
    """Run the command once for many tests."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cloister", "silos", WORLD, *QUERIES, *arguments])
        with pytest.raises(SystemExit) as caught:
            command_line.main()
    return Outcome(int(caught.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def exact() -> Outcome:
    return ran("--seeds", "2", "--json")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_ledger(tmp_path_factory.mktemp("silos"))


@pytest.fixture(scope="module")
def released(address: str) -> Outcome:
    return ran("--epsilon", "8", "--delta", "1e-5", "--ledger", address, "--json")


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no work begin."""

    def refuse(*_: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(silos_command, "_trained", refuse)


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((WORLD, "--delta", "1e-6"), "--delta goes with --epsilon"),
        ((WORLD, "--epsilon", "0"), "above 0"),
        ((WORLD, "--epsilon", "2", "--delta", "1"), "between 0 and 1"),
        ((WORLD, "--parties", "3"), "organisations=3"),
        ((WORLD, "--parties", "1"), "--parties"),
        ((WORLD, "--sharing", "random"), "parties of its own"),
        ((WORLD, "--ranker", "neural"), "neural"),
        ((WORLD, "--seeds", "2", "--ledger", "x.db"), "one run"),
        ((WORLD, "--seeds", "0"), "--seeds"),
        ((WORLD, "--queries", "0"), "--queries"),
        (("world:features",), "world:clinic"),
        (("world:clinic?pods=0",), "pods"),
        (("medquad", "--parties", "3"), "4 groups"),
    ],
)
def test_wrong_usage_is_refused_before_the_work(
    call: Run, arguments: tuple[str, ...], said: str
) -> None:
    outcome = call("silos", *arguments, "--json")
    assert outcome.code == 2
    assert said in outcome.json["error"]


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("name", ["nowhere/at-all", "nfcorpus"])
def test_a_missing_collection_is_an_error_with_a_remedy(
    call: Run, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOISTER_DATA", str(tmp_path))
    outcome = call("silos", name, "--json")
    assert outcome.code == 2
    assert "world:clinic" in outcome.json["remedy"]


@pytest.mark.usefixtures("untrained")
def test_a_missing_ledger_is_an_error_before_the_work(call: Run, tmp_path: Path) -> None:
    missing = tmp_path / "none.db"
    outcome = call("silos", WORLD, "--ledger", str(missing), "--json")
    assert outcome.code == 2
    assert "--new" in outcome.json["remedy"]
    assert not missing.exists()


@pytest.mark.usefixtures("untrained")
@pytest.mark.parametrize("level", [Level.TOKEN, Level.USER])
def test_a_party_with_a_limit_refuses_to_hand_rankers_round(
    call: Run, tmp_path: Path, level: Level
) -> None:
    limited = {"party-b": Limit(epsilon=1000.0, delta=1e-6, level=level)}
    address = new_ledger(tmp_path, limited)
    outcome = call("silos", WORLD, "--epsilon", "1", "--ledger", address, "--json")
    assert outcome.code == 1
    assert "party-b" in outcome.json["error"]
    assert "--epsilon none" in outcome.json["remedy"]
    with Ledger.open(address) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["limit"] * 2


@pytest.mark.usefixtures("untrained")
def test_a_party_that_the_ledger_does_not_know_releases_nothing(call: Run, tmp_path: Path) -> None:
    address = str(tmp_path / "ledger.db")
    with Ledger.open(address) as ledger:
        ledger.set_limit("party-a", None, purpose="test")
    outcome = call("silos", WORLD, "--epsilon", "1", "--ledger", address, "--json")
    assert outcome.code == 2
    assert "party-b" in outcome.json["error"]
    assert "--new" in outcome.json["remedy"]


def test_the_figures_are_the_means_of_the_experiment(exact: Outcome) -> None:
    assert exact.code == 0, exact.err
    result = exact.json
    assert result["seeds"] == [1, 2]
    assert set(result["systems"]) == set(SYSTEMS)
    base = SilosSettings(collection="clinic", data=WORLD, n_parties=2, counts="exact", **SIZES)
    measured = [measure_silos(base.model_copy(update={"seed": seed})) for seed in (1, 2)]
    for system in SYSTEMS:
        for kind in (f"{own}{name}" for own in ("", "own_") for name in MEASURES):
            shown = result["systems"][system]
            expected = np.mean([one[system][kind] for one in measured])
            assert shown[kind] == pytest.approx(expected)
            for party in PARTIES:
                expected = np.mean([one[system][f"{kind} {party}"] for one in measured])
                assert shown["parties"][party][kind] == pytest.approx(expected)


def test_exact_counts_cross_without_a_bound(exact: Outcome) -> None:
    crossed = exact.json["crossed"]
    assert crossed["local"]["releases"] == []
    for system in set(SYSTEMS) - {"local"}:
        assert crossed[system]["unbounded"] == PARTIES
    (kind,) = {one["what"] for one in crossed["local-plus"]["releases"]}
    assert kind == "exact counts"
    assert all(one["values"] > 1000 for one in crossed["local-plus"]["releases"])


def test_each_run_says_what_crossed_and_what_it_truly_costs(released: Outcome) -> None:
    assert released.code == 0, released.err
    result = released.json
    kinds = {
        system: {one["what"] for one in crossed["releases"]}
        for system, crossed in result["crossed"].items()
    }
    assert kinds == {
        "local": set(),
        "local-plus": {"sketches"},
        "local-pooled": {"sketches"},
        "global": {"parameters"},
        "cs-f-ltr": {"sketches", "parameters"},
        "cs-f-ltr-tuned": {"sketches", "parameters", "validation figures"},
        "mixture": {"sketches", "parameters"},
    }
    alone = result["crossed"]["local-plus"]
    assert alone["unbounded"] == []
    for one in alone["releases"]:
        assert 7.5 < one["epsilon"] <= 8.0
        assert one["simulated"]
    assert all(8.0 < cost < 16.0 for cost in alone["epsilon"].values())
    federated = result["crossed"]["cs-f-ltr"]
    assert federated["unbounded"] == PARTIES
    assert federated["epsilon"] == dict.fromkeys(PARTIES)  # null: no bound
    assert federated["epsilon_of_sketches"] == alone["epsilon"]


def test_the_ledger_has_what_crossed_marked_as_simulated(released: Outcome, address: str) -> None:
    result = released.json
    expected = result["crossed"]["cs-f-ltr-tuned"]["releases"]
    with Ledger.open(address) as ledger:
        check_ledger(ledger)
        entries = [entry for entry in ledger.entries() if entry.kind != "limit"]
        assert ledger.pending() == []
        real = {party: ledger.cost(party, delta=1e-5, level=Level.TOKEN) for party in PARTIES}
        made_up = ledger.cost(PARTIES[0], delta=1e-5, level=Level.TOKEN, simulated=True)
    assert result["ledger"]["system"] == "cs-f-ltr-tuned"
    assert [entry.number for entry in entries] == result["ledger"]["entries"]
    assert all(cost.epsilon == 0.0 for cost in real.values())
    assert math.isinf(made_up.epsilon)
    told = [
        (entry.party_id, [entry.recipient], entry.purpose.partition(": ")[2]) for entry in entries
    ]
    assert told == [(one["sender"], one["recipients"], one["what"]) for one in expected]
    bodies = [json.loads(entry.body) for entry in entries]
    assert all(body["simulated"] for body in bodies)
    assert [body["mechanism"] for body in bodies] == [one["mechanism"] for one in expected]
    assert {body["mechanism"] for body in bodies} == {"noisy-tables", "none"}


def test_the_cost_of_sketches_is_what_a_ledger_adds_up(
    released: Outcome, address: str, tmp_path: Path
) -> None:
    with Ledger.open(address) as full, Ledger.open(tmp_path / "sketches.db") as alone:
        for entry in full.entries():
            if entry.purpose.endswith("sketches"):
                names = {"party_id": entry.party_id, "recipient": "all", "purpose": ""}
                alone.release(entry.release, b"", **names)
        cost = {
            party: alone.cost(party, delta=1e-5, level=Level.TOKEN, simulated=True).epsilon
            for party in PARTIES
        }
    assert released.json["crossed"]["local-plus"]["epsilon"] == pytest.approx(cost)


def test_significance_is_that_of_scipy_times_the_parties() -> None:
    rng = np.random.default_rng(3)
    repetitions: list[Figures] = []
    for _ in range(6):
        local = {f"own_ndcg@10 {party}": float(rng.random()) for party in PARTIES}
        mixture = {name: value + float(rng.normal(0.05, 0.02)) for name, value in local.items()}
        for one in (local, mixture):
            one["own_ndcg@10"] = float(np.mean(list(one.values())))
        repetitions.append({"local": local, "mixture": mixture})
    settings = SilosSettings(collection="clinic", n_parties=2)
    found = silos_result(settings, repetitions, {})["significance"]
    for party in PARTIES:
        name = f"own_ndcg@10 {party}"
        pairs = [[one[system][name] for one in repetitions] for system in ("mixture", "local")]
        p = stats.ttest_rel(*pairs).pvalue
        assert found["parties"][party]["p_corrected"] == pytest.approx(2 * p)
    assert found["average"]["n"] == 6


def test_one_seed_has_no_significance(released: Outcome) -> None:
    assert released.json["significance"] is None


def test_people_get_tables_and_are_told_what_is_not_protected() -> None:
    outcome = ran("--seeds", "2")
    assert outcome.code == 0, outcome.err
    for said in ("party-b", "CS-F-LTR", "mixture less Local", "no bound", "no guarantee covers"):
        assert said in outcome.out
    assert "reading" in outcome.err
    assert "reading" not in outcome.out


def test_any_beir_folder_can_be_shared_out(call: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = [f"word{i}" for i in range(60)]
    folder = tmp_path / "notes"
    (folder / "qrels").mkdir(parents=True)
    documents = [" ".join(rng.choice(words, 30)) for _ in range(60)]
    lines = [
        json.dumps({"_id": f"d{i}", "title": "", "text": text}) for i, text in enumerate(documents)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    asked = [{"_id": f"q{i}", "text": " ".join(words[i : i + 2])} for i in range(40)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)) + "\n")
    judged = ["query-id\tcorpus-id\tscore", *(f"q{i}\td{i}\t1" for i in range(40))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
    outcome = call(
        "silos", str(folder), "--parties", "2", "--sharing", "random", *QUERIES, "--json"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.json["collection"] == "beir"
    assert outcome.json["parties"] == PARTIES
