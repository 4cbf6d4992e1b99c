"""Files: what was put is what is read, or an error."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import signal
import stat
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloister.core.errors import Damaged, DataError, NotFound, StoreError
from cloister.core.ids import content_id
from cloister.store import incoming
from cloister.store.files import CHUNK_BYTES, FileRef, Files

CONTENT = b"ora et labora" * 1000
DIGEST = content_id(CONTENT)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "files")


def damage(path: Path, position: int = 5) -> None:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)


def left_over(files: Files) -> list[Path]:
    return list((files.root / "incoming").iterdir())


@given(content=st.binary(max_size=3000))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_bytes_come_back_under_their_sha256(files: Files, content: bytes) -> None:
    ref = files.put(content)
    assert ref == (hashlib.sha256(content).hexdigest(), len(content))
    assert files.read(ref.digest) == content


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
def test_bytes_paths_and_streams_give_the_same_file(
    files: Files, tmp_path: Path, size: int
) -> None:
    content = os.urandom(size)
    source = tmp_path / "source"
    source.write_bytes(content)
    stream = io.BytesIO(content)
    refs = {files.put(form) for form in (content, bytearray(content), source, stream)}
    assert refs == {FileRef(content_id(content), size)}
    assert not stream.closed
    assert list(files.digests()) == [content_id(content)]
    assert left_over(files) == []


def test_the_same_content_put_by_many_threads_is_stored_once(files: Files) -> None:
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(lambda _: Files(files.root).put(CONTENT), range(40)))
    assert set(refs) == {FileRef(DIGEST, len(CONTENT))}
    assert list(files.digests()) == [DIGEST]
    assert left_over(files) == []


def test_different_contents_put_by_many_threads_are_all_there(files: Files) -> None:
    contents = [str(number).encode() for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(files.put, contents))
    assert [files.read(ref.digest) for ref in refs] == contents
    assert files.verify() == (100, sum(map(len, contents)), ())


@pytest.mark.parametrize("position", [0, 5, -1])
def test_one_flipped_bit_is_detected_everywhere(files: Files, position: int) -> None:
    sound = files.put(b"sound")
    ref = files.put(CONTENT)
    damage(files.path(DIGEST), position)
    with pytest.raises(Damaged, match="checksum"):
        files.read(DIGEST)
    with pytest.raises(Damaged, match="checksum"):
        files.path(DIGEST)
    assert files.path(DIGEST, verify=False).exists()
    assert files.verify() == (2, ref.size_bytes + sound.size_bytes, (DIGEST,))


def test_a_truncated_file_is_detected(files: Files) -> None:
    files.put(CONTENT)
    path = files.path(DIGEST)
    path.chmod(0o600)
    os.truncate(path, 100)
    with pytest.raises(Damaged):
        files.read(DIGEST)


def test_putting_the_content_again_repairs_a_damaged_file(files: Files) -> None:
    files.put(CONTENT)
    damage(files.path(DIGEST))
    files.put(CONTENT)
    assert files.read(DIGEST) == CONTENT


def test_stored_files_are_private_and_not_writable(files: Files) -> None:
    files.put(CONTENT)
    assert stat.S_IMODE(files.path(DIGEST).stat().st_mode) == 0o400
    assert stat.S_IMODE(files.root.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "digest",
    [
        "../..",
        "../../../../etc/passwd",
        "",
        DIGEST[:-1],
        DIGEST + "0",
        DIGEST + "\n",
        DIGEST.upper(),
        "/" + DIGEST[1:],
        "..%2f" + DIGEST[5:],
        "\x00" * 64,
        "٣" * 64,
        None,
        7,
    ],
)
def test_a_bad_digest_never_becomes_a_path(files: Files, digest: Any) -> None:
    for act in (files.read, files.path, files.__contains__):
        with pytest.raises(DataError, match="64 hexadecimal digits"):
            act(digest)
    with pytest.raises(DataError):
        files.remove_unreferenced([digest], older_than_s=0)


def test_an_unknown_digest_is_not_found(files: Files) -> None:
    assert DIGEST not in files
    for act in (files.read, files.path, lambda digest: files.path(digest, verify=False)):
        with pytest.raises(NotFound):
            act(DIGEST)
    files.put(CONTENT)
    assert DIGEST in files


def test_a_missing_source_is_not_found(files: Files, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        files.put(tmp_path / "nowhere")


def test_a_stream_that_fails_leaves_nothing(files: Files) -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("the line went dead")

    with pytest.raises(StoreError, match="the line went dead"):
        files.put(Failing())
    assert list(files.digests()) == []
    assert left_over(files) == []


def test_a_writer_that_cannot_settle_leaves_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="free some space"):
        files.put(CONTENT)
    assert list(files.digests()) == []
    assert left_over(files) == []


def test_what_a_killed_writer_left_is_removed_but_not_what_a_living_one_writes(
    files: Files, spawn: Callable[..., Any]
) -> None:
    child = spawn("hang_storing", str(files.root))
    assert child.stdout.readline() == "half\n"
    assert len(left_over(files)) == 1
    Files(files.root)
    files.remove_unreferenced([])
    assert len(left_over(files)) == 1
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert len(left_over(files)) == 1
    Files(files.root)
    assert list(files.digests()) == []
    assert left_over(files) == []


def test_a_sweep_between_making_and_locking_costs_the_writer_only_a_second_try(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    n_swept: list[int] = []

    def sweep_first(stream: Any, operation: int) -> None:
        if not n_swept:
            n_swept.append(0)
            n_swept[0] = incoming.sweep(files.root / "incoming")
        lock(stream, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    files.put(CONTENT)
    assert n_swept == [1]
    assert files.read(DIGEST) == CONTENT


def test_unreferenced_files_are_removed_and_the_others_kept(files: Files) -> None:
    kept, lost = files.put(b"kept"), files.put(b"lost")
    assert files.remove_unreferenced([kept.digest]) == ()  # too new: within the time of grace
    assert files.remove_unreferenced([kept.digest], older_than_s=0) == (lost,)
    assert list(files.digests()) == [kept.digest]
    assert files.read(kept.digest) == b"kept"


def test_content_that_is_put_again_is_spared(files: Files) -> None:
    old, renewed = files.put(b"old"), files.put(b"renewed")
    for ref in (old, renewed):
        os.utime(files.path(ref.digest), (0, 0))
    files.put(b"renewed")
    assert files.remove_unreferenced([]) == (old,)
    assert list(files.digests()) == [renewed.digest]


def test_a_removal_waits_for_content_that_is_being_put_again(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put(CONTENT)
    os.utime(files.path(DIGEST), (0, 0))
    renew = os.utime

    with ThreadPoolExecutor(1) as pool:

        def renew_during_a_removal(path: Path) -> None:
            """Stand where the old file was found sound and is not yet renewed."""
            removals.append(pool.submit(files.remove_unreferenced, []))
            with pytest.raises(TimeoutError):
                removals[0].result(timeout=0.2)
            renew(path)

        removals: list[Future[tuple[FileRef, ...]]] = []
        monkeypatch.setattr(os, "utime", renew_during_a_removal)
        files.put(CONTENT)
        assert removals[0].result(timeout=10) == ()
    assert DIGEST in files


def test_a_large_stream_needs_little_memory(files: Files) -> None:
    class Zeros(io.RawIOBase):
        n_left = 64 * CHUNK_BYTES

        def read(self, size: int = -1) -> bytes:
            size = min(size, self.n_left)
            self.n_left -= size
            return bytes(size)

    tracemalloc.start()
    ref = files.put(Zeros())  # type: ignore[arg-type]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ref.size_bytes == 64 * CHUNK_BYTES
    assert peak_bytes < 8 * CHUNK_BYTES


def test_a_reader_keeps_its_mapping_when_the_file_is_replaced_or_removed(files: Files) -> None:
    import mmap

    files.put(CONTENT)
    with files.path(DIGEST).open("rb") as stream:
        mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    files.remove_unreferenced([], older_than_s=0)
    assert mapping[:] == CONTENT
    mapping.close()


def test_the_bytes_are_on_the_disk_before_they_have_their_name(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write, synchronise, rename, synchronise the folder, in this order."""
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def log_fsync(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        events.append("fsync folder" if folder else "fsync file")
        fsync(descriptor)

    def log_rename(path: Path, target: Path) -> Path:
        assert path.stat().st_size == len(CONTENT)
        events.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", log_fsync)
    monkeypatch.setattr(Path, "rename", log_rename)
    files.put(CONTENT)
    assert events == ["fsync file", "rename", "fsync folder"]
