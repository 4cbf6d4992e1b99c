from __future__ import annotations

from pathlib import Path

import pytest

from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.data.letor_folder import find_letor
from cloister.data.worlds import address
from cloister.data.worlds.address import open_world, write_world
from cloister.data.worlds.features import FeaturesWorld
from cloister.data.worlds.intents import IntentsWorld, read_intents

SMALL = "features?queries=4&documents=3&features=5"


def test_an_unknown_world_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="features, intents, clinic"):
        open_world("world:mars")


def test_what_was_written_is_the_world(tmp_path: Path) -> None:
    world = open_world(SMALL)
    assert isinstance(world, FeaturesWorld)
    folder = write_world(world, tmp_path / "w")
    fold = find_letor(folder).load_fold()
    assert fold.test.features.tolist() == world.data("test").features.tolist()
    assert fold.test.labels.tolist() == world.data("test").labels.tolist()
    assert list(fold.train.query_ids) == list(world.data("train").query_ids)


def test_intents_are_written_beside_their_rows(tmp_path: Path) -> None:
    world = open_world("intents?queries=4&documents=20&features=5&intents=3")
    assert isinstance(world, IntentsWorld)
    found = read_intents(write_world(world, tmp_path / "w"))
    expected = {part: world.data(part).intent_labels.tolist() for part in ("test", "train", "vali")}
    assert found.intent_labels.tolist() == expected["test"] + expected["train"] + expected["vali"]


def test_a_writer_that_dies_leaves_no_folder_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(address, "_write_settings", dies)
        with pytest.raises(KeyboardInterrupt):
            write_world(open_world(SMALL), tmp_path / "w")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_once_do_not_mix_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = address._write_settings
    inner: list[Path] = []

    def another_writer_first(settings: Settings, folder: Path) -> None:
        if not inner:
            inner.append(folder)
            write_world(open_world(SMALL), tmp_path / "w")
        real(settings, folder)

    monkeypatch.setattr(address, "_write_settings", another_writer_first)
    with pytest.raises(SettingsError, match="cannot be written"):
        write_world(open_world(SMALL), tmp_path / "w")
    assert {path.name for path in tmp_path.iterdir()} == {"w"}
    assert len(list((tmp_path / "w").iterdir())) == 4


def test_a_world_can_be_written_into_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert len(list(write_world(open_world(SMALL), ".").iterdir())) == 4


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SettingsError, match="not empty"):
        write_world(open_world(SMALL), tmp_path)
    with pytest.raises(SettingsError, match="not empty"):
        write_world(open_world(SMALL), tmp_path / "letter.txt")
    with pytest.raises(SettingsError, match="cannot be written"):
        write_world(open_world(SMALL), tmp_path / "letter.txt" / "w")
