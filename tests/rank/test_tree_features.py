from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import DataError
from cloister.core.ids import DocId
from cloister.core.records import Document
from cloister.rank.document_priors import PRIOR_NAMES, SourcePriors, document_priors
from cloister.rank.proximity_features import PAIR_NAMES, TermSequences, proximity
from cloister.rank.query_length_forests import tree_rows
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

WORDS = "abcdef"
words = st.sampled_from(WORDS)
documents = st.lists(st.lists(words, max_size=30), min_size=1, max_size=5)
queries = st.lists(st.sampled_from(WORDS + "z"), min_size=1, max_size=7)  # z is in no document


def literal_pair(document: list[str], a: str, b: str) -> list[float]:
    """The five pair features as the module's text says them, a before b in the query."""
    gaps = [
        j - i
        for i, one in enumerate(document)
        for j, other in enumerate(document)
        if one == a and other == b
    ]
    closeness = 1 / min(map(abs, gaps)) if gaps else 0.0
    counts = []
    for window in (5, 10):
        counts.append(sum(0 < gap < window for gap in gaps))
        counts.append(sum(abs(gap) < window for gap in gaps))
    return [closeness, *map(float, counts)]


def literal_earliness(document: list[str], term: str) -> float:
    return 1 / (1 + document.index(term)) if term in document else 0.0


def literal_weights(corpus: list[list[str]], document: list[str], term: str) -> list[float]:
    """TF, relative TF, BM25 (Robertson's), Dirichlet's language model, TF-IDF."""
    n, length, tf = len(corpus), len(document), document.count(term)
    df = sum(term in other for other in corpus)
    n_tokens = max(sum(map(len, corpus)), 0.5)
    likely = max(sum(other.count(term) for other in corpus), 0.5) / n_tokens
    idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
    norm = 1.2 * (0.25 + 0.75 * length / (n_tokens / n))
    return [
        tf,
        tf / length if length else 0.0,
        idf * tf * 2.2 / (tf + norm) if tf else 0.0,
        math.log((tf + 2000 * likely) / (length + 2000)),
        idf * tf / length if length else 0.0,
    ]


def literal_row(
    corpus: list[list[str]], number: int, query: list[str], settings: TreeFeatureSettings
) -> dict[str, float]:
    """One row of features by name, written down from the definitions."""
    document, terms = corpus[number], list(dict.fromkeys(query))
    df = {term: sum(term in other for other in corpus) or math.inf for term in terms}
    places = sorted(terms, key=lambda term: df[term])[: settings.n_positions]
    if settings.order == "query":
        places.sort(key=terms.index)
    names = ("tf", "relative_tf", "bm25", "lm", "tf_idf")
    values = {term: literal_weights(corpus, document, term) for term in terms}
    row = {name: 0.0 for name, key in settings.features if key != "document"}
    for place, term in enumerate(places, 1):
        row |= {f"{name}[{place}]": v for name, v in zip(names, values[term], strict=True)}
    ways = {"sum": sum, "min": min, "max": max, "mean": lambda v: sum(v) / len(v)}
    if settings.combined:
        for way, function in ways.items():
            for i, name in enumerate(names):
                row[f"{way}.{name}"] = function([values[term][i] for term in terms])
        row["n_terms"] = len(terms)
        row["matched_share"] = sum(term in document for term in terms) / len(terms)
    if settings.kind == "T1":
        row |= literal_nearness(document, terms, places, settings)
    return row


def literal_nearness(
    document: list[str], terms: list[str], places: list[str], settings: TreeFeatureSettings
) -> dict[str, float]:
    row = {}
    early = [literal_earliness(document, term) for term in terms]
    for place, term in enumerate(places, 1):
        row[f"earliness[{place}]"] = early[terms.index(term)]
    for (i, a), (j, b) in combinations(enumerate(places, 1), 2):
        first, second = sorted((a, b), key=terms.index)
        for name, value in zip(PAIR_NAMES, literal_pair(document, first, second), strict=True):
            row[f"{name}[{i},{j}]"] = value
    if settings.combined:
        pairs = [literal_pair(document, a, b) for a, b in combinations(terms, 2)]
        for i, name in enumerate(PAIR_NAMES):
            row[f"mean.{name}"] = sum(pair[i] for pair in pairs) / max(len(pairs), 1)
        row["max.closeness"] = max((pair[0] for pair in pairs), default=0.0)
        row["max.earliness"] = max(early)
        row["mean.earliness"] = sum(early) / len(early)
    return row


@given(
    documents,
    queries,
    st.sampled_from(["T1", "T2"]),
    st.integers(1, 5),
    st.sampled_from(["rarest", "query"]),
    st.booleans(),
)
def test_every_feature_is_what_its_definition_says(
    corpus: list[list[str]], query: list[str], kind: str, n: int, order: str, combined: bool
) -> None:
    settings = TreeFeatureSettings(kind=kind, n_positions=n, order=order, combined=combined)
    priors = np.arange(len(corpus) * len(PRIOR_NAMES), dtype=np.float32)
    made = TreeFeatures(TermSequences.of(corpus), priors.reshape(len(corpus), -1), settings)
    rows = made.of(query, np.arange(len(corpus))[::-1])
    assert rows.dtype == np.float32
    assert len(set(made.names)) == len(made.names) == rows.shape[1]
    for row, number in zip(rows, range(len(corpus) - 1, -1, -1), strict=True):
        found = dict(zip(made.names, row.tolist(), strict=True))
        expected = literal_row(corpus, number, query, settings)
        if kind == "T1":
            expected |= {
                f"prior.{name}": float(number * len(PRIOR_NAMES) + i)
                for i, name in enumerate(PRIOR_NAMES)
            }
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


@given(st.lists(words, max_size=60), st.permutations(WORDS))
def test_proximity_of_long_documents_is_counted_pair_by_pair(
    document: list[str], query: list[str]
) -> None:
    pairs = list(combinations(range(len(query)), 2))
    near = proximity(query, np.array([0]), TermSequences.of([document]), pairs)
    literal = [literal_pair(document, query[a], query[b]) for a, b in pairs]
    np.testing.assert_allclose(near.pairs[0], literal)
    np.testing.assert_allclose(near.means[0], np.mean(literal, axis=0))
    assert near.closest[0] == max(pair[0] for pair in literal)


def test_a_window_of_five_tokens_ends_before_the_sixth() -> None:
    texts = TermSequences.of(
        [list("a...b"), list("a....b"), list("b........a"), list("b.........a")]
    )
    near = proximity(["a", "b"], np.arange(4), texts, [(0, 1)])
    assert near.pairs[:, 0, 1:].tolist() == [
        [1, 1, 1, 1],
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]


@given(documents)
def test_counts_of_sequences_are_those_of_the_documents(corpus: list[list[str]]) -> None:
    counts = TermSequences.of(corpus).counts
    found = counts.term_counts(list(WORDS), np.arange(len(corpus)))
    expected = [[document.count(word) for document in corpus] for word in WORDS]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(counts.lengths, [len(document) for document in corpus])


def test_no_feature_is_keyed_by_the_query_where_nothing_is_combined() -> None:
    made = TreeFeatureSettings(combined=False).features
    assert {feature.key for feature in made} == {"term", "pair", "document"}
    frequencies = TreeFeatureSettings(kind="T2", combined=False).features
    assert {feature.key for feature in frequencies} == {"term"}
    assert "query" in {feature.key for feature in TreeFeatureSettings().features}


def test_values_by_term_do_not_depend_on_the_rest_of_the_query() -> None:
    texts = TermSequences.of([list("abcab"), list("bbc"), list("ca")])
    settings = TreeFeatureSettings(kind="T2", n_positions=3, order="query", combined=False)
    made = TreeFeatures(texts, settings=settings)
    together, alone = made.of(["a", "b", "c"], np.arange(3)), made.of(["c"], np.arange(3))
    np.testing.assert_array_equal(together[:, 10:15], alone[:, :5])


def test_t1_is_t2_with_more_columns() -> None:
    texts = TermSequences.of([list("abcab"), list("bbc")])
    priors = np.zeros((2, len(PRIOR_NAMES)), np.float32)
    both = [TreeFeatures(texts, priors, TreeFeatureSettings(kind=kind)) for kind in ("T1", "T2")]
    t1, t2 = (made.of(["b", "c"], np.arange(2)) for made in both)
    assert both[0].names[: len(both[1].names)] == both[1].names
    np.testing.assert_array_equal(t1[:, : t2.shape[1]], t2)


def test_what_does_not_fit_is_refused() -> None:
    texts = TermSequences.of([list("ab")])
    with pytest.raises(DataError, match="T1 needs priors"):
        TreeFeatures(texts)
    with pytest.raises(DataError, match="one row of priors"):
        TreeFeatures(texts, np.zeros((2, len(PRIOR_NAMES)), np.float32))
    with pytest.raises(DataError, match="there are 1 documents"):
        proximity(["a"], np.array([1]), texts)
    with pytest.raises(DataError, match="stands twice"):
        proximity(["a", "a"], np.array([0]), texts)
    with pytest.raises(DataError, match="a pair"):
        proximity(["a", "b"], np.array([0]), texts, [(1, 0)])
    with pytest.raises(DataError, match="do not fit"):
        TermSequences(np.array([0, 1]), np.array([3], np.int32), ("a",))
    made = TreeFeatures(texts, settings=TreeFeatureSettings(kind="T2"))
    with pytest.raises(DataError, match="do not fit together"):
        tree_rows(made, [["a"]], [np.array([0])], [np.array([1, 0])])


def test_rows_of_a_data_set_are_those_of_its_queries() -> None:
    made = TreeFeatures(
        TermSequences.of([list("ab"), list("bc")]), settings=TreeFeatureSettings(kind="T2")
    )
    candidates = [np.array([1, 0]), np.array([1])]
    rows = tree_rows(
        made, [["a"], ["b", "c"]], candidates, [np.array([0, 2]), np.array([1])],
        query_ids=("q", "r"),
    )  # fmt: skip
    np.testing.assert_array_equal(rows.features[:2], made.of(["a"], candidates[0]))
    np.testing.assert_array_equal(rows.features[2:], made.of(["b", "c"], candidates[1]))
    assert rows.labels.tolist() == [0, 2, 1]
    assert rows.offsets.tolist() == [0, 2, 3]


def test_priors_are_figures_of_the_text() -> None:
    text = "The cough is dry. 12 mg of the drug helped!"
    (row,) = document_priors([Document(DocId("d"), text)])
    found = dict(zip(PRIOR_NAMES, row.tolist(), strict=True))
    counted = [2, 1, 1, 1, 1, 1, 1, 1, 1]  # "the" twice
    characters = len("thecoughisdry12mgofthedrughelped")
    expected = {
        "length": 10,
        "distinct_share": 0.9,
        "entropy": -sum(n / 10 * math.log2(n / 10) for n in counted),
        "stop_word_share": 0.4,
        "digit_share": 0.1,
        "word_length": characters / 10,
        "sentence_length": 5,
        "readability": 4.71 * characters / 10 + 0.5 * 5 - 21.43,
    }
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_document_without_words_has_priors_of_zero() -> None:
    priors = document_priors([Document(DocId("d"), " ... "), Document(DocId("e"), "cough")])
    assert priors[0].tolist() == [0.0] * len(PRIOR_NAMES)
    assert np.isfinite(priors).all()


def test_a_title_counts_as_text() -> None:
    titled = document_priors([Document(DocId("d"), "dry cough", "mild fever")])
    assert titled[0, 0] == 4


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), min_size=1))
def test_a_source_prior_leaves_out_the_grades_of_the_query_it_is_for(
    rows: list[tuple[int, int, int]],
) -> None:
    sources = ["a", "b", "a", "c", "b", "a"]
    queries, numbers, grades = np.array(rows).T
    learnt = SourcePriors(sources, queries, numbers, grades, strength=2.0)
    for query in range(4):
        kept = [(d, g) for q, d, g in rows if q != query]
        overall = sum(g for _, g in kept) / len(kept) if kept else 0.0
        for document, source in enumerate(sources):
            own = [g for d, g in kept if sources[d] == source]
            expected = (sum(own) + 2 * overall) / (len(own) + 2)
            (found,) = learnt.of(np.array([document]), without=query)
            assert found == pytest.approx(expected)


def test_source_priors_need_rows_that_fit() -> None:
    with pytest.raises(DataError, match="strength above 0"):
        SourcePriors(["a"], np.array([0]), np.array([0]), np.array([1]), strength=0.0)


def test_a_row_for_training_does_not_carry_its_own_grade_in_its_source() -> None:
    texts = TermSequences.of([list("ab"), list("bc")])
    learnt = SourcePriors(["x", "y"], np.array([0, 1]), np.array([0, 0]), np.array([3, 1]))
    settings = TreeFeatureSettings(source_prior=True)
    priors = np.zeros((2, len(PRIOR_NAMES)), np.float32)
    made = TreeFeatures(texts, priors, settings, sources=learnt)
    assert made.features[-1] == ("prior.source", "document")
    both = np.arange(2)
    rows = tree_rows(
        made, [["a"], ["a"]], [both, both], [np.zeros(2), np.zeros(2)], training=[0, None]
    )
    np.testing.assert_allclose(rows.features[:2, -1], learnt.of(both, without=0))
    np.testing.assert_allclose(rows.features[2:, -1], learnt.of(both))
    assert rows.features[0, -1] != rows.features[2, -1]
    with pytest.raises(DataError, match="source of each document"):
        TreeFeatures(texts, priors, settings)


@pytest.mark.parametrize("kind", ["T1", "T2"])
def test_no_documents_and_no_terms_give_rows_of_the_same_width(kind: str) -> None:
    texts = TermSequences.of([list("ab")])
    priors = np.zeros((1, len(PRIOR_NAMES)), np.float32)
    made = TreeFeatures(texts, priors, TreeFeatureSettings(kind=kind))
    assert made.of(["a", "b"], np.empty(0, np.int64)).shape == (0, len(made.names))
    assert made.of([], np.array([0])).tolist() == [[0.0] * len(made.names)]
