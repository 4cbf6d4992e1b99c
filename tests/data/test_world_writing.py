from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cloister.core.contention import Busy
from cloister.core.errors import NotFound, SettingsError
from cloister.core.settings import Settings
from cloister.data.letor_folder import find_letor
from cloister.data.worlds import writing
from cloister.data.worlds.address import open_world
from cloister.data.worlds.features import FeaturesWorld
from cloister.data.worlds.intents import IntentsWorld, read_intents
from cloister.data.worlds.writing import write_world

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
        patch.setattr(writing, "_write_settings", dies)
        with pytest.raises(KeyboardInterrupt):
            write_world(open_world(SMALL), tmp_path / "w")
    assert not (tmp_path / "w").exists()
    write_world(open_world(SMALL), tmp_path / "w")  # goes on and completes it
    assert {path.name for path in tmp_path.iterdir()} == {"w"}
    assert len(list((tmp_path / "w").iterdir())) == 4


def test_a_second_writer_waits_for_the_first_with_a_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAIT_S", 0.1)
    real = writing._write_settings

    def another_writer(settings: Settings, folder: Path) -> None:
        with pytest.raises(Busy, match="another process is changing this folder"):
            write_world(open_world(SMALL), tmp_path / "w")
        real(settings, folder)

    monkeypatch.setattr(writing, "_write_settings", another_writer)
    write_world(open_world(SMALL), tmp_path / "w")
    assert len(list((tmp_path / "w").iterdir())) == 4


def test_a_killed_clinic_writer_is_resumed_where_it_was(tmp_path: Path) -> None:
    address = "clinic?servers=2&pods=400&staff=4&queries=3&document_bytes=0"
    whole = write_world(open_world(address), tmp_path / "whole")
    code = (
        "import os, signal\n"
        "from cloister.data.worlds.address import open_world\n"
        "from cloister.data.worlds.writing import write_world\n"
        "def die(done, total):\n"
        "    if done >= 512: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_world(open_world({address!r}), {str(tmp_path / 'resumed')!r}, die)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "resumed").exists()
    (corpus,) = tmp_path.glob(".resumed.*/corpus.jsonl")
    corpus.write_bytes(corpus.read_bytes() + b'{"half a line')  # written after the last note
    steps: list[int] = []
    resumed = write_world(open_world(address), tmp_path / "resumed", lambda at, _: steps.append(at))
    assert steps[0] > 512
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert names == sorted(p.relative_to(resumed) for p in resumed.rglob("*") if p.is_file())
    assert all((whole / name).read_bytes() == (resumed / name).read_bytes() for name in names)
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "resumed"}


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
    with pytest.raises(NotFound, match="a file, not a folder"):
        write_world(open_world(SMALL), tmp_path / "letter.txt" / "w")
