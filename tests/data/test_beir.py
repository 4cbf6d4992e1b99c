from __future__ import annotations

import gzip
import json
import pickle
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, NotFound
from cloister.core.records import Document, Judgement, Query
from cloister.data.beir import open_beir
from cloister.data.qrels import read_qrels
from cloister.data.text_layout import detect_text_layout, summarise_texts

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.text(st.characters(categories=["L", "N"]), min_size=1)


def write(path: Path, *lines: object) -> None:
    path.parent.mkdir(exist_ok=True)
    content = "".join(
        f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines
    ).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    write(
        tmp_path / "corpus.jsonl.gz",
        {"_id": "d1", "title": "Cough", "text": "Cough and fever.", "source": "NIH"},
        {"_id": 2, "text": "Rash."},
        {"_id": "d3", "title": None, "text": ""},
    )
    write(tmp_path / "queries.jsonl", {"_id": 7, "text": "what is a cough", "kind": "topic"})
    write(tmp_path / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore", "7\td1\t2", "7\t2\t0")
    write(tmp_path / "qrels" / "train.tsv.gz", "7\td3\t1", "8\td1\t1", "7\td9\t1", "7\td9\t1")
    return tmp_path


def test_a_folder_reads_as_documents_queries_and_judgements(tiny: Path) -> None:
    collection = open_beir(tiny)
    assert collection.documents == (
        Document("d1", "Cough and fever.", "Cough"),
        Document("2", "Rash."),
        Document("d3", ""),
    )
    assert collection.queries == (Query("7", "what is a cough"),)
    assert collection.judgements["test"] == (Judgement("7", "d1", 2), Judgement("7", "2", 0))
    assert collection.fields == {"d1": {"source": "NIH"}, "2": {}, "d3": {}}
    assert collection.query_fields == {"7": {"kind": "topic"}}


def test_streams_begin_anew_at_every_call_and_documents_are_kept(tiny: Path) -> None:
    collection = open_beir(tiny)
    assert list(collection.iter_documents()) == list(collection.iter_documents())
    assert [record.document for record in collection.iter_records()] == [*collection.documents]
    assert collection.documents is collection.documents
    (tiny / "corpus.jsonl.gz").unlink()
    assert tuple(collection.iter_documents()) == collection.documents


def test_a_collection_travels_between_processes(tiny: Path) -> None:
    assert pickle.loads(pickle.dumps(open_beir(tiny))).documents == open_beir(tiny).documents


def test_judgements_of_unknown_queries_and_documents_are_counted(tiny: Path) -> None:
    summary = open_beir(tiny).summary()
    train = summary.splits["train"]
    assert (train.unknown_queries, train.unknown_documents, train.repeated) == (1, 2, 1)
    assert (train.judgements, train.judged_queries, train.labels) == (4, 2, {1: 4})
    assert summary.splits["test"].unknown_documents == 0
    assert summary.as_dict() == {
        "kind": "beir",
        "documents": 3,
        "empty_documents": 1,
        "queries": 1,
        "judged_queries": 2,
        "judgements": 6,
        "labels": {0: 1, 1: 4, 2: 1},
        "splits": {
            name: {
                "judged_queries": split.judged_queries,
                "judgements": split.judgements,
                "labels": split.labels,
                "unknown_queries": split.unknown_queries,
                "unknown_documents": split.unknown_documents,
                "repeated": split.repeated,
            }
            for name, split in summary.splits.items()
        },
    }


def test_a_corpus_without_queries_or_judgements_is_a_collection(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "Cough."})
    collection = open_beir(tmp_path)
    assert (collection.queries, collection.judgements) == ((), {})
    assert collection.summary().judgements == 0


def test_a_folder_without_a_corpus_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no corpus\.jsonl"):
        open_beir(tmp_path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"_id": "d2", "text": "cut', "not JSON"),
        pytest.param("[" * 100_000, "not JSON", id="deeply nested"),
        ('["d2", "text"]', "not a JSON object"),
        ('{"text": "no id"}', "no id in field '_id'"),
        ('{"_id": "", "text": "no id"}', "no id in field '_id'"),
        ('{"_id": true, "text": "no id"}', "no id in field '_id'"),
        ('{"_id": "d2"}', "no text in field 'text'"),
        ('{"_id": "d2", "text": 5}', "no text in field 'text'"),
        ('{"_id": "d2", "text": "", "title": 5}', "no text in field 'title'"),
        ('{"_id": "d1", "text": "again"}', "the document id 'd1' occurs twice"),
    ],
)
def test_a_malformed_line_is_reported_with_file_number_and_text(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    write(path, {"_id": "d1", "text": "good"}, "", line)
    with pytest.raises(DataError) as caught:
        open_beir(tmp_path).summary()
    assert caught.value.where == f"{path}:3"
    assert caught.value.what.startswith(complaint)
    assert repr(line[:40])[1:-1] in caught.value.what
    assert len(caught.value.what) < 300


def test_a_query_id_that_occurs_twice_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", {"_id": "d1", "text": "good"})
    write(tmp_path / "queries.jsonl", {"_id": 1, "text": "a"}, {"_id": "1", "text": "b"})
    with pytest.raises(DataError, match="the query id '1' occurs twice"):
        open_beir(tmp_path)


@given(
    documents=st.lists(st.tuples(IDS, ANY_TEXT, ANY_TEXT), unique_by=lambda document: document[0]),
    ascii_only=st.booleans(),
)
def test_documents_written_are_documents_read(
    documents: list[tuple[str, str, str]], ascii_only: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            json.dumps({"_id": name, "text": text, "title": title}, ensure_ascii=ascii_only)
            for name, text, title in documents
        ]
        write(Path(folder, "corpus.jsonl.gz"), *lines)
        assert open_beir(folder).documents == tuple(Document(*document) for document in documents)


@given(
    judgements=st.lists(st.builds(Judgement, IDS, IDS, st.integers(-2, 4))),
    form=st.sampled_from(["beir", "headless", "trec", "trec with tabs", "floats", "windows"]),
)
def test_judgements_read_alike_in_every_form(judgements: list[Judgement], form: str) -> None:
    pattern = {
        "trec": "{0} 0  {1} {2}\n",
        "trec with tabs": "{0}\tQ0\t{1}\t{2}\n",
        "floats": "{0}\t{1}\t{2}.0\n",
        "windows": "{0}\t{1}\t{2}\r\n",
    }.get(form, "{0}\t{1}\t{2}\n")
    header = "query-id\tcorpus-id\tscore\n" if form == "beir" else ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test.qrels")
        text = header + "".join(pattern.format(*judgement) for judgement in judgements)
        path.write_bytes(text.encode())
        assert list(read_qrels(path)) == judgements


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("q1\td1", "2 columns, expected 3 or 4"),
        ("q1 0 d1 1 more", "5 columns, expected 3 or 4"),
        ("q1\td1\tgood", "the grade 'good' is not a whole number"),
        ("q1\td1\t0.5", "the grade '0.5' is not a whole number"),
        ("q1\td1\tinf", "the grade 'inf' is not a whole number"),
        ("query-id\tcorpus-id\tscore", "the grade 'score' is not a whole number"),
        ("\td1\t1", "an empty id"),
    ],
)
def test_a_malformed_judgement_is_reported_with_file_number_and_text(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "test.tsv"
    write(path, "q1\td0\t1", line)
    with pytest.raises(DataError) as caught:
        list(read_qrels(path))
    assert caught.value.where == f"{path}:2"
    assert caught.value.what.startswith(complaint)
    assert repr(line.strip()) in caught.value.what


def test_a_first_line_that_is_neither_header_nor_judgement_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "test.tsv", "q1\td0\thigh")
    with pytest.raises(DataError, match="'high'"):
        list(read_qrels(tmp_path / "test.tsv"))


NFCORPUS_GRADES = {
    "train": {1: 28720, 2: 106035, 3: 4040},
    "dev": {1: 3204, 2: 10864, 3: 521},
    "test": {1: 3486, 2: 11758, 3: 576},
}


@pytest.mark.parametrize(
    ("name", "documents", "queries", "judged", "splits"),
    [
        ("cisi", 1460, 112, 76, {"test": (76, {1: 3114})}),
        (
            "cranfield",
            1400,
            225,
            225,
            {"test": (225, {0: 225, 1: 363, 2: 734, 3: 387, 4: 128})},
        ),
        ("med", 1033, 30, 30, {"test": (30, {1: 696})}),
        (
            "medquad",
            17896,
            104,
            103,
            {"liveqa-med": (103, {0: 1366, 1: 614, 2: 189, 3: 142})},
        ),
        (
            "nfcorpus",
            3395,
            3244,
            3219,
            {
                "train": (2569, NFCORPUS_GRADES["train"]),
                "dev": (325, NFCORPUS_GRADES["dev"]),
                "test": (325, NFCORPUS_GRADES["test"]),
            },
        ),
        ("trecdl-msmarco-5k", 5000, 50, 43, {"test": (43, {1: 1601, 2: 1804, 3: 697})}),
    ],
)
def test_real_collections_have_the_published_counts(
    real_data, name, documents, queries, judged, splits
) -> None:
    folder = real_data(f"text/{name}")
    assert detect_text_layout(folder) == "beir"
    summary = summarise_texts(folder)
    assert (summary["kind"], summary["documents"], summary["queries"]) == (
        "beir",
        documents,
        queries,
    )
    assert summary["judged_queries"] == judged
    total: Counter[int] = Counter()
    assert summary["splits"].keys() == splits.keys()
    for split, (judged_queries, labels) in splits.items():
        found = summary["splits"][split]
        assert (found["judged_queries"], found["labels"]) == (judged_queries, labels)
        assert found["judgements"] == sum(labels.values())
        assert found["unknown_queries"] == found["unknown_documents"] == found["repeated"] == 0
        total.update(labels)
    assert summary["labels"] == total
    assert summary["judgements"] == total.total()
    assert summary["empty_documents"] == (2 if name == "cranfield" else 0)


def test_medquad_documents_name_their_source(real_data) -> None:
    collection = open_beir(real_data("text/medquad"))
    sources = Counter(record.fields["source"] for record in collection.iter_records())
    assert sources == {
        "GHR": 5430,
        "GARD": 5389,
        "ADAM": 1214,
        "NIDDK": 1192,
        "NINDS": 1088,
        "MPlusHealthTopics": 981,
        "NIHSeniorHealth": 769,
        "CancerGov": 729,
        "NHLBI": 559,
        "CDC": 270,
        "MPlusDrugs": 256,
        "MPlusHerbsSupplements": 19,
    }


def test_medquad_reads_in_little_time(real_data) -> None:
    folder = real_data("text/medquad")
    start = time.process_time()
    n_documents = sum(1 for _ in open_beir(folder).iter_documents())
    assert n_documents == 17896
    assert time.process_time() - start < 2.0  # about 0.2 s; the rest is for slow machines


def test_nfcorpus_queries_keep_their_own_split(real_data) -> None:
    collection = open_beir(real_data("text/nfcorpus"))
    splits = Counter(fields["split"] for fields in collection.query_fields.values())
    assert splits == {"train": 2594, "dev": 325, "test": 325}
