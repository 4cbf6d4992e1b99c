from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import BudgetExceeded, DataError, SettingsError
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import NOBODY, Reader, Rights
from cloister.index.entity_view import LEVELS, Level
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.search.published_statistics import (
    PublishedStatistics,
    PublishedTable,
    added_published,
    exact_statistics,
    threshold_statistics,
)
from cloister.search.server_contents import ServerContents, contents_of

WORDS = ["asthma", "cough", "fever", "gout", "rash", "zoster"]
# A world is servers of documents; a document is its pod and its words.
DOCUMENT = st.tuples(st.integers(0, 2), st.lists(st.sampled_from(WORDS), max_size=6))
WORLDS = st.lists(st.lists(DOCUMENT, max_size=6), min_size=1, max_size=3)
World = list[list[tuple[int, list[str]]]]


def contents(world: World) -> list[ServerContents]:
    """Count a world as servers would."""
    return [
        ServerContents(
            ServerId(f"server-{n}"),
            count_terms(" ".join(words) for _, words in documents),
            np.array([pod for pod, _ in documents], np.int64),
        )
        for n, documents in enumerate(world)
    ]


def literal_entities(world: World, level: Level) -> dict[tuple[int, ...], list[str]]:
    """Return the tokens of each entity."""
    entities: dict[tuple[int, ...], list[str]] = {}
    for server, documents in enumerate(world):
        for number, (pod, words) in enumerate(documents):
            name = {"document": (server, number), "pod": (server, pod), "server": (server,)}[level]
            entities.setdefault(name, []).extend(words)
    return entities


def literal_frequencies(world: World, level: Level) -> Counter[str]:
    return Counter(w for words in literal_entities(world, level).values() for w in set(words))


@given(WORLDS)
def test_exact_tables_are_those_that_literal_counting_gives(world: World) -> None:
    published = exact_statistics(contents(world))
    for level in LEVELS:
        table, entities = published.level(level), literal_entities(world, level)
        n_tokens = sum(map(len, entities.values()))
        assert table.n_entities == len(entities)
        assert table.mean_length == pytest.approx(n_tokens / max(1, len(entities)))
        assert dict(table.table) == dict(literal_frequencies(world, level))
        assert table.n_pairs == sum(literal_frequencies(world, level).values())


@given(WORLDS, st.integers(2, 4))
def test_a_threshold_lists_just_the_terms_of_enough_documents_and_enough_pods(
    world: World, threshold: int
) -> None:
    published = threshold_statistics(contents(world), threshold=threshold)
    documents, pods = (literal_frequencies(world, level) for level in ("document", "pod"))
    shown = {w for w in WORDS if documents[w] >= threshold and pods[w] >= threshold}
    for level in LEVELS:
        table, exact = published.level(level), literal_frequencies(world, level)
        assert dict(table.table) == {w: exact[w] for w in shown}
        assert table.n_pairs == sum(exact[w] for w in shown)
        hidden = [w for w in WORDS if w not in shown]
        assert len(set(table.frequencies([*hidden, "never-used"]).tolist())) == 1


def test_many_notes_of_one_person_do_not_make_a_term_common() -> None:
    world: World = [[(0, ["huntington", "cough"])] * 9 + [(pod, ["cough"]) for pod in range(1, 5)]]
    assert list(threshold_statistics(contents(world), threshold=5).level("pod").table) == ["cough"]


@given(WORLDS)
def test_exact_tables_of_servers_add_up_to_those_of_all(world: World) -> None:
    servers = contents(world)
    added = added_published([exact_statistics([server]) for server in servers])
    for level in LEVELS:
        table, whole = added.level(level), exact_statistics(servers).level(level)
        assert dict(table.table) == dict(whole.table)
        assert table.n_entities == whole.n_entities
        assert table.mean_length == pytest.approx(whole.mean_length)
        assert table.n_pairs == whole.n_pairs


def test_tables_of_different_forms_are_not_added() -> None:
    servers = contents([[(0, ["cough"])]])
    with pytest.raises(DataError, match="one form"):
        added_published([exact_statistics(servers), threshold_statistics(servers, threshold=2)])


@given(WORLDS, st.randoms(use_true_random=False))
def test_the_order_in_which_documents_came_does_not_show(world: World, random: object) -> None:
    shuffled = [random.sample(documents, len(documents)) for documents in world]  # type: ignore[attr-defined]
    first, second = (exact_statistics(contents(one)) for one in (world, shuffled))
    assert first.to_bytes() == second.to_bytes()
    for level in LEVELS:
        assert list(first.level(level).table) == list(second.level(level).table)


@given(st.lists(st.lists(DOCUMENT, max_size=6), max_size=3), st.data())
@settings(max_examples=50)
def test_an_index_gives_its_live_documents_whoever_may_read_them(
    parts: World, data: st.DataObject
) -> None:
    segments, live_documents = [], []
    for documents in parts:
        size = len(documents)
        live = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        segments.append(
            Segment(
                Postings.build(count_terms(" ".join(words) for _, words in documents)),
                [DocId(f"d{n}") for n in range(size)],
                np.array([pod for pod, _ in documents], np.int32),
                np.array(live, np.bool_),
                np.zeros(size, np.int32),
            )
        )
        live_documents += [one for one, stays in zip(documents, live, strict=True) if stays]
    pod_ids = tuple(PodId(f"p{n}") for n in range(3))
    snapshot = Snapshot(1, tuple(segments), pod_ids, (NOBODY,))
    taken = exact_statistics([contents_of(snapshot, ServerId("server"))])
    assert taken.to_bytes() == exact_statistics(contents([live_documents])).to_bytes()


def test_who_may_read_all_ranks_alike_with_own_and_with_exact_published_statistics() -> None:
    texts = ["cough fever", "cough cough rash", "fever gout gout gout", "rash", "cough"]
    counts, pods = count_terms(texts), np.array([0, 0, 1, 2, 2])
    rights = (Rights(agents=frozenset({AgentId("a")})),)
    segment = Segment(
        Postings.build(counts),
        [DocId(f"d{n}") for n in range(5)],
        pods.astype(np.int32),
        np.ones(5, np.bool_),
        np.zeros(5, np.int32),
    )
    pod_ids = tuple(PodId(f"p{n}") for n in range(3))
    view = ReaderView(Snapshot(1, (segment,), pod_ids, rights), Reader(AgentId("a")))
    published = exact_statistics([ServerContents(ServerId("s"), counts, pods)])
    for level in LEVELS:
        own = view.level(level).best(["cough", "gout"], 5)
        same = view.level(level).best(["cough", "gout"], 5, statistics=published.level(level))
        assert own.entities.tolist() == same.entities.tolist()
        assert own.scores.tolist() == same.scores.tolist()


@given(WORLDS)
def test_tables_are_the_same_after_they_were_written_and_read(world: World) -> None:
    published = threshold_statistics(contents(world), threshold=2)
    read = PublishedStatistics.from_bytes(published.to_bytes())
    assert read.to_bytes() == published.to_bytes()
    assert read.form == "threshold"
    for level in LEVELS:
        assert read.level(level) == published.level(level)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kind":"published-statistics","form":"exact","tables":{}}',
        exact_statistics([]).to_bytes().replace(b'"exact"', b'"hopeful"'),
        exact_statistics([]).to_bytes().replace(b'"floor":0.0', b'"floor":NaN'),
        exact_statistics([]).to_bytes().replace(b'"floor":0.0', b'"floor":true'),
        exact_statistics([]).to_bytes().replace(b'"frequencies":{}', b'"frequencies":{"x":"y"}'),
        exact_statistics([]).to_bytes().replace(b'"frequencies":{}', b'"frequencies":[1]'),
    ],
)
def test_what_is_no_table_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match="cannot be read as published statistics"):
        PublishedStatistics.from_bytes(content)


def test_a_threshold_of_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 2"):
        threshold_statistics([], threshold=1)


def test_documents_without_pods_are_refused() -> None:
    with pytest.raises(DataError, match="each document needs a pod"):
        exact_statistics([ServerContents(ServerId("s"), count_terms(["cough"]), np.empty(0, int))])


def test_a_term_below_the_floor_counts_as_the_floor() -> None:
    table = PublishedTable(10, 3.0, 12, {"cough": 7.0, "rash": 1.0, "gout": -4.0}, floor=2.5)
    assert table.frequencies(["cough", "rash", "gout", "unknown"]).tolist() == [7, 2.5, 2.5, 2.5]


def test_unprotected_tables_are_on_the_ledger_and_a_limit_refuses_them(tmp_path: Path) -> None:
    servers = contents([[(0, ["cough"]), (1, ["cough"])]])
    named = {"recipient": "everybody", "purpose": "global statistics"}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        for published in (exact_statistics(servers), threshold_statistics(servers, threshold=2)):
            published.record_unprotected(ledger, party_id="open", **named)
        assert ledger.cost("open", delta=1e-6).epsilon == float("inf")
        ledger.set_limit("careful", Limit(epsilon=9.0, delta=1e-6), purpose="pilot")
        with pytest.raises(BudgetExceeded):
            exact_statistics(servers).record_unprotected(ledger, party_id="careful", **named)
        noisy = PublishedStatistics("noisy", exact_statistics(servers).tables)
        with pytest.raises(SettingsError, match="release of their own"):
            noisy.record_unprotected(ledger, party_id="open", **named)
