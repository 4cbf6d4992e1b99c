from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, NotFound
from cloister.data.text_file import (
    find_text_file,
    find_text_files,
    first_line,
    read_lines,
    shortened,
)

ANY_TEXT = st.text(
    st.characters(exclude_categories=["Cs"])
)  # all but surrogates, which no file has


@given(text=ANY_TEXT.filter(lambda text: not text.startswith("\ufeff")), compressed=st.booleans())
def test_lines_joined_are_the_text_of_the_file(text: str, compressed: bool) -> None:
    content = text.encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt.gz" if compressed else "a.txt")
        path.write_bytes(gzip.compress(content) if compressed else content)
        lines = list(read_lines(path))
    assert "".join(line for _, line in lines) == text
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    assert all("\n" not in line[:-1] for _, line in lines)


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo")
    assert list(read_lines(path)) == [(1, "one\n"), (2, "two")]


def test_gzip_is_known_by_its_content_also_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(b"inside"))
    assert first_line(path) == "inside"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:40] + bytes(20) + content[60:],
        lambda content: content[:-6] + bytes(6),
        lambda content: b"plain text",
        lambda content: b"",
    ],
    ids=["cut", "overwritten", "wrong checksum", "not gzip", "empty"],
)
def test_a_damaged_gzip_file_is_reported_with_its_name(tmp_path, damage) -> None:
    path = tmp_path / "a.txt.gz"
    content = gzip.compress("".join(f"line {n * n}\n" for n in range(2000)).encode())
    path.write_bytes(damage(content))
    with pytest.raises(DataError, match="damaged gzip file") as caught:
        list(read_lines(path))
    assert caught.value.where == str(path)


def test_invalid_utf8_is_reported_with_the_number_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nna\xefve\n")
    with pytest.raises(DataError, match=r"not UTF-8.*na") as caught:
        list(read_lines(path))
    assert caught.value.where == f"{path}:2"


def test_a_missing_file_or_folder_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_lines(tmp_path / "no"))
    with pytest.raises(NotFound):
        find_text_files(tmp_path / "no", ".tsv")


def test_a_folder_cannot_be_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="a folder, not a file"):
        list(read_lines(tmp_path))


def test_the_plain_file_counts_where_both_lie_there(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.tsv.gz", "b.tsv.gz", ".hidden.tsv", "c.csv", "a-b.tsv"):
        (tmp_path / name).touch()
    found = find_text_files(tmp_path, ".tsv")
    assert {name: path.name for name, path in found.items()} == {
        "a": "a.tsv",
        "a-b": "a-b.tsv",
        "b": "b.tsv.gz",
    }
    assert find_text_file(tmp_path, "a.tsv") == tmp_path / "a.tsv"
    assert find_text_file(tmp_path, "b.tsv") == tmp_path / "b.tsv.gz"
    assert find_text_file(tmp_path, "z.tsv") is None


def test_a_shortened_text_keeps_its_beginning() -> None:
    assert shortened("x" * 200) == repr("x" * 77 + "...")
