"""What a selector table says, beside what its server would say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import SettingsError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.random import stream
from cloister.data.beir import open_beir
from cloister.index.entity_statistics import StatisticsTable
from cloister.index.entity_weights import ModelSettings, query_weights
from cloister.index.reader_view import ReaderView
from cloister.index.shard import IndexedDocument, Shard
from cloister.search.best_impact import server_outlooks
from cloister.search.impact_list import document_number
from cloister.search.node import ServerSummary, SummaryRequest
from cloister.search.selector_table import SelectorTable, listed_terms
from cloister.search.selector_table_making import make_selector_table
from cloister.search.shard_node import ShardNode
from cloister.search.summary_statistics import user_statistics
from cloister.search.table_settings import TableSettings
from search.small_world import (
    ALICE,
    ANALYSIS,
    HIDDEN,
    READS,
    WORDS,
    Note,
    entities,
    literal_scores,
    queries,
    snapshot,
    worlds,
)
from search.test_no_leak import pairs_of_worlds

ROOMY = TableSettings(max_bytes=10**7, hash_bits=24)
NAME = ServerId("s0")


def view_of(notes: list[Note], sizes: list[int] | None = None) -> ReaderView:
    mine = [note for note in notes if note.server_id == NAME]
    return ReaderView(snapshot(mine, sizes=sizes or []), ALICE)


def table_of(notes: list[Note], settings: TableSettings = ROOMY) -> SelectorTable:
    return make_selector_table(view_of(notes), NAME, settings)


def said_by_server(notes: list[Note], terms: tuple[str, ...], n_best: int) -> ServerSummary:
    request = SummaryRequest(terms, n_best, with_pairs=True)
    return ShardNode(NAME, lambda: view_of(notes), analysis=ANALYSIS).summarise(request)


def named_documents(notes: list[Note], listed: list[str], n_best: int) -> list[str]:
    """Return the ids of documents in the lists of some terms, in the order of ids."""
    said = said_by_server(notes, tuple(listed), n_best)
    numbers = {one.document for found in said.terms.values() for one in found.best}
    return sorted(note.doc_id for note in notes if document_number(DocId(note.doc_id)) in numbers)


def with_numbers(summary: ServerSummary, names: list[str]) -> ServerSummary:
    """Put a server's numbers of documents in the place of a table's."""
    terms = {
        term: found._replace(
            best=tuple(
                one._replace(document=document_number(DocId(names[one.document])))
                for one in found.best
            )
        )
        for term, found in summary.terms.items()
    }
    return summary._replace(terms=terms)


@given(worlds(max_servers=1), st.integers(0, 4))
def test_a_table_says_what_its_server_says(notes, n_best):
    table = table_of(notes, TableSettings(n_best=n_best, max_bytes=10**7, hash_bits=24))
    terms = (*WORDS, "unknown")
    found = with_numbers(table.summary(terms), named_documents(notes, list(WORDS), n_best))
    assert found == said_by_server(notes, terms, n_best)


@given(worlds(max_servers=1), st.integers(1, 4), st.integers(0, 300))
def test_lists_go_to_the_terms_in_most_documents(notes, n_best, max_bytes):
    settings = TableSettings(n_best=n_best, max_bytes=max_bytes, hash_bits=24)
    table = table_of(notes, settings)
    terms = table.summary(WORDS).terms
    listed = [found.n_documents for found in terms.values() if found.best]
    others = [found.n_documents for found in terms.values() if not found.best]
    assert min(listed, default=99) >= max(others, default=0)
    assert len(table.to_bytes()) <= max_bytes or not listed
    assert all(
        len(found.best) == min(n_best, found.n_documents) for found in terms.values() if found.best
    )


models = st.builds(
    ModelSettings,
    model=st.sampled_from(["bm25", "lm"]),
    k1=st.floats(0.1, 3),
    b=st.floats(0, 1),
    idf=st.sampled_from(["non_negative", "printed"]),
)
published = st.builds(
    StatisticsTable,
    st.integers(1, 100),
    st.floats(0.5, 20),
    st.integers(1, 400),
    st.dictionaries(st.sampled_from(WORDS), st.integers(0, 100)),
)


@given(
    worlds(max_servers=1, max_notes=20),
    queries,
    models,
    st.integers(0, 3),
    st.integers(60, 120),
    st.one_of(st.none(), published),
)
def test_no_score_lies_outside_the_bounds_of_a_short_table(
    notes, query, model, n_best, max_bytes, statistics
):
    terms = tuple(ANALYSIS.terms(query))
    table = table_of(notes, TableSettings(n_best=n_best, max_bytes=max_bytes, hash_bits=24))
    assert_bounds_hold(notes, table, terms, model, n_best, statistics)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_where_some_terms_have_lists_and_others_none(seed):
    rng = np.random.default_rng(seed)
    notes = []
    for number in range(120):
        words = rng.choice(WORDS, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05], size=rng.integers(1, 25))
        notes.append(Note(f"d{number:03}", f"p{number % 7}", NAME, " ".join(words)))
    n_lists = set()
    for _ in range(12):
        n_best = int(rng.integers(1, 6))
        settings = TableSettings(n_best=n_best, max_bytes=int(rng.integers(80, 200)), hash_bits=24)
        table = table_of(notes, settings)
        n_lists.add(sum(bool(found.best) for found in table.summary(WORDS).terms.values()))
        model = ModelSettings(model=str(rng.choice(["bm25", "lm"])), k1=rng.uniform(0.2, 3))
        assert_bounds_hold(notes, table, WORDS[:3], model, n_best, None)
    assert len(n_lists) > 2  # with other lists each time


def assert_bounds_hold(notes, table, terms, model, n_best, statistics):
    """Compare each document's literal score with what the table says of it."""
    summary = table.summary(terms)
    whole = statistics or user_statistics([summary], list(dict.fromkeys(terms)), "document")
    weights = query_weights(terms, whole, model)
    (outlook,) = server_outlooks([summary], weights)
    listed = [word for word, found in table.summary(WORDS).terms.items() if found.best]
    names = named_documents(notes, listed, n_best)
    places = {names[number]: place for place, number in enumerate(outlook.documents.tolist())}
    for name, score in literal_scores(entities(notes, "document"), terms, model, whole).items():
        assert score <= outlook.best_upper + 1e-9
        if name not in places:
            assert outlook.n_unnamed > 0
            assert score <= outlook.unnamed_upper + 1e-9
        else:
            place = places[name]
            assert outlook.lower[place] - 1e-9 <= score <= outlook.upper[place] + 1e-9
            assert outlook.lower[place] - 1e-9 <= outlook.estimate[place]
            assert outlook.estimate[place] <= outlook.upper[place] + 1e-9


@given(pairs_of_worlds(), st.integers(0, 3), st.integers(0, 250))
def test_hidden_documents_change_no_bit_of_a_table(pair, n_best, max_bytes):
    plain, full, sizes = pair
    settings = TableSettings(n_best=n_best, max_bytes=max_bytes)
    name = plain[0].server_id
    tables = [
        make_selector_table(
            ReaderView(snapshot([n for n in notes if n.server_id == name], sizes=parts), ALICE),
            ServerId(name),
            settings,
        )
        for notes, parts in ((plain, []), (full, sizes))
    ]
    assert tables[0].to_bytes() == tables[1].to_bytes()


def test_commits_merges_and_what_was_deleted_change_no_bit_of_a_table(tmp_path):
    rng = np.random.default_rng(5)
    texts = {f"d{n:02}": " ".join(rng.choice(WORDS, 12)) for n in range(40)}
    mine = [IndexedDocument(DocId(i), PodId(f"p{i[-1]}"), t, READS) for i, t in texts.items()]
    others = [one._replace(doc_id=DocId(f"x{one.doc_id}"), rights=HIDDEN) for one in mine]
    with Shard.open(tmp_path / "a", server_id=NAME, analysis=ANALYSIS) as shard:
        shard.add(mine)
        shard.commit()
        wanted = make_selector_table(shard.view(ALICE), NAME).to_bytes()
    with Shard.open(tmp_path / "b", server_id=NAME, analysis=ANALYSIS) as shard:
        shard.add([*others[:20], *mine[25:]])
        shard.commit()
        shard.add([*mine[:25], *others[20:]])
        shard.delete([one.doc_id for one in others[::3]])
        shard.commit()
        assert make_selector_table(shard.view(ALICE), NAME).to_bytes() == wanted
        shard.merge()
        assert make_selector_table(shard.view(ALICE), NAME).to_bytes() == wanted
        shard.set_rights({mine[0].doc_id: HIDDEN})
        shard.commit()
        assert make_selector_table(shard.view(ALICE), NAME).to_bytes() != wanted


def test_a_reader_of_nothing_gets_an_empty_table():
    for notes in ([], [Note("a", "p", NAME, "asthma cough", readable=False)]):
        table = table_of(notes)
        assert table.summary(("asthma",)) == said_by_server(notes, ("asthma",), 20)
    hidden = [Note(f"a{n}", f"p{n}", NAME, "asthma cough", readable=False) for n in range(50)]
    assert len(table_of(hidden).to_bytes()) == len(table_of([]).to_bytes())


def test_documents_without_terms_are_counted():
    notes = [Note("a", "p", NAME, ""), Note("b", "q", NAME, "asthma"), Note("c", "q", NAME, "")]
    assert table_of(notes).summary(()) == said_by_server(notes, (), 0)


def words_of(n: int, prefix: str) -> list[str]:
    return [f"{prefix}{number:05}" for number in range(n)]


def test_an_absent_term_is_taken_for_another_once_in_two_to_the_hash_bits():
    present, absent = words_of(3000, "p"), words_of(20_000, "a")
    notes = [
        Note(f"d{n}", f"p{n}", NAME, " ".join(present[n::30] * (1 + n % 2))) for n in range(30)
    ]
    for hash_bits in (4, 6):
        table = table_of(notes, TableSettings(hash_bits=hash_bits, max_bytes=0))
        found = sum(one.n_documents > 0 for one in table.summary(absent).terms.values())
        wanted = len(absent) * 2.0**-hash_bits
        assert abs(found - wanted) < 6 * np.sqrt(wanted)


@pytest.mark.parametrize("hash_bits", [4, 14])
def test_a_term_that_is_there_is_always_found(hash_bits):
    """With 4 bits many terms share a hash."""
    present = words_of(3000, "p")
    notes = [
        Note(f"d{n:02}", f"p{n % 7}", NAME, " ".join(present[n // 2 :: n % 9 + 1] * (1 + n % 3)))
        for n in range(40)
    ]
    table = table_of(notes, TableSettings(hash_bits=hash_bits, max_bytes=10**7))
    terms = tuple(present)
    names = named_documents(notes, present, 20)
    assert with_numbers(table.summary(terms), names) == said_by_server(notes, terms, 20)


@pytest.mark.parametrize("hash_bits", [4, 14, 24])
def test_absent_terms_can_be_asked_for_whatever_the_size_of_a_table(hash_bits):
    for n in (0, 1, 2, 3, 4, 5, 15, 16, 17):
        notes = [Note("d", "p", NAME, " ".join(words_of(n, "p")))]
        table = table_of(notes, TableSettings(hash_bits=hash_bits))
        terms = table.summary([*words_of(300, "a"), *words_of(n, "p")]).terms
        assert {found[:3] for found in terms.values()} <= {(0, 0, 0), (1, 1, 1)}
        assert all(terms[word].n_documents == 1 for word in words_of(n, "p"))


def test_two_servers_mistake_other_terms():
    present, absent = words_of(500, "p"), words_of(2000, "a")
    notes = [Note("d", "p", NAME, " ".join(present))]
    settings = TableSettings(hash_bits=4)
    tables = [make_selector_table(view_of(notes), ServerId(name), settings) for name in ("a", "b")]
    mistaken = [
        {word for word, found in table.summary(absent).terms.items() if found.n_documents}
        for table in tables
    ]
    assert len(mistaken[0] & mistaken[1]) < min(len(one) for one in mistaken) / 3


def test_a_table_outlives_its_bytes():
    table = table_of([Note("a", "p", NAME, "asthma cough cough"), Note("b", "q", NAME, "cough")])
    again = SelectorTable.from_bytes(table.to_bytes())
    assert (again.server_id, again.version) == (table.server_id, table.version)
    assert again.summary(WORDS) == table.summary(WORDS)
    assert again.to_bytes() == table.to_bytes()


@given(st.lists(st.integers(1, 9), max_size=20), st.data())
def test_listed_terms_are_the_first_by_frequency(frequencies, data):
    n_listed = data.draw(st.integers(0, len(frequencies)))
    by_frequency = sorted(range(len(frequencies)), key=lambda n: -frequencies[n])[:n_listed]
    listed = listed_terms(np.array(frequencies, np.int64), n_listed)
    assert set(np.flatnonzero(listed).tolist()) == set(by_frequency)


def test_settings_out_of_range_are_refused():
    for wrong in ({"hash_bits": 3}, {"hash_bits": 25}, {"n_best": -1}, {"n_best": 1001}):
        with pytest.raises(SettingsError):
            TableSettings(**wrong)


def test_the_table_of_a_real_collection_says_what_its_server_says(real_data):
    found = open_beir(real_data("text/nfcorpus"))
    rng = stream(3, "readable")
    notes = [
        Note(one.doc_id, f"p{n % 40}", NAME, one.text[:600], bool(rng.random() < 0.6))
        for n, one in enumerate(found.documents[:800])
    ]
    everything = make_selector_table(view_of(notes), NAME, ROOMY)
    vocabulary = view_of(notes).vocabulary()
    names = named_documents(notes, vocabulary, 20)
    wanted = said_by_server(notes, tuple(vocabulary), 20)
    assert with_numbers(everything.summary(vocabulary), names) == wanted
    size = len(everything.to_bytes()) // 2
    half = make_selector_table(view_of(notes), NAME, TableSettings(max_bytes=size))
    assert size - 100 < len(half.to_bytes()) <= size
    cut = half.summary(vocabulary)
    assert {t: one[:3] for t, one in cut.terms.items()} == {
        t: one[:3] for t, one in wanted.terms.items()
    }
