"""``cloister vectors`` and searching with word vectors, as people use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.outcome import Run

TINY = ("--min-count", "1", "--size", "8", "--base-epochs", "3", "--epochs", "2")
MODELS = ["w2v-cosine", "w2v-euclidean"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Run) -> Path:
    """Ann's pod and Bob's on two servers; one note of Bob's is public."""
    monkeypatch.setenv("CLOISTER_HOME", str(tmp_path / "home"))
    notes = {
        "ann/visit1.txt": "cough and fever since monday, asthma likely",
        "ann/visit2.txt": "knee pain after running",
        "bob/private.txt": "bob has a secret rash",
        "bob/public.txt": "asthma, cough and fever are common; knee pain too",
    }
    for name, text in notes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert call("pods", "add", str(tmp_path / "ann"), "--owner", "ann").code == 0
    added = call("pods", "add", str(tmp_path / "bob"), "--owner", "bob", "--server", "south")
    assert added.code == 0
    assert call("grant", "bob/public.txt", "--public").code == 0
    return tmp_path


def trained(call: Run, user: str, *options: str) -> dict[str, Any]:
    outcome = call("vectors", "train", "--as", user, *TINY, *options, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json


def searched(call: Run, user: str, *options: str, model: str = "w2v-cosine") -> Any:
    return call("search", "--as", user, "cough", "--model", model, "--json", *options)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("model", MODELS)
def test_a_user_trains_and_finds_what_that_user_may_read(call: Run, model: str) -> None:
    told = trained(call, "ann")
    assert (told["pod"], told["size"], told["form"]) == ("ann", 8, "backed_off")
    outcome = searched(call, "ann", "--explain", model=model)
    assert outcome.code == 0, outcome.err
    results = outcome.json["results"]
    assert {one["doc_id"] for one in results} == {
        "ann/visit1.txt", "ann/visit2.txt", "bob/public.txt"
    }  # fmt: skip
    assert all(one["explanation"]["model"] == model for one in results)
    first = results[0]["explanation"]
    assert sum(part["weight"] for part in first["terms"]) == pytest.approx(first["cosine"])
    assert outcome.json["missing_nodes"] == []


@pytest.mark.usefixtures("home")
def test_one_server_of_two_can_be_chosen(call: Run) -> None:
    trained(call, "ann")
    outcome = searched(call, "ann", "--servers", "1", "--pods", "1")
    assert outcome.code == 0, outcome.err
    assert len(outcome.json["servers_asked"]) == 1


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("form", ["backed_off", "paper", "base"])
def test_every_form_can_be_searched_with(call: Run, form: str) -> None:
    assert trained(call, "ann", "--form", form, "--public")["form"] == form
    assert searched(call, "ann").json["results"]


@pytest.mark.usefixtures("home")
def test_without_vectors_the_error_says_how_to_train(call: Run) -> None:
    outcome = searched(call, "ann")
    assert outcome.code == 2
    assert "no word vectors" in outcome.json["error"]
    assert "cloister vectors train --as ann" in outcome.json["remedy"]


@pytest.mark.usefixtures("home")
def test_another_user_does_not_search_with_them(call: Run) -> None:
    trained(call, "ann")
    for user in ("bob", "eve"):
        outcome = searched(call, user)
        assert outcome.code == 2
        assert "no word vectors" in outcome.json["error"]


@pytest.mark.usefixtures("home")
def test_after_a_grant_or_a_revocation_one_must_train_again(call: Run) -> None:
    trained(call, "ann")
    assert call("grant", "bob/private.txt", "--to", "ann").code == 0
    outcome = searched(call, "ann")
    assert outcome.code == 1
    assert "train again" in outcome.json["remedy"]
    trained(call, "ann")
    assert "bob/private.txt" in {one["doc_id"] for one in searched(call, "ann").json["results"]}
    assert call("revoke", "bob/private.txt", "--from", "ann").code == 0
    assert searched(call, "ann").code == 1


def test_what_others_hide_and_change_asks_for_no_training(call: Run, home: Path) -> None:
    trained(call, "ann")
    before = searched(call, "ann").json
    (home / "bob" / "private.txt").write_text("bob has another cough")
    assert call("pods", "sync").code == 0
    assert searched(call, "ann").json == before


def test_a_file_holds_the_vectors_of_who_owns_no_pod(call: Run, home: Path) -> None:
    refused = call("vectors", "train", "--as", "eve", *TINY, "--json")
    assert refused.code == 2
    assert "owns no folder pod" in refused.json["error"]
    file = home / "eve.vectors"
    trained(call, "eve", "--out", str(file))
    assert file.stat().st_mode & 0o077 == 0
    found = searched(call, "eve", "--vectors", str(file))
    assert [one["doc_id"] for one in found.json["results"]] == ["bob/public.txt"]
    assert searched(call, "ann", "--vectors", str(file)).code == 1  # of other documents


def test_a_base_from_a_file_gives_what_the_public_one_gives(call: Run, home: Path) -> None:
    file = home / "base.vectors"
    options = ("--min-count", "1", "--size", "8", "--epochs", "3", "--out", str(file))
    assert call("vectors", "base", *options, "--json").code == 0
    trained(call, "ann")
    wanted = searched(call, "ann").json
    trained(call, "ann", "--base", str(file))
    assert searched(call, "ann").json == wanted


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "arguments",
    [
        ("vectors", "train", "--as", "ann", "--public", "--base", "x"),
        ("search", "--as", "ann", "cough", "--vectors", "x"),
        ("search", "--as", "ann", "cough", "--model", "w2v-cosine", "--statistics", "global"),
        ("search", "--as", "ann", "cough", "--model", "w2v-cosine", "--selection", "best-impact"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(call: Run, arguments: tuple[str, ...]) -> None:
    assert call(*arguments).code == 2


@pytest.mark.usefixtures("home")
def test_people_get_lines(call: Run) -> None:
    outcome = call("vectors", "train", "--as", "ann", *TINY)
    assert "words of 8 numbers, in pod ann" in outcome.out
    shown = call("search", "--as", "ann", "cough", "--model", "w2v-cosine", "--explain")
    assert "by w2v-cosine" in shown.out
    assert "of the cosine" in shown.out


def test_word_vectors_replace_word_vectors_when_told_so_and_nothing_else(
    call: Run, home: Path
) -> None:
    base, key = home / "base.bin", home / "key"
    key.write_bytes(b"secret")
    command = ("vectors", "base", "--min-count", "1", "--size", "8", "--epochs", "1", "--out")
    train = ("vectors", "train", "--as", "ann", *TINY, "--out")
    assert call(*command, str(base)).code == 0
    for given in (command, train):
        assert call(*given, str(base)).code == 2
        assert call(*given, str(base), "--force").code == 0
        assert call(*given, str(key), "--force").code == 2
    assert key.read_bytes() == b"secret"
