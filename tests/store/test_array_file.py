"""The container of named arrays: what goes in comes out, and damage is refused with the reason."""

from __future__ import annotations

import hashlib
import json
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cloister.core.errors import CloisterError, Damaged, DataError, NotFound
from cloister.core.kernel import kernel
from cloister.store.array_file import (
    ALLOWED_TYPES,
    arrays_aside,
    from_bytes,
    open_arrays,
    to_bytes,
    write_arrays,
)

names = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=5,
)
headers = st.dictionaries(st.text("abcdé"), json_values, max_size=4)
any_arrays = st.dictionaries(
    names,
    st.sampled_from(ALLOWED_TYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
    ),
    max_size=4,
)
EXAMPLE = to_bytes(
    "example",
    {"rows": 3},
    {
        "ids": np.arange(5, dtype=np.int32),
        "none": np.empty(0),
        "counts": np.arange(9, dtype=np.int16),
    },
)


def rebuilt(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Change a file's description and make its checksum true again: a lie, not damage."""
    magic, version, zero, n_description, _ = struct.unpack_from("<8sIIQQ", content)
    description = json.loads(content[64 : 64 + n_description])
    change(description)
    text = json.dumps(description, sort_keys=True, separators=(",", ":")).encode()
    rest = content[64 + -(-n_description // 64) * 64 :]
    body = text + bytes(-len(text) % 64) + rest
    fixed = struct.pack("<8sIIQQ", magic, version, zero, len(text), 64 + len(body))
    return fixed + hashlib.blake2b(fixed + text, digest_size=32).digest() + body


@given(headers, any_arrays)
def test_headers_and_arrays_come_back(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    content = to_bytes("example", header, arrays)
    found = from_bytes(content, "example")
    assert found.header == header
    assert list(found.arrays) == list(arrays)
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tobytes() == array.tobytes()
        assert not found.arrays[name].flags.writeable
    assert to_bytes("example", header, arrays) == content


def test_a_file_holds_the_same_bytes_and_is_mapped(tmp_path: Path) -> None:
    found = from_bytes(EXAMPLE, "example")
    write_arrays(tmp_path / "a", "example", found.header, found.arrays)
    assert (tmp_path / "a").read_bytes() == EXAMPLE
    header, arrays = open_arrays(tmp_path / "a", "example")
    assert header == {"rows": 3}
    assert arrays["ids"].tolist() == list(range(5))
    with pytest.raises(ValueError, match="read-only"):
        arrays["ids"][0] = 1
    write_arrays(tmp_path / "a", "example", {}, {})  # what is open stays as it was
    assert arrays["ids"].tolist() == list(range(5))


def test_arrays_lie_at_multiples_of_64_bytes(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", "example", {}, from_bytes(EXAMPLE, "example").arrays)
    for array in open_arrays(tmp_path / "a", "example").arrays.values():
        assert not array.size or array.ctypes.data % 64 == 0


def test_kernels_take_mapped_arrays(tmp_path: Path) -> None:
    @kernel
    def total(values: Any) -> int:
        result = 0
        for value in values:
            result += value
        return result

    write_arrays(tmp_path / "a", "example", {}, {"ids": np.arange(5, dtype=np.int32)})
    assert total(open_arrays(tmp_path / "a", "example").arrays["ids"]) == 10


def test_byte_order_and_layout_of_the_given_arrays_do_not_matter() -> None:
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    expected = to_bytes("example", {}, {"table": table})
    for same in (
        table.astype(">i4"),
        np.asfortranarray(table),
        np.repeat(table, 2, axis=1)[:, ::2],
    ):
        assert to_bytes("example", {}, {"table": same}) == expected


@given(st.integers(0, len(EXAMPLE) * 8 - 1))
def test_a_flipped_bit_anywhere_is_refused(bit: int) -> None:
    content = bytearray(EXAMPLE)
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises((Damaged, DataError)):
        from_bytes(bytes(content), "example")


def test_every_byte_of_every_region_counts() -> None:
    for place in range(len(EXAMPLE)):
        content = bytearray(EXAMPLE)
        content[place] ^= 0x10
        with pytest.raises((Damaged, DataError)):
            from_bytes(bytes(content), "example")


def test_every_shortened_file_is_refused(tmp_path: Path) -> None:
    for n_bytes in range(len(EXAMPLE)):
        with pytest.raises((Damaged, DataError)):
            from_bytes(EXAMPLE[:n_bytes], "example")
    (tmp_path / "a").write_bytes(EXAMPLE[:-1])
    with pytest.raises(Damaged, match=r"a: the file is cut off: \d+ bytes"):
        open_arrays(tmp_path / "a", "example", verify=False)


@given(st.binary(min_size=1, max_size=100))
def test_bytes_after_the_end_are_refused(more: bytes) -> None:
    with pytest.raises(Damaged, match="something follows"):
        from_bytes(EXAMPLE + more, "example")


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(CloisterError):
        from_bytes(content, "example")
    with pytest.raises(CloisterError):
        from_bytes(EXAMPLE[:64] + content, "example")


def test_the_reason_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("something else")
    with pytest.raises(DataError, match="text: not an array file"):
        open_arrays(tmp_path / "text", "example")
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match="empty: not a sketch file"):
        open_arrays(tmp_path / "empty", "example", what="a sketch file")
    with pytest.raises(DataError, match="example bytes: not a sketch file"):
        from_bytes(b"something else", "example", what="a sketch file")
    with pytest.raises(NotFound, match="no such file"):
        open_arrays(tmp_path / "none", "example")
    with pytest.raises(DataError, match="kind 'example', where 'count-sketch' is needed"):
        from_bytes(EXAMPLE, "count-sketch")
    newer = EXAMPLE[:8] + struct.pack("<I", 2) + EXAMPLE[12:]
    with pytest.raises(DataError, match="format 2, this version reads 1"):
        from_bytes(newer, "example")
    with pytest.raises(Damaged, match="array counts does not match"):
        from_bytes(EXAMPLE[:-1] + b"\xff", "example")


def test_only_asking_for_it_skips_the_checksums_of_arrays() -> None:
    content = EXAMPLE[:-1] + b"\x7f"
    assert from_bytes(content, "example", verify=False).arrays["counts"][-1] == 0x7F08
    with pytest.raises(Damaged, match="description"):
        from_bytes(EXAMPLE[:70] + b"\xff" + EXAMPLE[71:], "example", verify=False)


def _set(place: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda description: description["arrays"][place].update(fields)


@pytest.mark.parametrize(
    "change",
    [
        _set(0, shape=[1 << 60]),
        _set(0, shape=[1 << 40, 1 << 40]),
        _set(0, shape=[1 << 70]),
        _set(0, shape=[-5]),
        _set(0, shape=[5.0]),
        _set(0, shape=[True] * 5),
        _set(0, shape=5),
        _set(0, shape=[1] * 33),
        _set(0, shape=[6]),
        _set(0, shape=[4]),
        _set(1, shape=[0, 1 << 61]),
        _set(0, offset=64),
        _set(2, offset=0),
        _set(2, offset=-64),
        _set(2, offset=1 << 61),
        _set(0, dtype="<i8"),
        _set(0, dtype=">i4"),
        _set(0, dtype="|O"),
        _set(0, dtype=["<i4"]),
        _set(0, name="../ids"),
        _set(0, name="counts"),
        _set(0, name=3),
        _set(0, digest="00" * 32),
        _set(0, digest=None),
        _set(0, more=1),
        lambda description: description["arrays"][0].pop("digest"),
        lambda description: description["arrays"].pop(),
        lambda description: description["arrays"].append("something"),
        lambda description: description.update(arrays=3),
        lambda description: description.update(header=[1]),
        lambda description: description.update(more=1),
        lambda description: description.pop("kind"),
    ],
)
def test_a_description_that_lies_is_refused_without_a_large_allocation(change: Any) -> None:
    import tracemalloc

    content = rebuilt(EXAMPLE, change)
    tracemalloc.start()
    try:
        with pytest.raises((Damaged, DataError)):
            from_bytes(content, "example")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_arrays_that_begin_beyond_two_gigabytes_are_read(tmp_path: Path) -> None:
    n_bytes = 3 << 30  # in a file that is nearly all holes
    empty = to_bytes("example", {}, {"a": np.empty(0, np.int8), "b": np.empty(0, np.int8)})

    def large(description: dict[str, Any]) -> None:
        description["arrays"][0].update(shape=[n_bytes])
        description["arrays"][1].update(shape=[n_bytes], offset=n_bytes)

    head = bytearray(rebuilt(empty, large))
    n_description = struct.unpack_from("<Q", head, 16)[0]
    struct.pack_into("<Q", head, 24, len(head) + 2 * n_bytes)
    text = bytes(head[64 : 64 + n_description])
    head[32:64] = hashlib.blake2b(head[:32] + text, digest_size=32).digest()
    with (tmp_path / "a").open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + 2 * n_bytes)
    found = open_arrays(tmp_path / "a", "example", verify=False).arrays
    assert found["b"].shape == (n_bytes,)
    assert found["b"][-1] == 0


@pytest.mark.parametrize("shape", [(0, 1 << 60), (1,) * 33])
def test_shapes_that_would_not_be_read_are_not_written(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="array a"):
        to_bytes("example", {}, {"a": np.empty(shape, np.int8)})


def test_a_file_made_aside_is_in_its_place_when_it_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_arrays(path, "example", {"new": False}, {})
    with arrays_aside(path, "example", {"new": True}, {"a": np.zeros(3)}) as put_in_place:
        assert open_arrays(path, "example").header == {"new": False}
        put_in_place()
        assert open_arrays(path, "example").header == {"new": True}
    with pytest.raises(KeyError), arrays_aside(path, "example", {"new": 3}, {}):
        raise KeyError
    assert open_arrays(path, "example").header == {"new": True}
    assert not list((tmp_path / ".incoming").iterdir())


def test_a_description_rebuilt_without_a_change_is_read() -> None:
    assert rebuilt(EXAMPLE, lambda description: None) == EXAMPLE


def test_a_length_beyond_the_file_is_refused() -> None:
    for n_description in (len(EXAMPLE), 1 << 40, (1 << 64) - 1):
        content = EXAMPLE[:16] + struct.pack("<Q", n_description) + EXAMPLE[24:]
        with pytest.raises(Damaged, match="contradict"):
            from_bytes(content, "example")


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff", b""])
def test_a_description_that_is_no_json_is_refused(text: bytes) -> None:
    fixed = struct.pack("<8sIIQQ", EXAMPLE[:8], 1, 0, len(text), 64 + len(text))
    content = fixed + hashlib.blake2b(fixed + text, digest_size=32).digest() + text
    with pytest.raises(DataError, match="cannot be read"):
        from_bytes(content, "example")


@pytest.mark.parametrize(
    ("kind", "header", "arrays", "reason"),
    [
        ("Example", {}, {}, "a name has"),
        ("", {}, {}, "a name has"),
        ("example", {}, {"a b": np.zeros(1)}, "a name has"),
        ("example", {}, {"a": np.array(["text"])}, "not stored"),
        ("example", {}, {"a": np.array([None])}, "not stored"),
        ("example", {}, {"a": np.zeros(1, np.complex128)}, "not stored"),
        ("example", {"a": float("nan")}, {}, "JSON"),
        ("example", {"a": {1}}, {}, "JSON"),
        ("example", {1: 1}, {}, "no strings"),
        ("example", {"a": {1: 1, "1": 1}}, {}, "JSON|no strings"),
        ("example", {"a": "x" * (1 << 24)}, {}, "too long"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    kind: str, header: Any, arrays: Any, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=reason):
        write_arrays(tmp_path / "a", kind, header, arrays)
    assert not list(tmp_path.iterdir())


def test_only_the_owner_may_read_a_file(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a", "example", {}, {})
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such folder"):
        write_arrays(tmp_path / "none" / "a", "example", {}, {})
    with pytest.raises(NotFound, match="a folder, not a file"):
        write_arrays(tmp_path, "example", {}, {})


WRITE_AND_DIE = """
import os, signal, sys
import numpy as np
from cloister.store.array_file import write_arrays
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
write_arrays(sys.argv[1], "example", {"new": True}, {"table": np.ones(100_000)})
"""


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_arrays(path, "example", {"new": False}, {"table": np.zeros(10)})
    child = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert open_arrays(path, "example").header == {"new": False}
    assert len(list((tmp_path / ".incoming").iterdir())) == 1
    write_arrays(path, "example", {"new": True}, {})
    assert open_arrays(path, "example").header == {"new": True}
    assert not list((tmp_path / ".incoming").iterdir())
