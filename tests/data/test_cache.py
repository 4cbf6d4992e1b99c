from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from cloister.data import cache, letor
from cloister.data.cache import cache_folder
from cloister.data.letor import LetorSettings, read_letor
from cloister.data.ranking_data import RankingData


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count how often a file is really parsed."""
    seen: list[str] = []
    real = letor._parse_file

    def counted(path: Path, settings: LetorSettings) -> RankingData:
        seen.append(str(path))
        return real(path, settings)

    monkeypatch.setattr(letor, "_parse_file", counted)
    return seen


def make(path: Path, value: int = 1) -> Path:
    path.write_text(f"{value} qid:1 1:0.5 #docid = a\n0 qid:2 1:{value}\n")
    old = time.time() - 60
    os.utime(path, (old, old))
    return path


def entries() -> list[Path]:
    return sorted((cache_folder() / f"v{cache.FORMAT}" / "arrays").iterdir())


def test_a_second_reading_maps_the_first_ones_arrays(tmp_path: Path, parses: list[str]) -> None:
    path = make(tmp_path / "a.txt")
    first, second = read_letor(path), read_letor(path)
    assert len(parses) == 1
    np.testing.assert_array_equal(first.features, second.features)
    assert list(first.query_ids) == list(second.query_ids)
    assert list(first.doc_ids) == list(second.doc_ids) == ["a", ""]
    assert isinstance(second.features.base, np.memmap)


def test_a_changed_file_is_parsed_again_even_with_its_old_time(
    tmp_path: Path, parses: list[str]
) -> None:
    path = make(tmp_path / "a.txt", 1)
    read_letor(path)
    make(path, 2)
    assert read_letor(path).labels.tolist() == [2, 0]
    assert len(parses) == 2


def test_a_file_changed_within_the_same_time_stamp_is_parsed_again(
    tmp_path: Path, parses: list[str]
) -> None:
    path = tmp_path / "a.txt"
    for value in (1, 2, 3):
        path.write_text(f"{value} qid:1 1:0.5\n")
        assert read_letor(path).labels.tolist() == [value]
    assert len(parses) == 3


def test_a_file_that_changes_while_it_is_parsed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.txt", 1)
    real = letor._parse_file

    def changed_first(path: Path, settings: LetorSettings) -> RankingData:
        make(path, 2)
        return real(path, settings)

    with monkeypatch.context() as patch:
        patch.setattr(letor, "_parse_file", changed_first)
        read_letor(path)
    make(path, 1)
    assert read_letor(path).labels.tolist() == [1, 0]


def test_a_copy_elsewhere_finds_the_same_entry(tmp_path: Path, parses: list[str]) -> None:
    read_letor(make(tmp_path / "a.txt"))
    read_letor(make(tmp_path / "b.txt"))
    assert len(parses) == 1


def test_other_settings_make_another_entry(tmp_path: Path, parses: list[str]) -> None:
    path = make(tmp_path / "a.txt")
    plain = read_letor(path)
    scaled = read_letor(path, LetorSettings(normalise="query_minmax"))
    assert len(parses) == 2
    assert plain.features[0, 0] == 0.5
    assert scaled.features[0, 0] == 0


def test_a_damaged_entry_is_made_again(tmp_path: Path, parses: list[str]) -> None:
    path = make(tmp_path / "a.txt")
    read_letor(path)
    (entry,) = entries()
    (entry / "features.npy").write_bytes(b"short")
    assert read_letor(path).features[0, 0] == 0.5
    (entry / "entry.json").write_text("{")
    assert read_letor(path).features[0, 0] == 0.5
    assert len(parses) == 3
    read_letor(path)
    assert len(parses) == 3


def test_a_writer_that_dies_leaves_no_half_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a.txt")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            read_letor(path)
    assert all(entry.name.startswith(".partial-") for entry in entries())
    assert read_letor(path).n_rows == 2


def test_a_cache_that_cannot_be_written_costs_speed_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CLOISTER_CACHE", str(blocked / "cache"))
    assert read_letor(make(tmp_path / "a.txt")).n_rows == 2
