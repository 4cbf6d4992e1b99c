"""What a broker holds: the last tables of each node, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import DataError, NotFound
from cloister.core.ids import ServerId
from cloister.index.term_counts import count_terms
from cloister.search.published_statistics import (
    PublishedStatistics,
    exact_statistics,
    threshold_statistics,
)
from cloister.search.server_contents import ServerContents
from cloister.services.broker.published_tables import PublishedTables
from cloister.store.database import Database
from cloister.store.files import Files

A, B, C = (ServerId(f"clinic-{letter}") for letter in "abc")


def tables(node: str, *texts: str) -> PublishedStatistics:
    counts = count_terms(list(texts))
    return exact_statistics([ServerContents(ServerId(node), counts, np.arange(len(texts)))])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def held(folder: Path) -> Iterator[PublishedTables]:
    with Database.open(folder / "state.db") as database:
        yield PublishedTables(database, Files(folder / "files"), form="exact")


def test_the_sum_is_of_the_last_tables_of_each_node(held: PublishedTables) -> None:
    held.put(A, tables("a", "cough").to_bytes())
    held.put(B, tables("b", "cough", "rash").to_bytes())
    held.put(A, tables("a", "cough", "dry cough").to_bytes())
    total = held.total().level("document")
    assert total.n_entities == 4
    assert dict(total.table) == {"cough": 3.0, "dry": 1.0, "rash": 1.0}


def test_the_same_tables_again_change_nothing(held: PublishedTables) -> None:
    first = held.put(A, tables("a", "cough").to_bytes())
    assert held.put(A, tables("a", "cough").to_bytes()) == first
    assert held.held() == {A: first}


def test_tables_are_there_after_a_restart(folder: Path, held: PublishedTables) -> None:
    held.put(A, tables("a", "cough").to_bytes())
    with Database.open(folder / "state.db") as database:
        again = PublishedTables(database, Files(folder / "files"), form="exact")
        assert [one.server_id for one in again.ranked(["cough"])] == [A]


def test_nodes_with_more_of_a_querys_terms_come_first(held: PublishedTables) -> None:
    held.put(A, tables("a", "cough", "rash", "gout").to_bytes())
    held.put(B, tables("b", "cough", "dry cough", "cough fever").to_bytes())
    held.put(C, tables("c", "gout").to_bytes())
    assert [one.server_id for one in held.ranked(["cough"])] == [B, A]
    assert held.ranked(["nowhere"]) == []


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xfe", threshold_statistics([], threshold=2).to_bytes()]
)
def test_what_is_no_table_of_the_federations_form_is_refused(
    held: PublishedTables, content: bytes
) -> None:
    with pytest.raises(DataError):
        held.put(A, content)
    assert held.held() == {}


def test_nothing_published_is_told_as_such(held: PublishedTables) -> None:
    with pytest.raises(NotFound):
        held.total()
    assert held.ranked(["cough"]) == []
