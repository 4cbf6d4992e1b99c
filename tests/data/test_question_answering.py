from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from cloister.core.errors import DataError, NotFound
from cloister.core.records import Document, Judgement, Query
from cloister.data.mediqa import open_mediqa
from cloister.data.pubmedqa import open_pubmedqa
from cloister.data.text_layout import detect_text_layout, open_text_collection, summarise_texts
from cloister.data.wikiqa import open_wikiqa


def write(path: Path, *lines: object) -> None:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def question(qid: object, *answers: dict[str, object]) -> dict[str, object]:
    return {"qid": qid, "question": f"question {qid}", "answers": list(answers)}


def answer(aid: str, score: object, text: object = "text") -> dict[str, object]:
    return {"aid": aid, "system_rank": 1, "score": score, "url": "u", "text": text}


def test_mediqa_ids_carry_the_split_and_incorrect_is_grade_zero(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", question("1", answer("1_A1", 4, "best"), answer("1_A2", 1)))
    write(tmp_path / "test.jsonl.gz", question("1", answer("1_A1", 2, "other")))
    collection = open_text_collection(tmp_path)
    assert collection.kind == "mediqa"
    assert collection.queries == (
        Query("test-1", "question 1"),
        Query("train-1", "question 1"),
    )
    assert collection.judgements == {
        "test": (Judgement("test-1", "test-1_A1", 1),),
        "train": (Judgement("train-1", "train-1_A1", 3), Judgement("train-1", "train-1_A2", 0)),
    }
    assert collection.documents[:2] == (
        Document("test-1_A1", "other"),
        Document("train-1_A1", "best"),
    )
    assert collection.fields["train-1_A1"] == {
        "split": "train",
        "query_id": "train-1",
        "system_rank": 1,
        "score": 4,
        "url": "u",
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (question("2", answer("a", "high")), "no whole number in field 'score'"),
        (question("2", answer("a", 2, 5)), "no text in field 'text'"),
        ({"qid": "2", "question": "q", "answers": "a"}, "no list of objects in field 'answers'"),
        (question("1"), "the question id '1' occurs twice"),
        (question("2", answer("1_A1", 2)), "the answer id '1_A1' occurs twice"),
    ],
)
def test_a_malformed_mediqa_line_is_reported_with_its_place(
    tmp_path: Path, line: object, complaint: str
) -> None:
    write(tmp_path / "test.jsonl", question("1", answer("1_A1", 1)), line)
    with pytest.raises(DataError) as caught:
        open_mediqa(tmp_path).summary()
    assert caught.value.what.startswith(complaint)
    assert caught.value.where == f"{tmp_path / 'test.jsonl'}:2"


def test_pubmedqa_questions_seek_their_own_abstract(tmp_path: Path) -> None:
    write(
        tmp_path / "labelled.jsonl",
        {"_id": "9", "question": "Does it?", "contexts": ["Aim.", "Result."], "decision": "yes"},
        {"_id": 10, "question": "Is it?", "contexts": []},
    )
    collection = open_text_collection(tmp_path)
    assert collection.kind == "pubmedqa"
    assert collection.queries == (Query("9", "Does it?"), Query("10", "Is it?"))
    assert collection.documents == (Document("9", "Aim.\nResult."), Document("10", ""))
    assert collection.judgements == {"labelled": (Judgement("9", "9", 1), Judgement("10", "10", 1))}
    assert collection.fields["9"]["decision"] == "yes"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"_id": "9", "question": "Again?", "contexts": []}, "the article id '9' occurs twice"),
        ({"_id": "8", "question": "Q", "contexts": "text"}, "no list of texts"),
        ({"_id": "8", "contexts": []}, "no text in field 'question'"),
    ],
)
def test_a_malformed_pubmedqa_line_is_reported_with_its_place(
    tmp_path: Path, line: object, complaint: str
) -> None:
    write(tmp_path / "a.jsonl", {"_id": "9", "question": "Q", "contexts": ["Aim."]}, line)
    with pytest.raises(DataError) as caught:
        open_pubmedqa(tmp_path).summary()
    assert caught.value.what.startswith(complaint)
    assert caught.value.where == f"{tmp_path / 'a.jsonl'}:2"


HEADER = "qid\tlabel\tquestion\tanswer"


def test_wikiqa_sentences_are_numbered_within_their_question(tmp_path: Path) -> None:
    write(
        tmp_path / "dev.tsv.gz",
        HEADER,
        "2\t0\thow big\tthe first",
        "5\t1\thow old\tthe only",
        "2\t1\thow big\tthe second",
    )
    collection = open_text_collection(tmp_path)
    assert collection.kind == "wikiqa"
    assert collection.queries == (Query("dev-2", "how big"), Query("dev-5", "how old"))
    assert collection.documents == (
        Document("dev-2-1", "the first"),
        Document("dev-5-1", "the only"),
        Document("dev-2-2", "the second"),
    )
    assert collection.judgements == {
        "dev": (
            Judgement("dev-2", "dev-2-1", 0),
            Judgement("dev-5", "dev-5-1", 1),
            Judgement("dev-2", "dev-2-2", 1),
        )
    }


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("2\t0\thow big", "3 columns, expected 4"),
        ("2\tyes\thow big\tvery", "the label 'yes' is neither 0 nor 1"),
        ("\t1\thow big\tvery", "an empty question id"),
    ],
)
def test_a_malformed_wikiqa_line_is_reported_with_its_place(
    tmp_path: Path, line: str, complaint: str
) -> None:
    write(tmp_path / "dev.tsv", HEADER, line)
    with pytest.raises(DataError) as caught:
        open_wikiqa(tmp_path)
    assert caught.value.what.startswith(complaint)
    assert caught.value.where == f"{tmp_path / 'dev.tsv'}:2"


@pytest.mark.parametrize("opener", [open_mediqa, open_pubmedqa, open_wikiqa])
def test_a_folder_without_such_files_is_not_found(tmp_path: Path, opener) -> None:
    with pytest.raises(NotFound):
        opener(tmp_path)


def test_a_folder_of_something_else_has_no_layout(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "not JSON")
    write(tmp_path / "b.jsonl", "[1]")
    write(tmp_path / "topics.tsv", "1\tobama family tree")
    assert detect_text_layout(tmp_path) is None
    assert detect_text_layout(tmp_path / "topics.tsv") is None
    assert detect_text_layout(tmp_path / "none") is None
    with pytest.raises(NotFound, match="no text collection of a known layout"):
        open_text_collection(tmp_path)
    with pytest.raises(NotFound):
        summarise_texts(tmp_path / "none")


@pytest.mark.parametrize(
    "name", ["ltr/clueweb09", "ltr/mq2008", "records/aci-bench", "clicks/open-bandit"]
)
def test_other_real_folders_have_no_text_layout(real_data, name: str) -> None:
    assert detect_text_layout(real_data(name)) is None


def check_counts(summary: dict[str, object], splits: dict[str, tuple[int, dict[int, int]]]) -> None:
    """Compare with (queries, grades) of each split; every pair is one document."""
    total: Counter[int] = Counter()
    assert summary["splits"].keys() == splits.keys()
    for split, (n_queries, labels) in splits.items():
        found = summary["splits"][split]
        assert (found["judged_queries"], found["labels"]) == (n_queries, labels)
        assert found["judgements"] == sum(labels.values())
        assert found["unknown_queries"] == found["unknown_documents"] == found["repeated"] == 0
        total.update(labels)
    assert summary["labels"] == total
    assert summary["judgements"] == summary["documents"] == total.total()
    assert summary["queries"] == summary["judged_queries"] == sum(n for n, _ in splits.values())


def test_real_mediqa_has_the_published_counts(real_data) -> None:
    summary = summarise_texts(real_data("text/mediqa2019-qa"))
    assert summary["kind"] == "mediqa"
    check_counts(
        summary,
        {
            "train-liveqamed": (104, {0: 341, 1: 269, 2: 138, 3: 91}),  # 839 answers
            "train-alexa": (104, {0: 74, 1: 383, 2: 149, 3: 256}),  # 862
            "validation": (25, {0: 76, 1: 64, 2: 35, 3: 59}),  # 234
            "test": (150, {0: 125, 1: 410, 2: 333, 3: 239}),  # 1,107
        },
    )


def test_real_pubmedqa_has_the_published_counts(real_data) -> None:
    folder = real_data("text/pubmedqa-l")
    summary = summarise_texts(folder)
    assert summary["kind"] == "pubmedqa"
    check_counts(summary, {"pubmedqa": (1000, {1: 1000})})
    decisions = Counter(fields["decision"] for fields in open_pubmedqa(folder).fields.values())
    assert decisions == {"yes": 552, "no": 338, "maybe": 110}


def test_real_wikiqa_has_the_published_counts(real_data) -> None:
    summary = summarise_texts(real_data("text/wikiqa"))
    assert summary["kind"] == "wikiqa"
    check_counts(
        summary,
        {
            "train": (873, {0: 7632, 1: 1040}),  # 8,672 pairs
            "dev": (126, {0: 990, 1: 140}),  # 1,130
            "test": (243, {0: 2058, 1: 293}),  # 2,351
        },
    )
