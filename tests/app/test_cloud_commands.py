"""``cloister cloud`` as a client and a server use it, each a program of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from app.outcome import Run
from cloister.app.cloud_collection import open_collection
from cloister.app.demo.cloud import rank_privately
from cloister.app.demo.state import DemoState
from cloister.app.demo.story import STEPS
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker import N_SOFT_FEATURES, PrivateRanker, PrivateRankingSettings
from cloister.cloud.private_ranker_file import load_private_ranker, save_private_ranker
from cloister.cloud.ranking_keys import find_keys
from cloister.cloud.served_features import ServedFeatures, served_scores
from cloister.index.analysis import TextAnalysis
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.private_file import write_private_file
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings, DocumentKernels
from cloister.rank.cooccurrence_embedding import CooccurrenceSettings, cooccurrence_embedding
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.proximity_features import TermSequences

TOKEN = "a-token-for-the-tests-of-the-commands"
SUBJECTS = (
    ["cough", "fever", "throat", "cold", "sneeze", "tonsil", "mucus"],
    ["heart", "pressure", "pulse", "artery", "stroke", "vein", "chest"],
    ["knee", "bone", "joint", "fracture", "hip", "tendon", "ankle"],
)
COMMON = ["patient", "visit", "doctor", "week", "clinic", "report", "review"]
N_DOCUMENTS = 60


class Home(NamedTuple):
    """A client's folder: a collection, a model, and what is built of them."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def build(self) -> list[str]:
        return ["cloud", "build", "--data", self.path("data"), "--model", self.path("model")]

    def asking(self, query: str, server: str, *options: str) -> list[str]:
        files = ["--client", self.path("client"), "--token-file", self.path("token")]
        return ["cloud", "search", query, *files, "--server", server, *options]


def write_collection(folder: Path) -> None:
    """A collection in BEIR's layout: documents of three subjects, queries of two words."""
    rng = np.random.default_rng(5)
    documents, queries, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for number in range(N_DOCUMENTS):
        others = SUBJECTS[int(rng.integers(3))]
        words = [*rng.choice(SUBJECTS[number % 3], 20), *rng.choice(others, 4)]
        words += rng.choice(COMMON, 12).tolist()
        text = " ".join(rng.permutation(words))
        documents.append(json.dumps({"_id": f"d{number}", "title": "", "text": text}))
    for number in range(15):
        words = rng.choice(SUBJECTS[number % 3], 2, replace=False)
        queries.append(json.dumps({"_id": f"q{number}", "text": " ".join(words)}))
        judged += [f"q{number}\td{one}\t1" for one in range(number % 3, N_DOCUMENTS, 3)]
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("\n".join(documents) + "\n")
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")


def untrained(data: str) -> PrivateRanker:
    """A ranker that needs no torch; its weights are made up."""
    texts = TermSequences.of(
        TextAnalysis().terms(one.text) for one in open_collection(data).documents
    )
    embedding = cooccurrence_embedding(texts, CooccurrenceSettings(size=8, min_count=1))
    neural = NeuralRanker.initial(CKnrmStar(CKnrmStarSettings(n_filters=8)), embedding)
    weights = np.random.default_rng(0).normal(size=N_SOFT_FEATURES)
    settings = PrivateRankingSettings(features=None, min_phrase_documents=2)
    return PrivateRanker(neural, KernelRanker(weights), None, settings)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("client"))
    write_collection(made.folder / "data")
    save_private_ranker(untrained(made.path("data")), made.path("model"))
    write_private_file(made.path("token"), TOKEN.encode())
    return made


@pytest.fixture(scope="module")
def built(home: Home) -> Home:
    """The home with an index and the client's file, built by the command."""
    code = "from cloister.app.command_line import main; main()"
    command = [sys.executable, "-c", code, *home.build]
    command += ["--client", home.path("client"), "--out", home.path("index"), "--with-texts"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "holds the keys: whoever has it reads the index" in done.stdout
    return home


@pytest.fixture(scope="module")
def server(built: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server, which is a program of its own and has the index."""
    folder = tmp_path_factory.mktemp("server")
    code = "from cloister.app.command_line import main; main()"
    command = [sys.executable, "-c", code, "cloud", "serve", str(folder / "indexes"), "--json"]
    command += ["--token-file", built.path("token"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        upload = [sys.executable, "-c", code, "cloud", "upload", built.path("index")]
        upload += ["--server", told["address"], "--token-file", built.path("token"), "--json"]
        done = subprocess.run(upload, capture_output=True, text=True, check=True)
        sent = json.loads(done.stdout)
        assert sent["bytes"] == Path(built.path("index")).stat().st_size
        assert sent["ledger"] is None
        yield told["address"]
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""  # one object and nothing else


def test_the_index_tells_counts_and_the_two_files_belong_to_their_owner(
    built: Home, call: Run
) -> None:
    shown = call("cloud", "show", built.path("index"), "--json").json
    index = PrivateIndex.open(built.path("index"))
    assert shown["documents"] == N_DOCUMENTS
    assert shown["boxes"] == index.n_boxes > 28
    assert shown["bytes_per_document"] == shown["bytes"] / N_DOCUMENTS
    assert shown["has_texts"]
    assert shown["text_bytes_total"] > 0
    assert Path(built.path("client")).stat().st_mode & 0o077 == 0
    content = Path(built.path("index")).read_bytes()
    assert not any(word.encode() in content for word in ("cough", "fracture"))
    text = call("cloud", "show", built.path("index"))
    assert "Until a query comes, that is all the server sees" in text.out


def test_building_reports_sizes_closures_and_deniability(
    home: Home, call: Run, tmp_path: Path
) -> None:
    made = call(
        *home.build, "--client", str(tmp_path / "c"), "--out", str(tmp_path / "i"), "--json"
    ).json
    assert made["words"] == sum(map(len, SUBJECTS)) + len(COMMON)
    assert made["closure_size_smallest"] >= 5
    held = made["closure_documents"]  # (closure, document): log2(2^p - 1) bits each, p >= 5
    assert made["log2_deniability"] > held * np.log2(2**5 - 1) - 1e-6
    assert made["trees"] == "none"
    assert not made["has_texts"]
    assert made["bytes"] == (tmp_path / "i").stat().st_size


def test_search_through_the_server_gives_the_plain_ranking(
    built: Home, server: str, call: Run
) -> None:
    found = call(*built.asking("cough fever", server, "-k", "60", "--text", "--json")).json
    ranker = load_private_ranker(built.path("model"))
    documents = open_collection(built.path("data")).documents
    terms = [TextAnalysis().terms(one.text) for one in documents]
    texts = TermSequences.of(terms)
    served = ServedFeatures(
        DocumentKernels.of(ranker.neural, terms),
        None,
        find_keys(texts, ranker.neural.embedding, ranker.settings),
        ranker.settings,
    )
    plain = served_scores(ranker, served, ["cough", "fever"], np.arange(N_DOCUMENTS))
    by_id = {one.doc_id: (score, one.text) for one, score in zip(documents, plain, strict=True)}
    results = found["results"]
    assert results
    for one in results:
        score, text = by_id[one["doc_id"]]
        assert one["score"] == pytest.approx(score, abs=1e-9)
        assert one["text"] == text
    scores = [one["score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    assert found["unknown_terms"] == []


def test_a_trace_says_what_the_boxes_hold_only_with_the_index(
    built: Home, server: str, call: Run
) -> None:
    sent = call(*built.asking("cough fever zebra", server, "--trace", "--json")).json
    kinds = [box["kind"] for box in sent["trace"]["boxes"]]
    assert kinds[:3] == ["model", "word", "word"]
    assert sent["trace"]["n_terms"] == 3
    assert not sent["trace"]["opened"]
    assert sent["unknown_terms"] == ["zebra"]
    opened = call(
        *built.asking("cough fever zebra", server, "--index", built.path("index"), "--json")
    ).json["trace"]
    assert [box["label"] for box in opened["boxes"]] == [
        box["label"] for box in sent["trace"]["boxes"]
    ]
    word = opened["boxes"][1]
    assert word["levels"] == 20 * word["documents"] > 0
    assert word["codes"] == 0
    assert opened["counts"]["n_words"] == 2
    assert opened["texts_fetched"] == 0
    both = call(*built.asking("cough", server, "--trace", "--text", "-k", "3", "--json")).json
    assert both["trace"]["texts_fetched"] == 3
    shown = call(*built.asking("cough fever", server, "--trace"))
    assert "what the server saw of this query" in shown.out
    assert "cough" not in shown.out


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "no words to search for"),
        ("the of and", "no words to search for"),
        ("zebra", "no document has: zebra"),
    ],
)
def test_a_query_without_known_words_is_told_and_nothing_is_sent(
    built: Home, call: Run, query: str, said: str
) -> None:
    found = call(*built.asking(query, "http://127.0.0.1:9", "--json"))  # nobody listens there
    assert found.code == (1 if query == "zebra" else 2)
    assert said in found.json["error"]
    assert found.json["remedy"]


def test_wrong_files_tokens_and_servers_are_plain_errors(
    built: Home, server: str, call: Run, tmp_path: Path
) -> None:
    def refused(*arguments: str, code: int = 1) -> str:
        found = call(*arguments, "--json")
        assert (found.code, arguments) == (code, arguments)
        assert found.json["remedy"]
        assert "defect" not in found.err
        return str(found.json["error"])

    search = ["cloud", "search", "cough", "--server", server]
    token, client = ["--token-file", built.path("token")], ["--client", built.path("client")]
    assert "no such" in refused(*search, *token, "--client", str(tmp_path / "none"), code=2)
    assert built.path("index") in refused(*search, *token, "--client", built.path("index"))
    write_private_file(tmp_path / "wrong", b"another-token-of-the-right-length")
    assert "token is missing or wrong" in refused(
        *search, *client, "--token-file", str(tmp_path / "wrong")
    )
    away = built.asking("cough", "http://127.0.0.1:9")
    assert "does not answer" in refused(*away)
    assert "neither https" in refused(*built.asking("cough", "http://index.example"), code=2)
    assert "no such" in refused("cloud", "show", str(tmp_path / "none"), code=2)
    assert refused("cloud", "show", built.path("client"))
    other = ["--client", str(tmp_path / "c"), "--out", str(tmp_path / "i")]
    assert call(*built.build, *other).code == 0
    strange = ["--client", str(tmp_path / "c"), *token]
    assert "no such index" in refused(*search, *strange, code=2)
    assert "another index" in refused(*search, *token, *client, "--index", str(tmp_path / "i"))
    sent = call("cloud", "upload", str(tmp_path / "i"), "--server", server, *token)
    assert sent.code == 0
    assert "no text" in refused(*search, *strange, "--text", code=2)


def test_files_that_are_there_are_kept_unless_they_may_be_replaced(
    home: Home, call: Run, tmp_path: Path
) -> None:
    client, out = tmp_path / "client", tmp_path / "index"
    targets = ["--client", str(client), "--out", str(out)]
    assert call(*home.build, *targets).code == 0
    before = ClientDictionary.load(client).index_id
    again = call(*home.build, *targets, "--json")
    assert again.code == 2
    assert "add --force" in again.json["remedy"]
    assert ClientDictionary.load(client).index_id == before
    assert call(*home.build, *targets, "--force").code == 0
    replaced = ClientDictionary.load(client).index_id
    assert replaced != before
    assert PrivateIndex.open(out).index_id == replaced
    (tmp_path / "letter").write_text("not ours")
    strange = ["--client", str(tmp_path / "letter"), "--out", str(out)]
    assert "not replaced" in call(*home.build, *strange, "--force", "--json").json["error"]
    assert (tmp_path / "letter").read_text() == "not ours"
    one = ["--client", str(tmp_path / "x"), "--out", str(tmp_path / "x")]
    assert "two files" in call(*home.build, *one, "--json").json["error"]


def test_an_upload_goes_on_the_ledger_once_and_a_limit_refuses_it(
    built: Home, server: str, call: Run, tmp_path: Path
) -> None:
    address = str(tmp_path / "ledger.db")
    with Ledger.open(address) as ledger:
        ledger.set_limit("careful", Limit(epsilon=3.0, delta=1e-6), purpose="pilot")
        ledger.set_limit("clinic-a", None, purpose="the cloud gets what has no bound")
    token = ["--token-file", built.path("token"), "--ledger", address, "--json"]
    upload = ["cloud", "upload", built.path("index")]
    refused = call(*upload, "--server", server, *token, "--party", "careful")
    assert refused.code == 1
    assert "careful" in refused.json["error"]
    to = ["--party", "clinic-a", "--to", "the-cloud"]
    lost = call(*upload, "--server", "http://127.0.0.1:9", *token, *to)
    assert lost.code == 1
    sent = call(*upload, "--server", server, *token, *to)
    assert sent.code == 0
    with Ledger.open(address, create=False) as ledger:
        _, entry = ledger.entries(party_id="clinic-a")  # the lost one was sent again
        assert entry.recipient == "the-cloud"
        assert entry.number == sent.json["ledger"]["entry"]
        assert "Not differentially private" in entry.body
        assert ledger.pending() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "need TLS"),
        (["--tls-key", "k"], "go together"),
        (["--port", "70000"], "70000"),
    ],
)
def test_a_server_without_tls_beyond_this_machine_is_wrong_usage(
    call: Run, tmp_path: Path, options: list[str], said: str
) -> None:
    started = call("cloud", "serve", str(tmp_path), "--token-file", "t", *options, "--json")
    assert started.code == 2
    assert said in started.json["error"]


def test_a_server_needs_a_token_that_others_cannot_read(call: Run, tmp_path: Path) -> None:
    (tmp_path / "open").write_text(TOKEN)
    (tmp_path / "open").chmod(0o644)
    write_private_file(tmp_path / "short", b"short")
    for name, said in (("none", "no such"), ("open", "others may"), ("short", "at least 16")):
        token = ["--token-file", str(tmp_path / name)]
        started = call("cloud", "serve", str(tmp_path / "s"), *token, "--port", "0", "--json")
        assert started.code == (1 if name == "open" else 2)
        assert said in started.json["error"]


def test_wrong_usage_of_other_commands_is_told(call: Run, tmp_path: Path) -> None:
    train = ["cloud", "train", "--data", "d", "--out", str(tmp_path / "m")]
    assert call(*train, "--base", "1.5").code == 2
    assert call(*train, "--trees", "T3").code == 2
    token = ["--server", "http://127.0.0.1:9", "--token-file", "t"]
    assert call("cloud", "upload", "i", *token, "--party", "a").code == 2
    assert call("cloud", "upload", "i", *token, "--ledger", "l").code == 2


@pytest.mark.parametrize("trees", ["T1", "none"])
def test_a_model_is_trained_and_can_be_built_with(
    home: Home, call: Run, tmp_path: Path, trees: str
) -> None:
    model = tmp_path / "model"
    options = ["--trees", trees, "--passes", "1", "--filters", "4", "--seed", "3", "--json"]
    made = call("cloud", "train", "--data", home.path("data"), "--out", str(model), *options)
    assert made.code == 0, made.err
    assert made.json["training_queries"] == 9
    assert 0 < made.json["validation_ndcg@10"] <= 1
    assert 0 < made.json["test_ndcg@10"] <= 1
    settings = load_private_ranker(model).settings
    assert (settings.features.kind if settings.features else "none") == trees
    build = ["cloud", "build", "--data", home.path("data"), "--model", str(model)]
    targets = ["--client", str(tmp_path / "c"), "--out", str(tmp_path / "i"), "--json"]
    assert call(*build, *targets).json["trees"] == trees
    again = call("cloud", "train", "--data", home.path("data"), "--out", str(model), *options)
    assert again.code == 2
    assert "already" in again.json["error"]


def test_collections_that_cannot_be_learnt_from_are_refused(call: Run, tmp_path: Path) -> None:
    for data, said in (
        (str(tmp_path / "none"), "no such folder"),
        ("world:features?queries=3", "no texts"),
        ("world:clinic?servers=1&pods=20&queries=3&staff=1&document_bytes=0", "too few"),
    ):
        made = call("cloud", "train", "--data", data, "--out", str(tmp_path / "m"), "--json")
        assert made.code == (1 if said == "too few" else 2)
        assert said in made.json["error"]
    assert not (tmp_path / "m").exists()


def test_the_demo_ranks_an_encrypted_index_as_the_plain_one_in_the_base_installation() -> None:
    code = (
        "import json, sys\n"
        "for name in ('torch', 'lightgbm', 'gensim', 'fastapi', 'uvicorn', 'httpx'):\n"
        "    sys.modules[name] = None\n"
        "from cloister.app.demo.cloud import rank_privately\n"
        "from cloister.app.demo.state import DemoState\n"
        "with DemoState(2) as state:\n"
        "    print(json.dumps(rank_privately(state)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures, lines = json.loads(done.stdout)
    assert figures["scores_agree"]
    assert figures["same_order"]
    assert figures["documents"] == 60
    assert figures["smallest_closure"] >= 5
    assert figures["seen"]["n_words"] >= 1
    assert figures["seen"]["n_codes"] == 0  # no trees, no codes
    assert "the same order as the plain ranking" in lines[-1]


def test_a_wrong_score_of_the_server_is_found_out_by_the_demo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear = KernelRanker.linear
    monkeypatch.setattr(KernelRanker, "linear", lambda self, phi: -linear(self, phi))
    with DemoState(3) as state:
        figures = rank_privately(state).figures
    assert not figures["scores_agree"]
    assert not figures["same_order"]


def test_the_demo_has_the_step() -> None:
    assert "private_cloud" in [step.name for step in STEPS]
