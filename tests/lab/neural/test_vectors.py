from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import DataError, NotFound
from cloister.data.cache import cache_folder
from cloister.lab.neural.vectors import FILE_NAME, open_vectors, vectors_file

TOOL = Path(__file__).resolve().parents[3] / "tools" / "fetch-word-vectors"


def tiny_file(path: Path) -> Path:
    """Three words in word2vec's binary format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"cough": [3.0, 4.0], "fever": [0.0, 2.0], "rash": [1.0, 0.0]}
    entries = [
        word.encode() + b" " + np.array(row, "<f4").tobytes() + b"\n" for word, row in rows.items()
    ]
    path.write_bytes(b"3 2\n" + b"".join(entries))
    return path


@pytest.fixture(autouse=True)
def _no_named_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOISTER_WORD_VECTORS", raising=False)


def test_vectors_that_were_not_fetched_are_none() -> None:
    assert vectors_file() is None
    assert open_vectors(["cough"]) is None


def test_fetched_vectors_are_read_from_the_cache() -> None:
    tiny_file(cache_folder() / FILE_NAME)
    found = open_vectors(["fever", "cough", "itch"])
    assert found is not None
    assert found.words == ("cough", "fever")
    np.testing.assert_allclose(found.vectors, [[0.6, 0.8], [0.0, 1.0]], atol=1e-7)


def test_a_named_file_is_read_in_place_of_the_fetched_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_file(cache_folder() / FILE_NAME)
    (tmp_path / "own.txt").write_text("cough 1 0 0\n")
    monkeypatch.setenv("CLOISTER_WORD_VECTORS", str(tmp_path / "own.txt"))
    found = open_vectors(["cough"])
    assert found is not None
    assert found.size == 3
    monkeypatch.setenv("CLOISTER_WORD_VECTORS", str(tmp_path / "missing"))
    with pytest.raises(NotFound):
        open_vectors(["cough"])


def test_a_file_with_none_of_the_words_is_an_error() -> None:
    tiny_file(cache_folder() / FILE_NAME)
    with pytest.raises(DataError, match="no vector"):
        open_vectors(["itch"])


def test_the_tool_finds_the_file_where_it_is_read_and_fetches_nothing_twice() -> None:
    path = tiny_file(cache_folder() / FILE_NAME)
    before = path.read_bytes()
    nowhere = {**os.environ, "npm_config_registry": "http://127.0.0.1:9"}
    told = subprocess.run([TOOL], capture_output=True, text=True, check=True, env=nowhere)
    assert told.stdout.strip() == str(path)
    assert path.read_bytes() == before
