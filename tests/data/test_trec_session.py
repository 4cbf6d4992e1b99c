from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, NotFound
from cloister.data.text_layout import detect_text_layout, summarise_texts
from cloister.data.trec_session import SessionPage, open_trec_session, read_session_pages


@st.composite
def pages(draw: st.DrawFn) -> SessionPage:
    size = draw(st.integers(1, 12))
    numbers = st.integers(0, 99999).map(str)
    clicks = st.tuples(*[st.integers(0, 1)] * size)
    grades = st.none() | st.tuples(*[st.integers(-2, 4)] * size)
    return SessionPage(
        draw(numbers),
        draw(numbers),
        draw(st.tuples(*[numbers] * size)),
        draw(clicks),
        draw(grades),
    )


def as_line(page: SessionPage) -> str:
    lists = [list(map(int, page.doc_ids)), [1] * len(page.doc_ids), list(page.clicks)]
    lists += [list(page.relevance)] if page.relevance is not None else []
    return "\t".join([page.session_id, page.query_id, *map(str, lists)]) + "\n"


@given(written=st.lists(pages()))
def test_pages_written_are_pages_read(written: list[SessionPage]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.tsv")
        path.write_text("".join(map(as_line, written)))
        assert list(read_session_pages(path)) == written


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1\t2\t[3]\t[1]", "4 columns, expected 5 or 6"),
        ("1\t2\t[3]\t[1]\t[0]\t[1]\t[1]", "7 columns, expected 5 or 6"),
        ("\t2\t[3]\t[1]\t[0]", "an empty id"),
        ("1\t2\t[3, 4]\t[1, 1]\t[0]", "the lists differ in length"),
        ("1\t2\t[3]\t[1]\t[0]\t[1, 2]", "the lists differ in length"),
        ("1\t2\t[3]\t[1]\t[2]", "a click is neither 0 nor 1"),
        ("1\t2\t[3]\t[1]\t[true]", "'[true]' is not a list of whole numbers"),
        ("1\t2\tthree\t[1]\t[0]", "'three' is not a list of whole numbers"),
        ("1\t2\t3\t[1]\t[0]", "'3' is not a list of whole numbers"),
    ],
)
def test_a_malformed_page_is_reported_with_its_place(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"1\t2\t[3]\t[1]\t[0]\n{line}\n")
    with pytest.raises(DataError) as caught:
        open_trec_session(tmp_path)
    assert caught.value.what.startswith(complaint)
    assert caught.value.where == f"{path}:2"


def test_a_folder_without_sessions_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "queries.tsv").write_text("0\tq\n")
    with pytest.raises(NotFound):
        open_trec_session(tmp_path)


@pytest.mark.parametrize("line", ["0 no tab", "0\tsecond"])
def test_a_malformed_name_is_reported_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.tsv").write_text("1\t2\t[3]\t[1]\t[0]\n")
    (tmp_path / "urls.tsv").write_text(f"0\tfirst\n{line}\n")
    with pytest.raises(DataError) as caught:
        open_trec_session(tmp_path)
    assert caught.value.where == f"{tmp_path / 'urls.tsv'}:2"


def test_the_real_log_has_the_published_counts(real_data) -> None:
    folder = real_data("clicks/trec-session")
    assert detect_text_layout(folder) == "trec-session"
    summary = summarise_texts(folder)
    assert (summary["kind"], summary["queries"], summary["documents"]) == (
        "trec-session",
        2545,
        10960,
    )
    counted = {
        split: (part["pages"], part["sessions"], part["clicks"])
        for split, part in summary["splits"].items()
    }
    assert counted == {
        "train": (2872, 1003, 1293),
        "valid": (361, 124, 152),
        "test": (363, 126, 165),
        "human_labels": (856, 486, 502),
    }
    grades = {-2: 497, 0: 5063, 1: 2170, 2: 692, 3: 101, 4: 37}
    assert summary["labels"] == summary["splits"]["human_labels"]["labels"] == grades
    assert not summary["splits"]["train"]["labels"]


def test_the_real_pages_show_ten_named_documents(real_data) -> None:
    log = open_trec_session(real_data("clicks/trec-session"))
    assert log.pages["train"][0] == SessionPage(
        "460",
        "798",
        ("2270", "2271", "4088", "2256", "2287", "4083", "4357", "4927", "2297", "4880"),
        (0,) * 10,
    )
    for split, pages_of_split in log.pages.items():
        for page in pages_of_split:
            assert len(page.doc_ids) == len(page.clicks) == 10
            assert (page.relevance is None) == (split != "human_labels")
            assert page.query_id in log.query_texts
            assert log.document_names.keys() >= set(page.doc_ids)
    assert log.query_texts["1"] == "bollywood growth"
    assert log.document_names["1"] == "clueweb12-0400tw-72-06469"
