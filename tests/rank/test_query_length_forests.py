from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import Damaged, DataError, NotFound
from cloister.data.ranking_data import RankingData
from cloister.rank.forest import ForestSettings, fit_forest
from cloister.rank.proximity_features import TermSequences
from cloister.rank.query_length_forests import (
    QueryLengthForests,
    QueryLengthForestSettings,
    TreeSignal,
    chosen_queries,
    fit_query_length_forests,
    load_query_length_forests,
    save_query_length_forests,
    tree_rows,
)
from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings
from rank.labelled_data import made_data

pytest.importorskip("lightgbm")

TREES = ForestSettings(n_trees=6, n_leaves=4, min_leaf_rows=5, patience=3)
SMALL = QueryLengthForestSettings(longest=3, min_queries=15, forest=TREES)
LENGTHS = np.array([1] * 20 + [2] * 10 + [3] * 12 + [7] * 18)  # 3 and 7 share a forest


@pytest.fixture(scope="module")
def data() -> RankingData:
    return made_data(n_queries=60)


@pytest.fixture(scope="module")
def forests(data: RankingData) -> QueryLengthForests:
    return fit_query_length_forests(data, LENGTHS, SMALL, seed=1)


def test_a_length_with_enough_queries_has_trees_grown_on_these_alone(
    data: RankingData, forests: QueryLengthForests
) -> None:
    assert sorted(forests.by_length) == [1, 3]
    for length, queries in ((1, LENGTHS == 1), (3, LENGTHS >= 3)):
        own = fit_forest(chosen_queries(data, np.flatnonzero(queries)), TREES, seed=1)
        assert forests.by_length[length].text == own.text
    assert forests.common.text == fit_forest(data, TREES, seed=1).text


def test_lengths_with_too_few_queries_fall_back_to_the_common_forest(
    forests: QueryLengthForests,
) -> None:
    assert forests.forest_of(2) is forests.common
    assert forests.forest_of(0) is forests.common
    assert forests.forest_of(3) is forests.forest_of(40) is forests.by_length[3]


def test_one_length_alone_needs_no_second_forest(data: RankingData) -> None:
    grown = fit_query_length_forests(data, [4] * 60, SMALL)
    assert not grown.by_length


def test_scores_of_rows_are_those_of_each_query_by_itself(
    data: RankingData, forests: QueryLengthForests
) -> None:
    together = forests.score_rows(data, LENGTHS)
    for query, length in enumerate(LENGTHS.tolist()):
        rows = data.rows(query)
        forest = forests.forest_of(length)
        alone = forest.score(data.features[rows]) / forest.spread
        np.testing.assert_array_equal(together[rows], alone)


def test_validation_decides_how_many_trees_are_kept(data: RankingData) -> None:
    many = SMALL.model_copy(update={"forest": TREES.model_copy(update={"n_trees": 60})})
    other = made_data(seed=5, n_queries=30)
    stopped = fit_query_length_forests(data, LENGTHS, many, validation=(other, [1] * 30))
    assert stopped.common.n_trees < 60
    assert stopped.by_length[1].n_trees < 60
    assert stopped.by_length[3].n_trees == 60  # no query of that length there


def test_chosen_queries_keep_their_rows_and_names() -> None:
    whole = RankingData(
        np.arange(6.0).reshape(6, 1),
        np.array([0, 1, 2, 0, 1, 2], np.int8),
        np.array([0, 2, 2, 5, 6]),
        query_ids=("a", "b", "c", "d"),
        doc_ids=tuple("uvwxyz"),
    )
    some = chosen_queries(whole, np.array([3, 1, 2]))
    assert some.features[:, 0].tolist() == [5, 2, 3, 4]
    assert some.labels.tolist() == [2, 2, 0, 1]
    assert some.offsets.tolist() == [0, 1, 1, 4]
    assert (some.query_ids, some.doc_ids) == (("d", "b", "c"), tuple("zwxy"))


def test_saved_forests_score_alike(
    data: RankingData, forests: QueryLengthForests, tmp_path: Path
) -> None:
    save_query_length_forests(forests, tmp_path)
    loaded = load_query_length_forests(tmp_path)
    assert (sorted(loaded.by_length), loaded.longest) == ([1, 3], 3)
    np.testing.assert_array_equal(
        loaded.score_rows(data, LENGTHS), forests.score_rows(data, LENGTHS)
    )


def test_a_folder_that_is_not_whole_is_refused(forests: QueryLengthForests, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_query_length_forests(tmp_path)
    save_query_length_forests(forests, tmp_path)
    file = tmp_path / "length-3.forest"
    content = file.read_bytes()
    file.write_bytes(content[:-5] + b"00000")
    with pytest.raises(Damaged):
        load_query_length_forests(tmp_path)
    file.unlink()
    with pytest.raises(NotFound):
        load_query_length_forests(tmp_path)
    for text in ("{", "[]", '{"lengths": [3]}', '{"lengths": ["x"], "longest": 3}'):
        (tmp_path / "forests.json").write_text(text)
        with pytest.raises(DataError, match=r"forests\.json"):
            load_query_length_forests(tmp_path)


def test_what_does_not_fit_is_refused(data: RankingData, forests: QueryLengthForests) -> None:
    with pytest.raises(DataError, match="60 lengths"):
        fit_query_length_forests(data, [1, 2], SMALL)
    with pytest.raises(DataError, match="up to the longest"):
        QueryLengthForests(forests.common, {4: forests.common}, longest=3)
    narrow = fit_forest(made_data(n_features=2), TREES)
    with pytest.raises(DataError, match="equal features"):
        QueryLengthForests(forests.common, {1: narrow}, longest=3)
    made = TreeFeatures(TermSequences.of([["a"]]), settings=TreeFeatureSettings(kind="T2"))
    with pytest.raises(DataError, match="the forests have 4 features"):
        TreeSignal(made, forests)


def test_the_signal_ranks_documents_that_match_first() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    corpus = [[words[i] for i in rng.integers(0, 30, 20)] for _ in range(60)]
    queries = [[words[i] for i in rng.choice(30, n, replace=False)] for n in (1, 2) * 30]
    settings = TreeFeatureSettings(kind="T2")
    made = TreeFeatures(TermSequences.of(corpus), settings=settings)
    everything = np.arange(60)
    grades = [
        np.array([sum(term in document for term in query) for document in corpus], np.int8)
        for query in queries
    ]
    rows = tree_rows(made, queries, [everything] * 60, grades)
    lengths = [len(query) for query in queries]
    grown = fit_query_length_forests(rows, lengths, SMALL)
    assert sorted(grown.by_length) == [1, 2]
    signal = TreeSignal(made, grown)
    for query, grade, n in zip(queries, grades, lengths, strict=True):
        scores = signal.exact_match_signal(query, everything)
        np.testing.assert_array_equal(scores, grown.score(n, made.of(query, everything)))
        assert scores[grade == n].min() > scores[grade == 0].max()
    once = signal.exact_match_signal(["w1"], everything)
    np.testing.assert_array_equal(signal.exact_match_signal(["w1", "w1"], everything), once)
