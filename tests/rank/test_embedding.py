from __future__ import annotations

import builtins
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError, MissingDependency, NotFound, SettingsError
from cloister.rank.embedding import Embedding, EmbeddingSettings, train_embedding
from cloister.rank.embedding_file import read_embedding

WORDS = ("cough", "fever", "größe", "x")
VECTORS = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)


def unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def numbers(row: Any, end: str = "") -> str:
    return " ".join(repr(float(value)) for value in row) + end


def text_lines(end: str = "") -> str:
    pairs = zip(WORDS, VECTORS, strict=True)
    return "".join(f"{word} {numbers(row, end)}\n" for word, row in pairs)


def binary(separator: bytes = b"\n") -> bytes:
    pairs = zip(WORDS, VECTORS, strict=True)
    return b"4 3\n" + b"".join(
        word.encode() + b" " + row.astype("<f4").tobytes() + separator for word, row in pairs
    )


FILES = {
    "glove": text_lines().encode(),
    "word2vec-text": f"4 3\n{text_lines()}".encode(),
    "word2vec-text with blanks at line ends": f"4 3\n{text_lines(' ')}".encode(),
    "word2vec-binary": binary(),
    "word2vec-binary without line ends": binary(b""),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize("packed", [False, True])
def test_each_format_is_known_by_its_content(tmp_path: Path, content: bytes, packed: bool) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(content) if packed else content)
    embedding = read_embedding(path)
    assert embedding.words == WORDS
    np.testing.assert_allclose(embedding.vectors, unit(VECTORS), rtol=1e-6)


@pytest.mark.parametrize("kind", [True, False])
def test_files_of_gensim_are_read(tmp_path: Path, kind: bool) -> None:
    gensim = pytest.importorskip("gensim.models")
    vectors = gensim.KeyedVectors(3)
    vectors.add_vectors(list(WORDS), VECTORS)
    vectors.save_word2vec_format(str(tmp_path / "v"), binary=kind)
    embedding = read_embedding(tmp_path / "v")
    assert embedding.words == WORDS
    np.testing.assert_allclose(embedding.vectors, unit(VECTORS), rtol=1e-5)


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
def test_only_the_wanted_words_are_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v").write_bytes(content)
    assert read_embedding(tmp_path / "v", words=["x", "rash", "fever"]).words == ("fever", "x")
    with pytest.raises(DataError, match="no vector"):
        read_embedding(tmp_path / "v", words=["rash"])


def test_a_word_of_glove_may_hold_blanks(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("a 1 0\n. . . 0 1\n")
    assert read_embedding(tmp_path / "v").words == ("a", ". . .")


def test_the_first_of_two_equal_words_counts_and_zeros_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("a 1 0\na 0 1\nb 0 0\n")
    embedding = read_embedding(tmp_path / "v")
    assert (embedding.words, embedding.vectors.tolist()) == (("a",), [[1, 0]])


DAMAGED = [
    (b"a 1 2\nb 1\n", "not a word and 2 numbers"),
    (b"a 1 2\nb 1 two\n", "not a word and 2 numbers"),
    (b"a 1 2\n\nb 1 2\n", "not a word and 2 numbers"),
    (b"a 1 nan\n", "not finite"),
    (b"a 1 1e99\n", "not finite"),
    (b"a\n", "not a word and"),
    (b"", "no vector"),
    (b"3 2\na 1 2\nb 1 2\n", "3 words are announced, 2 are there"),
    (b"1 2\na 1 2\nb 1 2\n", "1 words are announced, 2 are there"),
    (b"a\xff 1 2\n", "not UTF-8"),
    (FILES["word2vec-binary"][:-9], "ends within a vector"),
    (FILES["word2vec-binary"][:24], "no word is found"),
    (FILES["word2vec-binary"] + b"more", "more follows"),
    (b"1 2\n\xff\xfe " + bytes(8), "not UTF-8"),
    (b"1 2\n " + bytes(8), "no word is found"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        read_embedding(tmp_path / "v")
    assert str(tmp_path / "v") in refused.value.where


def test_a_cut_off_gzip_file_and_a_missing_one_are_told(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(gzip.compress(binary())[:-20])
    with pytest.raises(DataError, match="gzip"):
        read_embedding(tmp_path / "v", file_format="word2vec-binary")
    with pytest.raises(NotFound):
        read_embedding(tmp_path / "none")
    (tmp_path / "w").write_bytes(b"a 1 2\n")
    with pytest.raises(DataError, match="first line"):
        read_embedding(tmp_path / "w", file_format="word2vec-binary")
    with pytest.raises(SettingsError, match="unknown format"):
        read_embedding(tmp_path / "w", file_format="fasttext")  # type: ignore[arg-type]


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=4), st.integers(0, 120))
def test_damaged_bytes_raise_no_error_but_ours(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], place: int
) -> None:
    content = bytearray(binary())
    for part in parts:
        content[place : place + len(part)] = part
        place += 7
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    try:
        with np.errstate(all="ignore"):
            read_embedding(path)
    except DataError:
        pass


def test_unsound_tables_are_refused() -> None:
    with pytest.raises(DataError, match="twice"):
        Embedding(("a", "a"), np.eye(2, dtype=np.float32))
    with pytest.raises(DataError, match="'b' is zero"):
        Embedding(("a", "b"), np.array([[1, 0], [0, 0]], np.float32))
    with pytest.raises(DataError, match="do not fit"):
        Embedding(("a",), np.eye(2, dtype=np.float32))


def test_a_table_made_of_a_table_is_equal_to_the_bit() -> None:
    once = Embedding(WORDS, VECTORS)
    again = Embedding(WORDS, once.vectors)
    np.testing.assert_array_equal(once.vectors, again.vectors)


TEXTS = [["dry", "cough", "night"], ["dry", "cough", "fever"], ["rash", "itch", "skin"]] * 12
SMALL = EmbeddingSettings(size=8, epochs=3)
PROGRAM = """
from cloister.rank.embedding import *
from rank.test_embedding import SMALL, TEXTS
print(train_embedding(TEXTS, SMALL, seed=3).vectors.tobytes().hex())
"""


def test_the_same_seed_trains_the_same_vectors_in_any_process() -> None:
    pytest.importorskip("gensim")
    here = train_embedding(TEXTS, SMALL, seed=3)
    assert set(here.words) == {word for text in TEXTS for word in text}
    assert not np.array_equal(here.vectors, train_embedding(TEXTS, SMALL, seed=4).vectors)
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root / "src"), str(root / "tests")])
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here.vectors.tobytes().hex()


def test_too_rare_words_and_a_missing_gensim_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no word occurs 3 times"):
        train_embedding([["a", "b"]])
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("gensim"):
            raise ImportError(name)
        return original(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependency, match=r"cloister\[vectors\]"):
        train_embedding(TEXTS)
