from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cloister.core.errors import CloisterError, DataError, MissingDependency, NotFound
from cloister.core.records import Document, Judgement, Query
from cloister.data.beir import open_beir
from cloister.data.irds import open_irds
from cloister.data.text_layout import open_text_collection, summarise_texts

ir_datasets = pytest.importorskip("ir_datasets")
formats, util = ir_datasets.formats, ir_datasets.util

Register = Callable[..., str]


@pytest.fixture
def register() -> Iterator[Register]:
    """Give ``ir_datasets`` a collection for the length of a test."""
    names: list[str] = []

    def add(name: str, *parts: object) -> str:
        ir_datasets.registry.register(name, ir_datasets.Dataset(*parts))
        names.append(name)
        return f"irds:{name}"

    yield add
    for name in names:
        del ir_datasets.registry._registered[name]


class TitledDoc(NamedTuple):
    doc_id: str
    title: str
    text: str
    url: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class BareDoc(NamedTuple):
    doc_id: str
    headline: str
    body: str
    year: int


class TopicQuery(NamedTuple):
    query_id: str
    title: str
    narrative: str


class Docs(formats.BaseDocs):
    def __init__(self, *docs: Any) -> None:
        self.docs = docs

    def docs_iter(self) -> Iterator[Any]:
        return iter(self.docs)


class Queries(formats.BaseQueries):
    def __init__(self, *queries: Any) -> None:
        self.queries = queries

    def queries_iter(self) -> Iterator[Any]:
        return iter(self.queries)


class NoNetwork(util.BaseDownload):
    """A download that fails as one does without a network; nothing is asked of any network."""

    @contextlib.contextmanager
    def stream(self) -> Iterator[Any]:
        import requests

        raise requests.exceptions.ConnectionError("Failed to resolve 'example.org'")
        yield

    def path(self, force: bool = True) -> Path:
        return Path("never")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """A collection in the files that ``ir_datasets`` itself reads."""
    (tmp_path / "docs.tsv").write_text("d1\tCough and fever.\nd2\tRash.\n")
    (tmp_path / "queries.tsv").write_text("q1\twhat is a cough\n")
    (tmp_path / "qrels").write_text("q1 0 d1 2\nq1 0 d2 0\n")
    local = util.LocalDownload
    return {
        "docs": formats.TsvDocs(local(tmp_path / "docs.tsv")),
        "queries": formats.TsvQueries(local(tmp_path / "queries.tsv")),
        "qrels": formats.TrecQrels(local(tmp_path / "qrels"), {}),
    }


def test_a_collection_reads_as_ir_datasets_gives_it(
    register: Register, files: dict[str, Any]
) -> None:
    name = register("cloister-test/tiny/dev", *files.values())
    collection = open_text_collection(name)
    assert (collection.kind, collection.name) == ("irds", name)
    assert collection.documents == (Document("d1", "Cough and fever."), Document("d2", "Rash."))
    assert collection.queries == (Query("q1", "what is a cough"),)
    assert collection.judgements == {"dev": (Judgement("q1", "d1", 2), Judgement("q1", "d2", 0))}
    assert open_irds(name.removeprefix("irds:")).documents == collection.documents
    assert pickle.loads(pickle.dumps(collection)).documents == collection.documents


def test_parts_may_be_missing_but_not_the_documents(
    register: Register, files: dict[str, Any]
) -> None:
    collection = open_irds(register("cloister-test-docs", files["docs"]))
    assert (collection.queries, collection.judgements) == ((), {})
    with pytest.raises(DataError, match="without documents"):
        open_irds(register("cloister-test-queries", files["queries"]))


def test_documents_of_any_type_give_title_and_text(register: Register) -> None:
    docs = Docs(
        TitledDoc("d1", "Cough", "Cough and fever.", "u"),
        TitledDoc("d2", "", "No title.", "u"),
        TitledDoc("d3", "Empty", "", "u"),
        BareDoc("d4", "Rash", "Itches.", 1999),
    )
    collection = open_irds(register("cloister-test-types", docs))
    assert collection.documents == (
        Document("d1", "Cough and fever.", "Cough"),
        Document("d2", "No title."),
        Document("d3", "", "Empty"),
        Document("d4", "Rash Itches."),
    )
    assert collection.fields["d1"]["url"] == "u"
    assert collection.fields["d4"]["year"] == 1999


def test_a_title_is_not_cut_out_of_a_longer_word(register: Register) -> None:
    class Abstract(TitledDoc):
        def default_text(self) -> str:
            return self.text

    docs = Docs(Abstract("d1", "A", "About coughs.", "u"))
    assert open_irds(register("cloister-test-cut", docs)).documents == (
        Document("d1", "About coughs.", "A"),
    )


def test_queries_of_any_type_give_their_words(register: Register) -> None:
    queries = Queries(
        formats.TrecQuery("q1", "the title", "the description", "the narrative"),
        TopicQuery("q2", "another title", "a narrative"),
    )
    collection = open_irds(register("cloister-test-topics", Docs(), queries))
    assert collection.queries == (Query("q1", "the title"), Query("q2", "another title"))


def test_an_unknown_name_is_not_found_and_near_names_are_offered() -> None:
    with pytest.raises(NotFound, match=r"did you mean .*vaswani") as caught:
        open_irds("irds:vaswami")
    assert caught.value.where == "irds:vaswami"
    with pytest.raises(NotFound, match=r"ir-datasets\.com"):
        summarise_texts("irds:////")


@pytest.mark.parametrize("part", ["queries", "qrels", "docs"])
def test_a_download_without_network_ends_in_a_clear_error(
    register: Register, files: dict[str, Any], part: str
) -> None:
    broken = {
        "docs": lambda: formats.JsonlDocs(NoNetwork()),
        "queries": lambda: formats.TsvQueries(NoNetwork()),
        "qrels": lambda: formats.TrecQrels(NoNetwork(), {}),
    }[part]()
    name = register(f"cloister-test-broken-{part}", *{**files, part: broken}.values())
    with pytest.raises(DataError, match="Failed to resolve") as caught:
        open_irds(name).summary()
    assert caught.value.where == name
    assert "network" in caught.value.remedy


def test_a_package_that_ir_datasets_lacks_is_named(register: Register) -> None:
    class Needy(Docs):
        def docs_iter(self) -> Iterator[Any]:
            raise ModuleNotFoundError("No module named 'warc3'")

    collection = open_irds(register("cloister-test-needy", Needy()))
    with pytest.raises(MissingDependency, match="warc3"):
        list(collection.iter_documents())


def test_without_ir_datasets_the_remedy_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(CloisterError) as caught:
        open_irds("irds:vaswani")
    assert isinstance(caught.value, MissingDependency)
    assert caught.value.remedy == "pip install cloister[irds]"


@pytest.mark.parametrize("name", ["med", "trecdl-msmarco-5k"])
def test_ir_datasets_and_the_own_reader_agree_on_a_real_collection(
    real_data, tmp_path: Path, register: Register, name: str
) -> None:
    folder = real_data(f"text/{name}")
    own = open_beir(folder)

    def unpacked(file: str) -> Any:
        return util.GzipExtract(util.LocalDownload(folder / file, mkdir=False))

    keys = {"doc_id": "_id", "text": "text"}
    docs = formats.JsonlDocs(
        unpacked("corpus.jsonl.gz"), mapping=keys, docstore_path=str(tmp_path / "docs.pklz4")
    )
    queries = formats.JsonlQueries(
        unpacked("queries.jsonl.gz"), mapping={"query_id": "_id", "text": "text"}
    )
    qrels = tmp_path / "test.qrels"
    lines = (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]
    qrels.write_text("".join("{} 0 {} {}\n".format(*line.split("\t")) for line in lines))
    parts = (docs, queries, formats.TrecQrels(util.LocalDownload(qrels), {}))
    bridged = open_irds(register(f"cloister-test-real-{name}/test", *parts))
    assert bridged.documents == own.documents
    assert bridged.queries == own.queries
    assert bridged.judgements == own.judgements
    assert bridged.summary().splits == own.summary().splits
