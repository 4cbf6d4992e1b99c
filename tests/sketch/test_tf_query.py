from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import (
    AccessDenied,
    BudgetExceeded,
    CloisterError,
    DataError,
    NotFound,
    SettingsError,
)
from cloister.index.term_counts import TermCounts, count_terms
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.mechanisms import NoiseSource, SecureNoise, SimulatedNoise
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.document_owner import DocumentOwner, exact_sketches
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.medians import column_medians
from cloister.sketch.paper_shared_noise import PaperSharedNoise
from cloister.sketch.per_query_release import (
    Asked,
    IndependentNoise,
    NoiseOnce,
    OwnerMedian,
    ReleasePolicy,
    UnsafeExactCounters,
    median_sensitivity,
)
from cloister.sketch.tf_messages import TfAnswer, TfQuery
from cloister.sketch.tf_query import Querier

KEY = HashKey(bytes(range(32)))
SHAPE = SketchShape(n_rows=7, n_columns=11)
WORDS = [f"w{i}" for i in range(40)]
LIMIT = Limit(epsilon=1.0, delta=1e-6, level=Level.TOKEN)


def made_documents(n_documents: int, seed: int = 1) -> TermCounts:
    rng = np.random.default_rng(seed)
    texts = [" ".join(WORDS[i] for i in rng.zipf(1.5, 60) % 40) for _ in range(n_documents)]
    return count_terms(texts)


COUNTS = made_documents(9)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def make_owner(
    ledger: Ledger,
    policy: ReleasePolicy,
    *,
    seed: int = 1,
    counts: TermCounts = COUNTS,
    source: NoiseSource | None = None,
    **limits: int,
) -> DocumentOwner:
    return DocumentOwner(
        "clinic",
        counts,
        KEY,
        SHAPE,
        policy=policy,
        ledger=ledger,
        queriers=["lab", "ward"],
        source=source or SimulatedNoise(np.random.default_rng(seed)),
        **limits,
    )


def make_querier(n_true_rows: int | None = None, seed: int = 1) -> Querier:
    rng = np.random.default_rng(seed)
    return Querier(KEY, SHAPE, n_true_rows=n_true_rows, vocabulary=WORDS, rng=rng)


def literal_sketch(counts: TermCounts, document: int) -> list[list[int]]:
    """Eq. 2, word by word."""
    hashed = KEY.hash_terms(counts.vocabulary, SHAPE)
    table = [[0] * SHAPE.n_columns for _ in range(SHAPE.n_rows)]
    for i in range(counts.starts[document], counts.starts[document + 1]):
        for a in range(SHAPE.n_rows):
            term = counts.terms[i]
            table[a][hashed.columns[term, a]] += int(hashed.signs[term, a]) * int(counts.counts[i])
    return table


# --- algorithms 1 and 2


@pytest.mark.parametrize("n_true_rows", [1, 4, 7])
def test_without_noise_the_protocol_is_algorithms_1_and_2_with_the_sign(
    ledger: Ledger, n_true_rows: int
) -> None:
    owner, querier = make_owner(ledger, UnsafeExactCounters()), make_querier(n_true_rows)
    terms = ["w1", "w2", "never"]
    query = querier.ask(terms)
    answer = TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab"))
    found = querier.estimate(answer)
    hashed = KEY.hash_terms(terms, SHAPE)
    rows = querier._private[query.query_id].rows
    assert len(rows) == n_true_rows
    for document in range(COUNTS.n_documents):
        table = literal_sketch(COUNTS, document)
        sums = np.zeros(n_true_rows)
        for k in range(3):
            for a in range(SHAPE.n_rows):
                assert answer.counters[k, a, document] == table[a][query.columns[k, a]]
            signed = [int(hashed.signs[k, a]) * table[a][hashed.columns[k, a]] for a in rows]
            assert found.terms[k, document] == np.median(signed)
            sums += signed
        assert found.total[document] == np.median(sums)


def test_with_all_rows_the_estimate_is_that_of_the_count_sketch(ledger: Ledger) -> None:
    owner, querier = make_owner(ledger, UnsafeExactCounters()), make_querier()
    found = [
        querier.estimate(
            TfAnswer.from_bytes(owner.answer(querier.ask([term]).to_bytes(), querier="lab"))
        ).total
        for term in WORDS
    ]
    asked = KEY.hash_terms(WORDS, SHAPE)
    for document in range(COUNTS.n_documents):
        one = COUNTS.select(np.array([document]))
        sketch = CountSketch.from_counts(one, KEY.hash_terms(one.vocabulary, SHAPE))
        assert np.array_equal(np.array(found)[:, document], sketch.estimate(asked))


def test_decoys_are_hashed_from_the_vocabulary_and_true_rows_from_the_term() -> None:
    querier = make_querier(3)
    query = querier.ask(["w5"])
    rows = querier._private[query.query_id].rows
    own = KEY.hash_terms(["w5"], SHAPE).columns[0]
    possible = KEY.hash_terms(WORDS, SHAPE).columns
    for row in range(SHAPE.n_rows):
        if row in rows:
            assert query.columns[0, row] == own[row]
        else:
            assert query.columns[0, row] in possible[:, row]
    assert (query.columns[0] != own).any()


def test_rows_that_count_are_drawn_evenly() -> None:
    chosen = np.zeros(SHAPE.n_rows)
    querier = make_querier(2)
    for i in range(700):
        query = querier.ask([f"term{i}"])
        chosen[querier._private[query.query_id].rows] += 1
    expected = 700 * 2 / SHAPE.n_rows
    assert np.abs(chosen - expected).max() < 5 * math.sqrt(expected)


def test_the_same_question_is_the_same_query_again() -> None:
    querier = make_querier(3)
    assert querier.ask(["w1"]) is querier.ask(["w1"])
    assert querier.ask(["w1"], [2]).query_id != querier.ask(["w1"]).query_id


def test_the_same_terms_about_other_documents_get_the_same_decoys(ledger: Ledger) -> None:
    querier = make_querier(3)
    queries = [querier.ask(["w1", "w2"], [document]) for document in range(8)]
    queries += [querier.ask(["w1", "w2"]), querier.ask(["w1", "w2"], open_rows=True)]
    for query in queries[1:]:
        assert np.array_equal(query.columns, queries[0].columns)
    assert len({query.query_id for query in queries}) == len(queries)
    assert (querier.ask(["w1"]).columns[0] != queries[0].columns[0]).any()  # another combination
    owner = make_owner(ledger, UnsafeExactCounters())
    whole, one = (
        querier.estimate(TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab"))).total
        for query in (queries[8], queries[5])
    )
    assert whole[5] == one[0]


@pytest.mark.parametrize("fields", [{"n_true_rows": 0}, {"n_true_rows": 8}])
def test_rows_that_count_are_some_of_the_rows(fields: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        make_querier(**fields)
    with pytest.raises(SettingsError, match="decoys"):
        Querier(KEY, SHAPE, n_true_rows=3, rng=np.random.default_rng(1))


@settings(max_examples=40)
@given(st.integers(1, 9), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_medians_are_numpys(n_rows: int, n_columns: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-4, 5, (n_rows, n_columns)).astype(float)
    assert np.array_equal(column_medians(values), np.median(values, axis=0))


def test_medians_do_not_depend_on_the_number_of_threads() -> None:
    values = np.random.default_rng(1).normal(size=(30, 5000))
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = column_medians(values)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(one, column_medians(values))


# --- what an answer costs


def test_the_printed_noise_is_one_variable_for_all_counters_of_a_document(ledger: Ledger) -> None:
    owner = make_owner(ledger, PaperSharedNoise(epsilon=0.5))
    querier = make_querier()
    query = querier.ask(["w1"])
    answer = TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab"))
    noise = answer.counters - exact_counters(query)
    assert np.allclose(noise, noise[:, :1], atol=1e-9)
    assert len(np.unique(np.round(noise[0, 0], 6))) == COUNTS.n_documents
    (entry,) = ledger.entries()
    assert '"claimed_epsilon":0.5' in entry.body
    assert '"mechanism":"none"' in entry.body
    assert ledger.cost("clinic", delta=1e-6, level=Level.TOKEN, simulated=True).epsilon == math.inf


def exact_counters(query: TfQuery, counts: TermCounts = COUNTS) -> np.ndarray:
    cells = exact_sketches(counts, KEY, SHAPE)
    return cells[np.arange(SHAPE.n_rows), query.columns].astype(float)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_independent_noise_has_the_width_that_it_states(noise: str, ledger: Ledger) -> None:
    counts = made_documents(3000)
    policy = IndependentNoise(noise=noise, width=20.0)
    owner = make_owner(ledger, policy, counts=counts)
    query = make_querier().ask(["w1"])
    answer = TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab"))
    drawn = answer.counters - exact_counters(query, counts)
    spread = 20.0 * (math.sqrt(2) if noise == "laplace" else 1)
    assert drawn.std() == pytest.approx(spread, rel=0.03)
    correlation = np.corrcoef(drawn[0])
    assert np.abs(correlation - np.eye(SHAPE.n_rows)).max() < 0.1


def test_an_answer_is_on_the_ledger_before_it_leaves_and_over_the_limit_refused(
    ledger: Ledger,
) -> None:
    ledger.set_limit("clinic", LIMIT, purpose="pilot")
    owner = make_owner(ledger, IndependentNoise.calibrated(0.4, n_rows=7, noise="laplace"))
    querier = make_querier()
    for n, term in enumerate(["w1", "w2"], start=1):
        answer = owner.answer(querier.ask([term]).to_bytes(), querier="lab")
        entry = ledger.entries(party_id="clinic")[-1]
        assert ledger.payload(entry.number) == answer
        spent = ledger.cost("clinic", delta=1e-6, level=Level.TOKEN, simulated=True).epsilon
        assert spent == pytest.approx(0.4 * n, rel=1e-4)
    n_entries = len(ledger.entries())
    with pytest.raises(BudgetExceeded):
        owner.answer(querier.ask(["w3"]).to_bytes(), querier="lab")
    assert len(ledger.entries()) == n_entries
    again = owner.answer(querier.ask(["w1"]).to_bytes(), querier="lab")  # paid for
    assert len(ledger.entries()) == n_entries
    assert len(again)


def test_the_same_columns_get_the_same_numbers_under_another_id(ledger: Ledger) -> None:
    owner = make_owner(ledger, IndependentNoise(width=10.0))
    query = make_querier().ask(["w1"])
    other = query._replace(query_id=b"x" * 16)
    first, second = (
        TfAnswer.from_bytes(owner.answer(q.to_bytes(), querier="lab")) for q in (query, other)
    )
    assert first.query_id != second.query_id
    assert np.array_equal(first.counters, second.counters)
    assert len(ledger.entries()) == 1


def test_what_was_dropped_from_memory_costs_again(ledger: Ledger) -> None:
    owner = make_owner(ledger, IndependentNoise(width=10.0), most_remembered=1)
    querier = make_querier()
    for term in ("w1", "w2", "w1"):
        owner.answer(querier.ask([term]).to_bytes(), querier="lab")
    assert len(ledger.entries()) == 3


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("n_answers", [1, 20])
def test_calibrated_noise_costs_what_was_asked(noise: str, n_answers: int, ledger: Ledger) -> None:
    policy = IndependentNoise.calibrated(2.0, n_rows=7, n_answers=n_answers, noise=noise)
    owner, querier = make_owner(ledger, policy), make_querier()
    for i in range(n_answers):
        owner.answer(querier.ask([f"w{i}", "w39"]).to_bytes(), querier="lab")
    spent = ledger.cost("clinic", delta=1e-6, level=Level.TOKEN, simulated=True)
    least = 1.8 if noise == "gaussian" else 1.95 if n_answers == 1 else 0.5  # the report
    assert least < spent.epsilon <= 2.0 + 1e-9


T = TypeVar("T")
words = st.lists(st.sampled_from(WORDS[:6]), min_size=0, max_size=12)


@settings(max_examples=40)
@given(words, st.sampled_from(WORDS[:6]), st.lists(st.sampled_from(WORDS[:6]), min_size=1))
def test_one_token_moves_distinct_cells_by_one_in_each_row_at_most(
    text: list[str], token: str, terms: list[str]
) -> None:
    key, shape = HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=2)
    both = count_terms([" ".join(text), " ".join([*text, token])])
    cells = exact_sketches(both, key, shape).astype(int)
    hashed = key.hash_terms(terms, shape)
    rows = np.arange(5)
    places = rows * 2 + hashed.columns.astype(int)
    counters = cells[rows, hashed.columns]
    change = counters[..., 1] - counters[..., 0]
    _, first = np.unique(places, return_index=True)
    distinct = change.ravel()[first]
    assert np.abs(distinct).sum() <= 5
    assert np.square(distinct).sum() <= 5
    sums = (hashed.signs[..., None] * counters).sum(0)
    moved = np.abs(np.diff(np.median(sums, axis=0)))[0]
    assert moved <= median_sensitivity(places, hashed.signs)


def test_terms_that_share_a_cell_share_its_noise() -> None:
    asked = Asked(np.array([[0, 11], [0, 12]]), np.arange(3), np.ones((2, 2, 3), np.int64), None)
    for policy in (IndependentNoise(width=9.0), NoiseOnce(IndependentNoise(width=9.0))):
        noised = policy.noised(asked, SimulatedNoise(np.random.default_rng(1)))
        assert np.array_equal(noised[0, 0], noised[1, 0])
        assert not np.array_equal(noised[0, 1], noised[1, 1])


def test_noise_drawn_once_pays_once_and_stays_for_every_query_and_querier(ledger: Ledger) -> None:
    ledger.set_limit("clinic", LIMIT, purpose="pilot")
    policy = NoiseOnce(IndependentNoise(width=20.0))
    owner = make_owner(ledger, policy)
    assert not [entry for entry in ledger.entries() if entry.kind == "release"]
    seen: dict[tuple[int, int, int], int] = {}
    for seed, documents in enumerate([None, [3, 1], [8], None]):
        querier = make_querier(3, seed=seed)
        for term in WORDS[:20]:
            query = querier.ask([term, "w1"], documents)
            answer = TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab"))
            noise = answer.counters - exact_counters(query)[..., documents or slice(None)]
            for (k, a, i), value in np.ndenumerate(noise):
                document = documents[i] if documents else i
                place = (a, int(query.columns[k, a]), document)
                assert seen.setdefault(place, value) == value
    assert len([entry for entry in ledger.entries() if entry.kind == "release"]) == 1
    assert np.std(list(seen.values())) == pytest.approx(policy.noise.width, rel=0.1)


def test_noise_drawn_once_is_recorded_with_all_its_cells(ledger: Ledger) -> None:
    owner = make_owner(ledger, NoiseOnce(IndependentNoise(width=20.0)))
    owner.answer(make_querier().ask(["w1"], [2]).to_bytes(), querier="lab")
    (entry,) = ledger.entries()
    assert entry.release.n_values == SHAPE.n_cells * COUNTS.n_documents


class SlowNoise(SimulatedNoise):
    """Noise that leaves another thread the time to come in between."""

    def discrete_gaussian(self, values: np.ndarray, sigma: float) -> np.ndarray:
        time.sleep(0.02)
        return super().discrete_gaussian(values, sigma)


def in_two_threads(work: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(2)))


@pytest.mark.parametrize("once", [False, True])
def test_two_threads_that_ask_the_same_get_the_same_noise_for_one_payment(
    once: bool, ledger: Ledger
) -> None:
    noise = IndependentNoise(width=50.0)
    source = SlowNoise(np.random.default_rng(1))
    owner = make_owner(ledger, NoiseOnce(noise) if once else noise, source=source)
    message = make_querier().ask(["w1", "w2"]).to_bytes()
    first, second = in_two_threads(lambda _: owner.answer(message, querier="lab"))
    assert first == second
    assert len(ledger.entries()) == 1


def test_two_threads_of_two_queriers_see_one_noise_of_a_cell_that_is_noised_once(
    ledger: Ledger,
) -> None:
    source = SlowNoise(np.random.default_rng(1))
    owner = make_owner(ledger, NoiseOnce(IndependentNoise(width=50.0)), source=source)
    message = make_querier().ask(["w1"]).to_bytes()
    first, second = in_two_threads(lambda i: owner.answer(message, querier=("lab", "ward")[i]))
    assert first == second
    assert len(ledger.entries()) == 1


def test_noise_drawn_once_is_drawn_once_also_without_an_owner() -> None:
    policy = NoiseOnce(IndependentNoise(width=50.0))
    source = SlowNoise(np.random.default_rng(1))
    asked = Asked(np.array([[0, 11]]), np.arange(30), np.zeros((1, 2, 30), np.int64), None)
    first, second = in_two_threads(lambda _: policy.noised(asked, source))
    assert np.array_equal(first, second)


def test_noise_drawn_once_serves_one_collection(ledger: Ledger) -> None:
    policy = NoiseOnce(IndependentNoise(width=10.0))
    make_owner(ledger, policy)
    with pytest.raises(SettingsError, match="one owner"):
        make_owner(ledger, policy)


def test_a_median_taken_by_the_owner_has_noise_of_scale_one_over_epsilon(ledger: Ledger) -> None:
    counts = made_documents(4000)
    owner = make_owner(ledger, OwnerMedian(epsilon=0.5), counts=counts)
    querier = make_querier()
    query = querier.ask(["w1"], open_rows=True)
    found = querier.estimate(TfAnswer.from_bytes(owner.answer(query.to_bytes(), querier="lab")))
    signs = KEY.hash_terms(["w1"], SHAPE).signs[0][:, None]
    truth = np.median(signs * exact_counters(query, counts)[0], axis=0)
    assert (found.total - truth).std() == pytest.approx(math.sqrt(2) / 0.5, rel=0.06)
    spent = ledger.cost("clinic", delta=1e-6, level=Level.TOKEN, simulated=True).epsilon
    assert spent == pytest.approx(0.5, rel=1e-4)


def test_secure_noise_is_recorded_as_real(ledger: Ledger) -> None:
    owner = DocumentOwner(
        "clinic",
        COUNTS,
        KEY,
        SHAPE,
        policy=IndependentNoise(width=20.0),
        ledger=ledger,
        queriers=["lab"],
        source=SecureNoise(),
    )
    owner.answer(make_querier().ask(["w1"]).to_bytes(), querier="lab")
    assert 0 < ledger.cost("clinic", delta=1e-6, level=Level.TOKEN).epsilon < math.inf
    assert ledger.cost("clinic", delta=1e-6, level=Level.DOCUMENT).epsilon == math.inf


# --- what is refused


def good_query(**fields: object) -> TfQuery:
    return make_querier().ask(["w1"])._replace(**fields)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (good_query(columns=np.full((1, 7), 11, np.uint32)), DataError),
        (good_query(columns=np.zeros((1, 6), np.uint32)), DataError),
        (good_query(columns=np.zeros((0, 7), np.uint32)), DataError),
        (good_query(documents=np.array([9])), NotFound),
        (good_query(documents=np.array([1, 1])), DataError),
        (good_query(documents=np.zeros(0, np.int64)), DataError),
        (good_query(key_fingerprint="00" * 8), DataError),
        (good_query(shape=SketchShape(n_rows=7, n_columns=12)), DataError),
        (good_query(signs=np.ones((1, 7), np.int8)), DataError),
    ],
)
def test_a_query_that_is_not_one_is_refused(
    query: TfQuery, error: type[CloisterError], ledger: Ledger
) -> None:
    owner = make_owner(ledger, IndependentNoise(width=10.0))
    with pytest.raises(error):
        owner.answer(query.to_bytes(), querier="lab")
    assert not ledger.entries()


def test_who_may_not_ask_is_refused_before_anything_else(ledger: Ledger) -> None:
    owner = make_owner(ledger, IndependentNoise(width=10.0))
    with pytest.raises(AccessDenied):
        owner.answer(b"anything", querier="press")


def test_a_query_for_too_many_numbers_is_refused_before_the_ledger(ledger: Ledger) -> None:
    per_term = SHAPE.n_rows * COUNTS.n_documents
    owner = make_owner(ledger, IndependentNoise(width=10.0), most_numbers=2 * per_term)
    querier = make_querier()
    with pytest.raises(DataError, match=f"{3 * per_term} counters"):
        owner.answer(querier.ask(["w1", "w2", "w3"]).to_bytes(), querier="lab")
    assert not ledger.entries()
    assert not owner._contents
    owner.answer(querier.ask(["w1", "w2"]).to_bytes(), querier="lab")
    owner.answer(querier.ask(["w1", "w2", "w3"], [0, 1]).to_bytes(), querier="lab")


def test_memory_of_answers_is_bounded_in_bytes_and_forgets_ids_too(ledger: Ledger) -> None:
    per_term = SHAPE.n_rows * COUNTS.n_documents
    bounds = {"most_numbers": per_term, "most_remembered_bytes": 3 * 8 * per_term}
    owner = make_owner(ledger, IndependentNoise(width=10.0), **bounds)
    querier = make_querier()
    for word in WORDS[:10]:
        owner.answer(querier.ask([word]).to_bytes(), querier="lab")
        kept = sum(released.counters.nbytes for released in owner._remembered.values())
        assert kept == owner._remembered_bytes <= bounds["most_remembered_bytes"]
    assert len(owner._remembered) == len(owner._contents) == 3
    for i in range(20):  # other ids for what is kept
        again = querier.ask([WORDS[9]])._replace(query_id=bytes([i]) * 16)
        owner.answer(again.to_bytes(), querier="lab")
    assert len(owner._contents) == 3
    with pytest.raises(SettingsError, match="most_remembered_bytes"):
        make_owner(ledger, IndependentNoise(width=10.0), most_numbers=2, most_remembered_bytes=9)


def test_refused_queries_leave_nothing_behind(ledger: Ledger) -> None:
    limit = Limit(epsilon=0.01, delta=1e-6, level=Level.TOKEN)
    ledger.set_limit("clinic", limit, purpose="pilot")
    owner = make_owner(ledger, IndependentNoise(width=10.0))
    with pytest.raises(BudgetExceeded):
        owner.answer(make_querier().ask(["w1"]).to_bytes(), querier="lab")
    assert not owner._contents
    assert not owner._remembered


def test_answers_that_wait_in_the_ledger_are_known_to_the_next_owner(ledger: Ledger) -> None:
    first = make_owner(ledger, IndependentNoise(width=10.0))
    queries = [make_querier().ask([word]) for word in WORDS[:3]]
    answers = [first.answer(query.to_bytes(), querier="lab") for query in queries]
    first.delivered(queries[0].to_bytes(), querier="lab")
    second = make_owner(ledger, IndependentNoise(width=10.0), seed=2)
    assert [unsent.answer for unsent in second.unsent()] == answers[1:]
    for query, answer in zip(queries[1:], answers[1:], strict=True):
        assert second.answer(query.to_bytes(), querier="lab") == answer
    assert len(ledger.entries()) == 3
    for unsent in second.unsent():
        second.arrived(unsent)
    assert not list(second.unsent())
    assert not ledger.pending()


def test_only_answers_for_those_who_may_still_ask_are_sent_again(ledger: Ledger) -> None:
    first = make_owner(ledger, IndependentNoise(width=10.0))
    first.answer(make_querier().ask(["w1"]).to_bytes(), querier="lab")
    first.answer(make_querier().ask(["w1"]).to_bytes(), querier="ward")
    release = IndependentNoise(width=10.0).mechanism(7).release(7)
    ledger.release(release, b"no answer", party_id="clinic", recipient="lab", purpose="other")
    second = make_owner(ledger, IndependentNoise(width=10.0))
    second._queriers = frozenset({"lab"})
    assert [unsent.querier for unsent in second.unsent()] == ["lab"]


def test_an_id_names_one_query_while_its_answer_is_kept(ledger: Ledger) -> None:
    owner = make_owner(ledger, IndependentNoise(width=10.0))
    querier = make_querier()
    first = querier.ask(["w1"])
    owner.answer(first.to_bytes(), querier="lab")
    second = querier.ask(["w2"])._replace(query_id=first.query_id)
    with pytest.raises(DataError, match="another query"):
        owner.answer(second.to_bytes(), querier="lab")


def test_a_median_needs_signs_in_rows_that_all_terms_share(ledger: Ledger) -> None:
    owner = make_owner(ledger, OwnerMedian(epsilon=1.0))
    querier = make_querier()
    with pytest.raises(DataError, match="which rows count"):
        owner.answer(querier.ask(["w1"]).to_bytes(), querier="lab")
    query = querier.ask(["w1", "w2"], open_rows=True)
    signs = query.signs.copy()
    signs[0, 0] = 0
    for wrong in (signs, np.zeros_like(signs), 2 * query.signs):
        with pytest.raises(DataError):
            owner.answer(query._replace(signs=wrong).to_bytes(), querier="lab")


def test_an_answer_that_was_not_asked_for_or_does_not_fit_is_refused() -> None:
    querier = make_querier()
    query = querier.ask(["w1"], [2, 3])
    with pytest.raises(NotFound):
        querier.estimate(TfAnswer(b"y" * 16, np.zeros((1, 7, 2))))
    with pytest.raises(DataError):
        querier.estimate(TfAnswer(query.query_id, np.zeros((1, 7, 3))))


@given(st.integers(0, 200), st.integers(1, 255), st.booleans())
def test_damaged_messages_are_read_as_something_sound_or_refused(
    place: int, flip: int, cut: bool
) -> None:
    message = bytearray(make_querier().ask(["w1", "w2"], [1, 2], open_rows=True).to_bytes())
    place %= len(message)
    message[place] ^= flip
    damaged = bytes(message[:place] if cut else message)
    try:
        query = TfQuery.from_bytes(damaged)
    except DataError:
        return
    query.check()
    assert query.to_bytes() == damaged


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.booleans())
def test_answers_come_back_as_they_were_written(
    n_terms: int, n_rows: int, n_documents: int, whole: bool
) -> None:
    values = np.random.default_rng(1).normal(0, 1e4, (n_terms, n_rows, n_documents))
    counters = values.astype(np.int64) if whole else values
    answer = TfAnswer.from_bytes(TfAnswer(b"i" * 16, counters).to_bytes())
    assert np.array_equal(answer.counters, counters)
    assert answer.query_id == b"i" * 16


def test_a_lying_head_allocates_nothing() -> None:
    head = TfAnswer(b"i" * 16, np.zeros((1, 1, 1), np.int64)).to_bytes()[:21]
    lie = head + np.array([2**31, 2**31, 2**31], "<u4").tobytes()
    with pytest.raises(DataError, match="bytes"):
        TfAnswer.from_bytes(lie)


def test_as_many_answers_as_were_planned_fit_a_limit_of_that_epsilon(tmp_path: Path) -> None:
    noise = IndependentNoise.calibrated(2.0, delta=1e-6, n_rows=7, n_answers=12)
    answer = noise.mechanism(7).release(7)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("owner", Limit(epsilon=2.0, delta=1e-6, level="token"), purpose="plan")
        for _ in range(12):
            ledger.release(answer, b"", party_id="owner", recipient="hub", purpose="")
        with pytest.raises(BudgetExceeded):
            ledger.release(answer, b"", party_id="owner", recipient="hub", purpose="")
