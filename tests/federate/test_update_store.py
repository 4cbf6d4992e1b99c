"""Kept updates: in memory and in a database, as updates and as lengths."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from cloister.core.errors import Conflict, Damaged, SettingsError
from cloister.core.random import stream
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.federate.tampering import Sent
from cloister.federate.update_store import Keep, MemoryUpdateStore, UpdateStore, lengths_of
from cloister.store.database import Database

N_PARAMETERS = 7
KINDS = ("memory", "database")


def _sent(round: int, clients: list[int], seed: int = 1) -> Sent:
    rng = stream(seed, "test", "sent", round)
    updates = rng.normal(size=(len(clients), N_PARAMETERS)).astype(np.float32).astype(np.float64)
    return Sent(updates, np.array(clients, np.int64), np.zeros(N_PARAMETERS), round)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., UpdateStore]:
    def store(kind: str, *, keep_every: int = 2, keep: Keep = "updates") -> UpdateStore:
        if kind == "memory":
            return MemoryUpdateStore(keep_every=keep_every, keep=keep)
        database = Database.open(tmp_path / f"{keep_every}-{keep}.db")
        return DatabaseUpdateStore(database, keep_every=keep_every, keep=keep)

    return store


@given(
    arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6, allow_subnormal=False)),
)
def test_lengths_are_euclidean(updates: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(lengths_of(updates), np.linalg.norm(updates, axis=1), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", ["updates", "lengths"])
def test_every_so_many_rounds_are_kept(
    make: Callable[..., UpdateStore], kind: str, keep: Keep
) -> None:
    store = make(kind, keep_every=3, keep=keep)
    for number in range(8):
        store.observe(_sent(number, [4, 0, 2]))
    kept = store.kept_rounds()
    assert [one.round for one in kept] == [0, 3, 6]
    for one in kept:
        sent = _sent(one.round, [4, 0, 2])
        order = [1, 2, 0]
        assert one.clients.tolist() == [0, 2, 4]
        np.testing.assert_allclose(
            one.lengths, np.linalg.norm(sent.updates[order], axis=1), rtol=1e-12
        )
        if keep == "updates":
            assert one.updates is not None
            assert np.array_equal(one.updates, sent.updates[order].astype(np.float32))
        else:
            assert one.updates is None
    assert store.size(N_PARAMETERS) == (9, 9 * 4 * N_PARAMETERS, 9 * 8)


@pytest.mark.parametrize("keep", ["updates", "lengths"])
def test_memory_and_database_keep_the_same(make: Callable[..., UpdateStore], keep: Keep) -> None:
    stores = [make(kind, keep=keep) for kind in KINDS]
    for store in stores:
        for number in range(6):
            store.observe(_sent(number, [5, 1, number + 10]))
        store.forget([1])
    assert stores[0].digest() == stores[1].digest()
    assert make("memory", keep=keep).digest() != stores[0].digest()


def test_updates_and_lengths_have_the_same_lengths() -> None:
    whole, short = MemoryUpdateStore(keep="updates"), MemoryUpdateStore(keep="lengths")
    sent = _sent(0, [0, 1, 2])
    sent = sent._replace(updates=sent.updates * np.pi)  # as an attacker's: not single precision
    for store in (whole, short):
        store.observe(sent)
    (one,), (other,) = whole.kept_rounds(), short.kept_rounds()
    assert one.updates is not None
    assert np.array_equal(one.lengths, other.lengths)
    assert np.array_equal(one.lengths, lengths_of(one.updates.astype(np.float64)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_can_be_read_as_one_of_a_longer_interval(
    make: Callable[..., UpdateStore], kind: str
) -> None:
    often, seldom = make(kind, keep_every=2), make(kind, keep_every=6)
    for number in range(14):
        for store in (often, seldom):
            store.observe(_sent(number, [0, 1]))
    found, expected = often.kept_rounds(every=6), seldom.kept_rounds()
    assert [one.round for one in found] == [0, 6, 12]
    assert all(np.array_equal(a.lengths, b.lengths) for a, b in zip(found, expected, strict=True))
    with pytest.raises(SettingsError, match="multiple of 2"):
        often.kept_rounds(every=5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_is_not_kept(make: Callable[..., UpdateStore], kind: str) -> None:
    store, sent = make(kind), _sent(0, [0, 1, 2, 3])
    sent.updates[1, 0], sent.updates[2, 3], sent.updates[3, 0] = np.nan, -np.inf, 1e60
    store.observe(sent)
    (kept,) = store.kept_rounds()
    assert kept.clients.tolist() == [0]


@pytest.mark.parametrize("kind", KINDS)
def test_forgetting_deletes_the_client_and_no_other(
    make: Callable[..., UpdateStore], kind: str
) -> None:
    store, without = make(kind, keep_every=1), make("memory", keep_every=1)
    for number in range(4):
        store.observe(_sent(number, [0, 3, 1, 2]))
        sent = _sent(number, [0, 3, 1, 2])
        stay = [0, 2]
        without.observe(sent._replace(updates=sent.updates[stay], clients=sent.clients[stay]))
    assert store.forget([3, 2]) == 8
    assert store.forget([3, 2]) == 0
    assert store.digest() == without.digest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_is_kept_once(make: Callable[..., UpdateStore], kind: str) -> None:
    store = make(kind)
    store.observe(_sent(2, [0]))
    for late in (2, 0):
        with pytest.raises(Conflict, match="kept already"):
            store.observe(_sent(late, [0]))


@pytest.mark.parametrize(("keep_every", "keep"), [(0, "updates"), (1, "everything")])
def test_wrong_settings_are_refused(keep_every: int, keep: Keep) -> None:
    with pytest.raises(SettingsError):
        MemoryUpdateStore(keep_every=keep_every, keep=keep)


def test_forgetting_removes_the_bytes_from_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Database.open(path) as database:
        store = DatabaseUpdateStore(database, keep_every=1, keep="updates")
        for number in range(50):
            store.observe(_sent(number, [0, 1]))
    rows = [_sent(number, [0, 1]).updates.astype("<f4") for number in range(50)]
    assert all(row[1].tobytes() in path.read_bytes() for row in rows)
    with Database.open(path) as database:
        DatabaseUpdateStore(database, keep_every=1, keep="updates").forget([1])
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert all(row[0].tobytes() in content for row in rows)
    assert not any(row[1].tobytes() in content for row in rows)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("length = 9e999", "not a finite number"),
        ("length = -9e999", "not a finite number"),
        ("length = -1.0", "not a finite number"),
        ("length = 'long'", "not a finite number"),
        ("content = x'000000'", "differ in length"),
        ("content = NULL", "is missing"),
    ],
)
def test_damaged_rows_are_called_damaged(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "store.db"
    with Database.open(path) as database:
        store = DatabaseUpdateStore(database, keep_every=1, keep="updates")
        store.observe(_sent(0, [0, 1, 2]))
        assert len(store.kept_rounds()) == 1
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute(f"UPDATE cloister_kept_update SET {change} WHERE client = 1")
        with pytest.raises(Damaged, match=words):
            store.kept_rounds()


_CHILD = """
import sys
import numpy as np
from cloister.federate.tampering import Sent
from cloister.federate.database_update_store import DatabaseUpdateStore
from cloister.store.database import Database
store = DatabaseUpdateStore(Database.open(sys.argv[1]), keep_every=1, keep="updates")
clients = np.arange(50)
for number in range(100_000):
    store.observe(Sent(np.full((50, 7), number + 1.0), clients, np.zeros(7), number))
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_whole_rounds(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    command = [sys.executable, "-c", _CHILD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [int(child.stdout.readline()) for _ in range(20)]
        child.kill()
        said += [int(line) for line in child.stdout.read().splitlines()]
    with Database.open(path) as database:
        kept = DatabaseUpdateStore(database, keep_every=1, keep="updates").kept_rounds()
    assert [one.round for one in kept] == list(range(len(kept)))
    assert len(kept) > said[-1]  # what was said to be kept is kept
    for one in kept:
        assert len(one.clients) == 50
        assert one.updates is not None
        assert (one.updates == one.round + 1.0).all()
