"""KeyedState: a dict with versions, inside the caller's transaction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from cloister.core.errors import Conflict, SettingsError, StoreError
from cloister.store.database import Database
from cloister.store.keyed_state import KeyedState

_number = itertools.count()
_same_database = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture
def database(open_database: Callable[..., Database]) -> Database:
    database = open_database()
    database.migrate(KeyedState.schema)
    return database


def test_a_new_record_has_version_one_and_each_change_adds_one(database: Database) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        assert state.get(connection, "k") is None
        assert state.put(connection, "k", "a") == 1
        assert state.put(connection, "k", "a") == 2
        assert state.get(connection, "k") == ("a", 2)


def test_a_wrong_expected_version_is_a_conflict_and_undoes_the_transaction(
    database: Database,
) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        state.put(connection, "k", "a", expected_version=0)

    def put_both(connection: sa.Connection) -> None:
        state.put(connection, "other", 1)
        state.put(connection, "k", "b", expected_version=0)

    with pytest.raises(Conflict, match=r"n/k: the record has version 1, not 0; read it again"):
        database.run(put_both)
    with pytest.raises(Conflict, match="version 0, not 5"), database.transaction() as connection:
        state.put(connection, "missing", "b", expected_version=5)
    with pytest.raises(Conflict), database.transaction() as connection:
        state.delete(connection, "k", expected_version=2)
    with database.reading() as connection:
        assert state.keys(connection) == ["k"]
        assert state.get(connection, "k") == ("a", 1)


def test_an_old_version_does_not_fit_a_record_that_was_deleted_and_put_again(
    database: Database,
) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        old = state.put(connection, "k", "a")
        assert state.delete(connection, "k", expected_version=old)
        assert not state.delete(connection, "k")
        assert state.get(connection, "k") is None
        assert state.put(connection, "k", "a", expected_version=0) > old
        with pytest.raises(Conflict):
            state.put(connection, "k", "b", expected_version=old)


def test_null_is_a_value_and_not_a_deletion(database: Database) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        state.put(connection, "k", None)
        assert state.get(connection, "k") == (None, 1)
        assert state.keys(connection) == ["k"]


def test_namespaces_and_prefixes_keep_keys_apart(database: Database) -> None:
    left, right = KeyedState("left"), KeyedState("right")
    with database.transaction() as connection:
        for key in ("b", "B", "a%1", "a_2", "aX3", "ä", "Ä", "😀"):
            left.put(connection, key, key)
        right.put(connection, "b", "right")
        assert left.keys(connection) == sorted(("b", "B", "a%1", "a_2", "aX3", "ä", "Ä", "😀"))
        assert left.keys(connection, prefix="b") == ["b"]  # case matters
        assert left.keys(connection, prefix="a%") == ["a%1"]  # no wildcards
        assert left.keys(connection, prefix="a_") == ["a_2"]
        assert left.keys(connection, prefix="ä") == ["ä"]
        assert right.get(connection, "b") == ("right", 1)


def test_records_change_together_with_the_callers_tables(database: Database) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE own (n INTEGER)"))

    def change_both(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO own VALUES (1)"))
        state.put(connection, "a", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(change_both)
    with database.reading() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM own")) == 0
        assert state.keys(connection) == []


@given(value=json_values)
@settings(_same_database, max_examples=60)
def test_json_comes_back_as_it_was(database: Database, value: Any) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        state.put(connection, "k", value)
        entry = state.get(connection, "k")
    assert entry is not None
    assert entry.value == value
    assert repr(entry.value) == repr(value) or isinstance(value, dict | list)


@pytest.mark.parametrize(
    "value",
    ["\x00", "\ud800", "日本語 😀", {"": {"": [[[]], {}]}}, 10**300, -0.0, 5e-324, 0.1 + 0.2],
)
def test_awkward_values_come_back_as_they_were(database: Database, value: Any) -> None:
    state = KeyedState("n")
    with database.transaction() as connection:
        state.put(connection, "k", value)
        entry = state.get(connection, "k")
    assert entry is not None
    assert repr(entry.value) == repr(value)


def test_a_large_value_comes_back_as_it_was(database: Database) -> None:
    state = KeyedState("n")
    value: Any = {"list": list(range(200_000)), "text": "ä" * 1_000_000}
    with database.transaction() as connection:
        state.put(connection, "k", value)
    with database.reading() as connection:
        assert state.get(connection, "k") == (value, 1)


def _nested(depth: int) -> Any:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, {1: "a"}, {None: 1}, (1, 2), {1, 2}, b"bytes", object(), _nested(100_000)],
    ids=["nan", "inf", "int key", "null key", "tuple", "set", "bytes", "object", "too deep"],
)
def test_what_json_would_change_is_refused(database: Database, value: Any) -> None:
    with pytest.raises(StoreError, match="would not come"), database.transaction() as connection:
        KeyedState("n").put(connection, "k", value)


@pytest.mark.parametrize("key", ["", "two words", "a\x00b", "\ud800", "x" * 513, "😀" * 300])
def test_a_bad_key_is_refused(database: Database, key: str) -> None:
    with pytest.raises(SettingsError):
        KeyedState(key)
    with database.transaction() as connection:
        for act in (KeyedState("n").get, KeyedState("n").delete):
            with pytest.raises(SettingsError):
                act(connection, key)
        with pytest.raises(SettingsError):
            KeyedState("n").put(connection, key, 1)


def test_the_longest_names_fit_into_the_index(database: Database) -> None:
    def name(seed: int) -> str:  # 256 characters of 4 bytes that do not compress well
        return "".join(chr(0x10000 + (seed + i * i * 7919) % 0xFFFFF) for i in range(256))

    state = KeyedState(name(1))
    with database.transaction() as connection:
        state.put(connection, name(2), 1)
        assert state.get(connection, name(2)) == (1, 1)


def test_without_its_table_it_says_to_migrate(open_database: Callable[..., Database]) -> None:
    with pytest.raises(StoreError, match="migrate"), open_database().reading() as connection:
        KeyedState("n").get(connection, "k")


def test_of_many_who_swap_the_same_version_one_wins(database: Database) -> None:
    state = KeyedState("n")

    def claim(number: int) -> bool:
        try:
            database.run(lambda connection: state.put(connection, "k", number, expected_version=0))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(claim, range(6)))
    assert sum(won) == 1
    with database.reading() as connection:
        assert state.get(connection, "k") == (won.index(True), 1)


class AgainstDict(RuleBasedStateMachine):
    """Any sequence of operations does to the database what it does to a dict."""

    keys = st.sampled_from(["a", "b", "ab", "Ä", "😀"])
    changes = st.lists(st.tuples(keys, st.none() | st.integers(0, 9)), max_size=4)

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.state = KeyedState(f"machine-{next(_number)}")
        self.model: dict[str, tuple[Any, int]] = {}
        self.last_version: dict[str, int] = {}

    @rule(key=keys, value=json_values)
    def put(self, key: str, value: Any) -> None:
        with self.database.transaction() as connection:
            version = self.state.put(connection, key, value)
        assert version > self.last_version.get(key, 0)
        self.model[key] = (value, version)
        self.last_version[key] = version

    @rule(key=keys, value=json_values, distance=st.integers(-2, 2))
    def put_expecting(self, key: str, value: Any, distance: int) -> None:
        current = self.model[key][1] if key in self.model else 0
        try:
            with self.database.transaction() as connection:
                version = self.state.put(
                    connection, key, value, expected_version=current + distance
                )
        except Conflict:
            assert distance != 0
        else:
            assert distance == 0
            self.model[key] = (value, version)
            self.last_version[key] = version

    @rule(key=keys)
    def delete(self, key: str) -> None:
        with self.database.transaction() as connection:
            assert self.state.delete(connection, key) == (key in self.model)
        self.model.pop(key, None)

    @rule(changes=changes, fails=st.booleans())
    def change_several(self, changes: list[tuple[str, int | None]], fails: bool) -> None:
        model, last_version = dict(self.model), dict(self.last_version)
        try:
            with self.database.transaction() as connection:
                for key, value in changes:
                    if value is None:
                        self.state.delete(connection, key)
                        model.pop(key, None)
                    else:
                        version = self.state.put(connection, key, value)
                        model[key], last_version[key] = (value, version), version
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.model, self.last_version = model, last_version

    @invariant()
    def holds_what_the_dict_holds(self) -> None:
        with self.database.reading() as connection:
            assert self.state.keys(connection) == sorted(self.model)
            values = {key: value for key, (value, _) in self.model.items()}
            assert self.state.items(connection) == values
            for key in ("a", "b", "ab", "Ä", "😀"):
                assert self.state.get(connection, key) == self.model.get(key)


def test_the_last_records_come_in_one_query_and_in_order(database: Database) -> None:
    database.migrate(KeyedState.schema)
    state, other = KeyedState("numbered"), KeyedState("numbered-2")
    with database.transaction() as connection:
        for number in (3, 11, 7, 2):
            state.put(connection, f"{number:04d}", number)
        state.delete(connection, "0011")
        other.put(connection, "0099", 99)
    with database.reading() as connection:
        assert list(state.items(connection).items()) == [("0002", 2), ("0003", 3), ("0007", 7)]
        assert list(state.items(connection, last=2)) == ["0003", "0007"]
        assert state.items(connection, last=0) == {}


def test_it_behaves_like_a_dict(database: Database) -> None:
    run_state_machine_as_test(
        lambda: AgainstDict(database),  # type: ignore[arg-type]
        settings=settings(deadline=None, max_examples=20, stateful_step_count=15),
    )
