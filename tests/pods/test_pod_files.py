from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import CloisterError, SettingsError, StoreError
from cloister.pods.pod_files import INCOMING, PodFiles, checked_name

SECRET = b"secret"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def files(tmp_path: Path) -> PodFiles:
    (tmp_path / "pod").mkdir()
    return PodFiles(tmp_path / "pod")


def read(files: PodFiles, name: str) -> bytes | None:
    return files.read(name, max_bytes=100)


def test_what_is_written_is_read_and_listed(files: PodFiles) -> None:
    files.write("a/b/c.txt", b"1")
    files.write("a/b/c.txt", b"2")
    files.write("z.txt", b"3")
    assert read(files, "a/b/c.txt") == b"2"
    assert names(files) == ["z.txt", "a/b/c.txt"]
    assert files.delete("a/b/c.txt")
    assert not files.delete("a/b/c.txt")
    assert read(files, "a/b/c.txt") is None


def names(files: PodFiles) -> list[str]:
    return [folder.prefix + name for folder in files.walk() for name in folder.files()]


BAD = ["", "/", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "a\0b", "a/"]


@pytest.mark.parametrize("name", BAD)
def test_a_name_cannot_lead_out(files: PodFiles, name: str) -> None:
    for attempt in (
        lambda: read(files, name),
        lambda: files.write(name, b""),
        lambda: files.delete(name),
    ):
        with pytest.raises(SettingsError):
            attempt()


@given(st.text(max_size=20))
def test_a_checked_name_stays_inside(name: str) -> None:
    try:
        steps = checked_name(name)
    except SettingsError:
        return
    assert os.path.normpath("/pod/" + name) == "/pod/" + "/".join(steps)


def test_links_are_not_followed(files: PodFiles, outside: Path) -> None:
    (files.root / "link.txt").symlink_to(outside / "secret.txt")
    (files.root / "folder").symlink_to(outside)
    (files.root / "inside.txt").write_bytes(b"1")
    (files.root / "alias.txt").symlink_to(files.root / "inside.txt")
    assert names(files) == ["inside.txt"]
    for name in ("link.txt", "folder/secret.txt", "alias.txt"):
        assert read(files, name) is None
    with pytest.raises(StoreError):
        files.write("folder/new.txt", b"")
    assert not files.delete("folder/secret.txt")
    files.write("link.txt", b"2")  # takes the link's place, and does not write through it
    assert (outside / "secret.txt").read_bytes() == SECRET
    assert read(files, "link.txt") == b"2"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


def test_a_pipe_or_a_folder_is_no_file_and_nobody_waits(files: PodFiles) -> None:
    os.mkfifo(files.root / "pipe.txt")
    (files.root / "folder.txt").mkdir()
    assert read(files, "pipe.txt") is None
    assert read(files, "folder.txt") is None
    assert names(files) == []


def test_a_file_that_is_too_long_is_not_there(files: PodFiles) -> None:
    files.write("a.txt", b"x" * 101)
    assert read(files, "a.txt") is None
    assert files.find("a.txt", max_bytes=100) == (True, None, "larger than 100 bytes")


def test_hidden_files_and_names_that_are_not_utf8_are_not_listed(files: PodFiles) -> None:
    files.write(".hidden.txt", b"")
    files.write(".folder/a.txt", b"")
    Path(os.fsdecode(os.fsencode(files.root) + b"/\xff.txt")).write_bytes(b"")
    assert names(files) == []


def test_a_failed_write_leaves_the_old_file(
    files: PodFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("a.txt", b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(CloisterError):
        files.write("a.txt", b"new")
    assert read(files, "a.txt") == b"old"
    assert [path.name for path in files.root.iterdir()] == ["a.txt"]


def test_what_a_crashed_writer_left_is_swept(files: PodFiles) -> None:
    (files.root / f"{INCOMING}1").write_bytes(b"half")
    files.write("a.txt", b"1")
    assert [path.name for path in files.root.iterdir()] == ["a.txt"]
