"""``cloister sketch`` as a party uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.outcome import Run
from cloister.core.errors import AccessDenied, CloisterError, Damaged, DataError
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Rights
from cloister.data.beir import open_beir
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.term_counts import count_terms
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.sketch.key_file import read_key, write_key
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import NoisyRelease

KEY = HashKey(bytes(range(32)))
N_DOCUMENTS = 60
WORDS = [f"word{i}" for i in range(40)]


class Home(NamedTuple):
    """A party's folder: a collection, a key, and what is made of them."""

    folder: Path
    texts: list[str]

    @property
    def collection(self) -> str:
        return str(self.folder / "collection")

    @property
    def key(self) -> str:
        return str(self.folder / "hash.key")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    def built(self, call: Run, *options: str) -> str:
        out = self.path("exact.sketch")
        made = call("sketch", "build", self.collection, "--key", self.key, "--out", out, *options)
        assert made.code == 0, made.err
        return out

    def released(self, call: Run, *options: str) -> str:
        out = self.path("noisy.sketch")
        given = options or ("--unrecorded",)
        made = call(*self.release(out, *given))
        assert made.code == 0, made.err
        return out

    def release(self, out: str, *options: str) -> list[str]:
        asked = ["sketch", "release", self.collection, "--key", self.key, "--epsilon", "8"]
        return [*asked, "--memory-mb", "1", "-k", "3", "--out", out, *options]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    rng = stream(5, "documents")
    texts = [" ".join(rng.choice(WORDS, size=50)) for _ in range(N_DOCUMENTS)]
    texts[7] += " asthma" * 300
    texts[9] += " asthma" * 200 + " wheeze" * 250
    texts[11] += " asthma"
    folder = tmp_path / "collection"
    folder.mkdir()
    lines = [json.dumps({"_id": f"note-{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    write_key(tmp_path / "hash.key", KEY)
    return Home(tmp_path, texts)


def _ledger(home: Home, epsilon: float = 10.0) -> tuple[str, ...]:
    address = home.path("ledger.db")
    with Ledger.open(address) as ledger:
        limit = Limit(epsilon=epsilon, delta=1e-6, level=Level.TOKEN)
        ledger.set_limit("clinic", limit, purpose="pilot")
    return ("--ledger", address, "--party", "clinic", "--to", "hospital")


# Keys


def test_a_key_is_made_once_and_only_its_owner_may_read_it(call: Run, tmp_path: Path) -> None:
    path = tmp_path / "k"
    made = call("sketch", "key", str(path), "--json")
    assert made.code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert made.json["key_fingerprint"] == read_key(path).fingerprint
    content = path.read_bytes()
    again = call("sketch", "key", str(path), "--json")
    assert again.code == 2
    assert "already" in again.json["error"]
    assert path.read_bytes() == content
    shown = call("sketch", "key", str(path), "--show")
    assert shown.code == 0
    assert made.json["key_fingerprint"] in shown.out
    secret = read_key(path).secret_bytes().hex()
    assert not any(secret in text for text in (made.out, made.err, shown.out, shown.err))


def test_two_new_keys_differ_and_say_how_parties_agree(call: Run, tmp_path: Path) -> None:
    said = [call("sketch", "key", str(tmp_path / name)) for name in "ab"]
    assert read_key(tmp_path / "a") != read_key(tmp_path / "b")
    assert "key_agreement" in said[0].out


def _flipped(content: bytes) -> bytes:
    return content[:-3] + (b"0" if content[-3:-2] != b"0" else b"1") + content[-2:]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_flipped, Damaged),
        (lambda content: content[:40], Damaged),
        (lambda content: content + b" 00", Damaged),
        (lambda content: b"", DataError),
        (lambda content: b"PEM " + content, DataError),
        (lambda content: content.decode().encode("utf-16"), DataError),
    ],
)
def test_a_spoiled_key_file_is_refused(
    tmp_path: Path, spoil: Callable[[bytes], bytes], error: type[CloisterError]
) -> None:
    path = tmp_path / "k"
    write_key(path, KEY)
    content = spoil(path.read_bytes())
    path.write_bytes(content)
    with pytest.raises(error):
        read_key(path)


def test_a_key_that_others_may_read_is_refused(call: Run, home: Home) -> None:
    Path(home.key).chmod(0o644)
    with pytest.raises(AccessDenied):
        read_key(home.key)
    out = home.path("a")
    refused = call("sketch", "build", home.collection, "--key", home.key, "--out", out, "--json")
    assert refused.code == 1
    assert "chmod 600" in refused.json["remedy"]
    assert not Path(out).exists()


# Exact sketches


def test_a_built_sketch_says_its_size_and_that_it_stays_at_home(call: Run, home: Home) -> None:
    out = home.path("exact.sketch")
    build = ("sketch", "build", home.collection, "--key", home.key, "--out", out)
    made = call(*build, "--rows", "3", "--columns", "100", "--cell-size", "5", "--json").json
    counts = count_terms(home.texts)
    assert made["kind"] == "rtk-sketch"
    assert made["protected"] is False
    assert made["documents"] == N_DOCUMENTS
    assert made["terms"] == counts.n_terms
    assert made["tokens"] == counts.n_tokens
    assert made["per_document_sketches_bytes"] == N_DOCUMENTS * 300 * 2
    assert made["size_bytes"] == 300 * 2 * ((5 + made["slack"]) * 6 + 6)
    assert made["size_bytes"] < made["file_bytes"] == Path(out).stat().st_size
    assert made["build_seconds"] > 0
    said = call(*build, "--force").out
    assert "stays at home" in said
    assert "per-document sketches" in said
    assert Path(out).stat().st_mode & 0o077 == 0


def test_a_query_of_an_exact_sketch_finds_the_true_counts(call: Run, home: Home) -> None:
    sketch = home.built(call)
    for word in ("word3", "asthma"):
        found = call("sketch", "query", sketch, word, "--key", home.key, "-k", "4", "--json").json
        exact = Counter({i: text.split().count(word) for i, text in enumerate(home.texts)})
        results = {line["document"]: line["counts"][0] for line in found["results"]}
        assert results == {i: exact[i] for i in results}
        assert list(results.values()) == [n for _, n in exact.most_common(4) if n]
        assert [line["doc_id"] for line in found["results"]] == [f"note-{i}" for i in results]


def test_several_terms_are_added_up(call: Run, home: Home) -> None:
    sketch = home.built(call)
    found = call("sketch", "query", sketch, "Asthma, wheeze", "--key", home.key, "--json").json
    assert found["terms"] == ["asthma", "wheeze"]
    first, second = found["results"][:2]
    assert (first["doc_id"], first["score"], first["counts"]) == ("note-9", 450, [200, 250])
    assert (second["doc_id"], second["score"], second["counts"]) == ("note-7", 300, [300, 0])
    assert first["stands_out"]


def test_a_term_that_occurs_nowhere_is_met_with_no_documents(call: Run, home: Home) -> None:
    sketch = home.built(call)
    found = call("sketch", "query", sketch, "zebra", "--key", home.key)
    assert found.code == 0
    assert "No document has zebra" in found.out


@pytest.mark.parametrize("kind", ["count-sketch", "count-min"])
def test_tables_of_counts_tell_how_often_a_term_occurs(call: Run, home: Home, kind: str) -> None:
    sketch = home.built(call, "--kind", kind)
    found = call("sketch", "query", sketch, "asthma", "zebra", "--key", home.key, "--json").json
    assert found["kind"] == kind
    assert {one["term"]: one["count"] for one in found["counts"]} == {"asthma": 501, "zebra": 0}
    assert "stays at home" in call("sketch", "show", sketch).out


def test_documents_are_added_and_deleted(call: Run, home: Home, tmp_path: Path) -> None:
    sketch = home.built(call, "--cell-size", "10")
    query = ("sketch", "query", sketch, "asthma", "--key", home.key, "--json")
    before = call(*query).json["results"]
    more = tmp_path / "more.jsonl"
    more.write_text('{"_id": "new", "text": "asthma asthma word1"}')
    added = call("sketch", "add", sketch, str(more), "--key", home.key, "--json").json
    assert added["added"] == ["new"]
    assert added["documents"] == N_DOCUMENTS + 1
    assert {r["doc_id"]: r["counts"] for r in call(*query).json["results"]}["new"] == [2]
    twice = call("sketch", "add", sketch, str(more), "--key", home.key, "--json")
    assert twice.code == 1
    assert "already" in twice.json["error"]
    deleted = call("sketch", "delete", sketch, "--number", str(N_DOCUMENTS), "--json").json
    assert deleted["removed"] == ["new"]
    assert deleted["needs_rebuild"] is False
    assert call(*query).json["results"] == before


def test_many_deletions_call_for_a_rebuild(call: Run, home: Home) -> None:
    sketch = home.built(call, "--cell-size", "10")
    names = [f"note-{i}" for i in range(40)]
    said = call("sketch", "delete", sketch, *names)
    assert said.code == 0
    assert "build it anew" in said.out
    assert call("sketch", "show", sketch, "--json").json["needs_rebuild"] is True
    missing = call("sketch", "delete", sketch, "note-50", "note-3", "--json")
    assert missing.code == 2
    assert "note-3" in missing.json["error"]
    assert call("sketch", "show", sketch, "--json").json["documents"] == N_DOCUMENTS - 40


# Releases


def test_a_release_is_recorded_and_found_again(call: Run, home: Home) -> None:
    out = home.path("noisy.sketch")
    options = _ledger(home)
    made = call(*home.release(out, *options, "--max-length", "400", "--json")).json
    assert made["epsilon"] <= 8
    assert made["protected"] is True
    assert made["level"] == "token"
    assert made["epsilon_document"] > 400
    assert made["size_bytes"] <= 1_000_000
    with Ledger.open(options[1]) as ledger:
        cost = ledger.cost("clinic", delta=1e-6, level=Level.TOKEN).epsilon
        entry = ledger.entries(party_id="clinic")[-1]
        assert ledger.pending() == []
    assert cost == pytest.approx(made["epsilon"])
    assert entry.number == made["ledger"]["entry"]
    assert (entry.recipient, entry.purpose) == ("hospital", "noisy sketch of body")
    content = Path(out).read_bytes()
    assert KEY.secret_bytes() not in content
    assert NoisyRelease.from_bytes(content).epsilon() == made["epsilon"]
    found = call("sketch", "query", out, "asthma", "--key", home.key, "-k", "2", "--json").json
    assert found["epsilon"] == made["epsilon"]
    assert [line["document"] for line in found["results"]] == [7, 9]
    assert [line["doc_id"] for line in found["results"]] == [None, None]
    assert abs(found["results"][0]["counts"][0] - 300) < 40


def test_a_release_is_told_to_people_with_its_true_cost(call: Run, home: Home) -> None:
    said = call(*home.release(home.path("n"), *_ledger(home))).out
    for words in ("true cost: epsilon", "one token more or less", "a whole document: no bound",
                  "clinic to hospital"):  # fmt: skip
        assert words in said
    shown = call("sketch", "show", home.path("n")).out
    assert "all checksums match" in shown
    assert "true cost: epsilon" in shown


def test_a_release_over_the_limit_writes_nothing(call: Run, home: Home) -> None:
    options = _ledger(home, epsilon=7.0)
    before = home.files
    refused = call(*home.release(home.path("n"), *options, "--json"))
    assert refused.code == 1
    assert "epsilon" in refused.json["error"]
    assert home.files == before
    with Ledger.open(options[1]) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["limit"]


@pytest.mark.parametrize("more", [(), ("--seed", "1")])
def test_a_party_that_is_misspelt_is_wrong_usage(
    call: Run, home: Home, more: tuple[str, ...]
) -> None:
    address = _ledger(home)[1]
    named = ("--ledger", address, "--party", "clinc", "--to", "hospital")
    refused = call(*home.release(home.path("n"), *named, *more, "--json"))
    assert refused.code == 2
    assert "limits for: clinic" in refused.json["error"]
    with Ledger.open(address) as ledger:
        assert ledger.parties() == ["clinic"]


def test_a_second_release_of_the_same_notes_costs_again(call: Run, home: Home) -> None:
    options = _ledger(home, epsilon=9.0)
    assert call(*home.release(home.path("one"), *options)).code == 0
    again = call(*home.release(home.path("two"), *options, "--json"))
    assert again.code == 1
    assert not Path(home.path("two")).exists()


def test_what_leaves_without_a_record_is_wrong_usage(call: Run, home: Home) -> None:
    for options in ((), _ledger(home)[:4], _ledger(home)[2:]):
        refused = call(*home.release(home.path("n"), *options, "--json"))
        assert refused.code == 2
        assert "recorded" in refused.json["error"]
    assert not Path(home.path("n")).exists()
    kept = call(*home.release(home.path("n"), "--unrecorded"))
    assert kept.code == 0
    assert "keep it at home" in kept.out


def test_a_seeded_release_says_that_it_protects_nobody(call: Run, home: Home) -> None:
    said = call(*home.release(home.path("one"), "--seed", "3"))
    assert "protects nobody" in said.out
    two = call(*home.release(home.path("two"), "--seed", "3", "--json")).json
    assert two["protected"] is False
    assert Path(home.path("one")).read_bytes() == Path(home.path("two")).read_bytes()
    asked = call("sketch", "query", home.path("one"), "asthma", "--key", home.key)
    assert "protects nobody" in asked.out


def test_real_releases_differ_from_each_other(call: Run, home: Home) -> None:
    one = Path(home.released(call)).read_bytes()
    assert Path(home.released(call, "--unrecorded", "--force")).read_bytes() != one


def test_bm25_reads_lengths_and_frequencies_of_a_release(call: Run, home: Home) -> None:
    noisy = home.released(call)
    query = ("wheeze", "asthma", "--key", home.key, "--score", "bm25", "-k", "2", "--json")
    found = call("sketch", "query", noisy, *query).json
    assert found["results"][0]["document"] == 9
    exact = call("sketch", "query", home.built(call), *query)
    assert exact.code == 1
    assert "--score counts" in exact.json["remedy"]


def test_an_owner_sees_the_ids_of_its_release(call: Run, home: Home, tmp_path: Path) -> None:
    noisy = home.released(call)
    query = ("sketch", "query", noisy, "asthma", "--key", home.key, "-k", "1", "--json", "--ids")
    assert call(*query, home.collection).json["results"][0]["doc_id"] == "note-7"
    other = call(*query, "world:clinic?servers=1&pods=2&organisations=1")
    assert other.code == 1
    assert f"where {N_DOCUMENTS} were sketched" in other.json["error"]


_KILLED = """
import os, pathlib, signal, sys
import cloister.store.array_file, cloister.sketch.noisy_release
from cloister.app.command_line import main
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
{patch} = die
sys.argv = ["cloister", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("patch", "n_entries"),
    [
        ("cloister.sketch.noisy_release._noisy_lists", 0),
        ("os.fsync", 0),
        ("pathlib.Path.replace", 1),
    ],
    ids=["while noise is added", "while the file is written", "before it has its name"],
)
def test_a_killed_release_leaves_no_file(call: Run, home: Home, patch: str, n_entries: int) -> None:
    options = _ledger(home, epsilon=21.0)
    out = home.path("noisy.sketch")
    command = [sys.executable, "-c", _KILLED.format(patch=patch), *home.release(out, *options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not Path(out).exists()
    with Ledger.open(options[1]) as ledger:
        assert len(ledger.pending(party_id="clinic")) == n_entries  # its cost counts all the same
        assert len(ledger.entries(party_id="clinic")) == 1 + n_entries
    assert call(*home.release(out, *options)).code == 0
    assert call("sketch", "show", out, "--json").json["checksums"] == "match"
    assert list(Path(home.folder, ".incoming").iterdir()) == []


def test_a_file_that_cannot_be_written_costs_nothing(
    call: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    options = _ledger(home)
    monkeypatch.setattr("os.fsync", full)
    refused = call(*home.release(home.path("n"), *options, "--json"))
    assert refused.code == 1
    assert "No space left" in refused.json["error"]
    assert "cost counts" not in refused.json["error"]
    assert not Path(home.path("n")).exists()
    with Ledger.open(options[1]) as ledger:
        assert [entry.kind for entry in ledger.entries()] == ["limit"]
    monkeypatch.undo()
    assert call(*home.release(home.path("n"), *options)).code == 0


def test_a_file_that_does_not_get_its_name_is_told_with_its_entry(
    call: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    options = _ledger(home)
    monkeypatch.setattr(Path, "replace", refuse)
    refused = call(*home.release(home.path("n"), *options, "--json"))
    assert refused.code == 1
    assert "Permission denied" in refused.json["error"]
    assert "entry 2 of the ledger stays and its cost counts" in refused.json["error"]
    assert not Path(home.path("n")).exists()
    with Ledger.open(options[1]) as ledger:
        assert [entry.number for entry in ledger.pending(party_id="clinic")] == [2]


def test_a_release_refused_when_it_is_recorded_leaves_nothing(
    call: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.app.sketch_release._refuse_early", lambda *given: None)
    refused = call(*home.release(home.path("n"), *_ledger(home, epsilon=7.0), "--json"))
    assert refused.code == 1
    assert not Path(home.path("n")).exists()
    assert list(Path(home.folder, ".incoming").iterdir()) == []


def test_cutting_is_told_with_what_a_token_then_costs(call: Run, home: Home) -> None:
    said = call(*home.release(home.path("n"), *_ledger(home), "--max-length", "40"))
    assert "one token more, less or changed" in said.out
    plain = call(*home.release(home.path("p"), "--unrecorded", "--json")).json
    cut = call("sketch", "show", home.path("n"), "--json").json
    assert cut["neighbours"] == "replace"
    assert cut["epsilon"] <= 8
    assert (
        cut["sigma"]["cells"]
        > 1.9 * plain["sigma"]["cells"] * (cut["n_rows"] / plain["n_rows"]) ** 0.5
    )


@pytest.mark.parametrize("seed", [str(1 << 64), "-1"])
def test_a_seed_that_is_no_word_is_wrong_usage(call: Run, home: Home, seed: str) -> None:
    assert call(*home.release(home.path("n"), "--seed", seed, "--json")).code == 2


def test_too_small_an_epsilon_is_refused_by_its_name(call: Run, home: Home) -> None:
    given = home.release(home.path("n"), "--unrecorded", "--json")
    given[given.index("8")] = "0.0001"
    refused = call(*given)
    assert refused.code == 2
    assert "epsilon" in refused.json["error"]
    assert "raise epsilon to" in refused.json["remedy"]


# Wrong input


def test_no_force_replaces_a_key(call: Run, home: Home) -> None:
    before = Path(home.key).read_bytes()
    build = ("sketch", "build", home.collection, "--key", home.key, "--out", home.key)
    refused = call(*build, "--force", "--json")
    assert refused.code == 2
    assert "something else" in refused.json["error"]
    assert Path(home.key).read_bytes() == before


def test_no_force_replaces_a_file_of_a_search_index(call: Run, home: Home) -> None:
    folder = home.folder / "index"
    with Shard.open(folder, server_id=ServerId("clinic")) as shard:
        shard.add([IndexedDocument(DocId("d1"), PodId("p1"), "cough", Rights(AgentId("ann")))])
        shard.commit()
    files = [path for path in folder.iterdir() if path.is_file() and path.name != "LOCK"]
    assert len(files) == 2  # a segment, and the commit that names it
    for file in files:
        before = file.read_bytes()
        build = ("sketch", "build", home.collection, "--key", home.key, "--out", str(file))
        for given in (build, home.release(str(file), "--unrecorded")):
            refused = call(*given, "--force", "--json")
            assert refused.code == 2
            assert "something else" in refused.json["error"]
        assert file.read_bytes() == before


def test_force_replaces_a_sketch_whose_arrays_are_damaged_and_no_file_that_is_cut_off(
    call: Run, home: Home
) -> None:
    sketch = Path(home.built(call))
    content = sketch.read_bytes()
    build = ("sketch", "build", home.collection, "--key", home.key, "--out", str(sketch), "--force")
    sketch.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert call(*build).code == 0
    assert sketch.read_bytes() == content
    sketch.write_bytes(content[:-1])  # what it is, is not read from such a file
    refused = call(*build, "--json")
    assert refused.code == 2
    assert "remove the file" in refused.json["remedy"]
    assert sketch.read_bytes() == content[:-1]


def test_an_existing_file_is_replaced_by_force_only(call: Run, home: Home) -> None:
    sketch = home.built(call)
    content = Path(sketch).read_bytes()
    build = ("sketch", "build", home.collection, "--key", home.key, "--rows", "2", "--out", sketch)
    refused = call(*build, "--json")
    assert refused.code == 2
    assert "--force" in refused.json["remedy"]
    assert call(*home.release(sketch, "--unrecorded")).code == 2
    assert Path(sketch).read_bytes() == content
    assert call(*build, "--force").code == 0
    assert call("sketch", "show", sketch, "--json").json["n_rows"] == 2


def test_another_key_is_refused_with_both_fingerprints(call: Run, home: Home) -> None:
    other = home.path("other.key")
    write_key(other, HashKey(bytes(32)))
    more = Path(home.path("more.jsonl"))
    more.write_text('{"_id": "new", "text": "asthma"}')
    exact, noisy = home.built(call), home.released(call)
    for arguments in (("query", exact, "x1"), ("query", noisy, "x1"), ("add", exact, str(more))):
        refused = call("sketch", *arguments, "--key", other, "--json")
        assert refused.code == 1
        assert KEY.fingerprint in refused.json["error"]
        assert HashKey(bytes(32)).fingerprint in refused.json["error"]


def test_damaged_and_foreign_files_are_refused_with_the_reason(call: Run, home: Home) -> None:
    for name in (home.built(call), home.released(call)):
        content = bytearray(Path(name).read_bytes())
        content[len(content) // 2] ^= 1
        Path(name).write_bytes(content)
        for arguments in (("show", name), ("query", name, "asthma", "--key", home.key)):
            refused = call("sketch", *arguments, "--json")
            assert refused.code == 1
            assert "checksum" in refused.json["error"]
        Path(name).write_bytes(content[:-1])
        assert "cut off" in call("sketch", "show", name, "--json").json["error"]
    foreign = call("sketch", "show", home.key, "--json")
    assert foreign.code == 1
    assert "not a sketch file" in foreign.json["error"]
    assert call("sketch", "show", home.path("nowhere"), "--json").code == 2


def test_a_release_cannot_be_changed(call: Run, home: Home) -> None:
    noisy = home.released(call)
    refused = call("sketch", "delete", noisy, "note-1", "--json")
    assert refused.code == 1
    assert "new release" in refused.json["remedy"]


def _empty(home: Home) -> str:
    Path(home.collection, "corpus.jsonl").write_text("")
    return home.collection


@pytest.mark.parametrize(
    ("collection", "field", "code", "said"),
    [
        (lambda home: home.collection, "title", 1, "no document has a word in its title"),
        (_empty, "body", 1, "no documents"),
        (lambda home: home.path("nowhere"), "body", 2, "no such folder"),
        (lambda home: "world:features?queries=2", "body", 2, "no texts"),
        (lambda home: str(home.folder), "body", 2, "no text collection of a known layout"),
    ],
)
def test_collections_without_texts_are_refused(
    call: Run, home: Home, collection: Callable[[Home], str], field: str, code: int, said: str
) -> None:
    options = ("--key", home.key, "--out", home.path("a"), "--field", field, "--json")
    for command in (("build",), ("release", "--epsilon", "1", "--unrecorded")):
        refused = call("sketch", *command, collection(home), *options)
        assert refused.code == code
        assert said in refused.json["error"]
        assert refused.json["remedy"]
    assert not Path(home.path("a")).exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "f", "asthma", "--key", "k", "-k", "0"),
        ("query", "f", "--key", "k"),
        ("build", "c", "--key", "k"),
        ("build", "c", "--key", "k", "--out", "o", "--rows", "0"),
        ("release", "c", "--key", "k", "--out", "o", "--unrecorded"),
        ("release", "c", "--key", "k", "--out", "o", "--epsilon", "0", "--unrecorded"),
        ("release", "c", "--key", "k", "--out", "o", "--epsilon", "nan", "--unrecorded"),
        ("release", "c", "--key", "k", "--out", "o", "--epsilon", "1", "--delta", "1"),
        ("delete", "f"),
    ],
)
def test_wrong_usage_has_exit_code_two(call: Run, arguments: tuple[str, ...]) -> None:
    refused = call("sketch", *arguments, "--json")
    assert refused.code == 2
    assert set(refused.json) == {"error", "remedy"}


def test_stop_words_and_missing_folders_are_said(call: Run, home: Home) -> None:
    none = call("sketch", "query", home.built(call), "the", "--key", home.key, "--json")
    assert none.code == 2
    assert "stop words" in none.json["error"]
    out = home.path("no/such/folder/a")
    lost = call("sketch", "build", home.collection, "--key", home.key, "--out", out, "--json")
    assert lost.code == 2
    assert "make the folder" in lost.json["remedy"]


def test_too_little_memory_is_told_with_what_is_needed(call: Run, home: Home) -> None:
    release = home.release(home.path("n"), "--unrecorded", "--json")
    release[release.index("--memory-mb") + 1] = "0.001"
    release[release.index("-k") + 1] = "50"
    refused = call(*release)
    assert refused.code == 2
    assert "allow at least" in refused.json["remedy"]


def test_titles_of_a_real_collection_are_sketched(
    call: Run, home: Home, real_data: Callable[[str], Path]
) -> None:
    folder = str(real_data("text/cranfield"))
    sketch = home.path("titles")
    build = ("sketch", "build", folder, "--key", home.key, "--out", sketch, "--field", "title")
    assert call(*build, "--json").json["documents"] == 1400
    query = ("sketch", "query", sketch, "supersonic", "--key", home.key, "--json")
    found = {line["doc_id"]: line["counts"][0] for line in call(*query).json["results"]}
    titles = {str(document.doc_id): document.title for document in open_beir(folder).documents}
    assert len(found) == 10
    words = {name: TextAnalysis().terms(titles[name]) for name in found}
    assert found == {name: words[name].count("supersonic") for name in found}


def test_a_real_collection_without_titles_says_so(
    call: Run, home: Home, real_data: Callable[[str], Path]
) -> None:
    folder = str(real_data("text/med"))
    build = ("sketch", "build", folder, "--key", home.key, "--out", home.path("t"))
    refused = call(*build, "--field", "title", "--json")
    assert refused.code == 1
    assert "--field body" in refused.json["remedy"]
