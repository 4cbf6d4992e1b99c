from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from cloister.cloud.box_layout import ClosureBox, PairBox, PhraseBox, WordBox
from cloister.cloud.client_dictionary import ClientDictionary
from cloister.cloud.index_building import build_private_index
from cloister.cloud.kernel_obfuscation import KernelObfuscation, levels_of
from cloister.cloud.model_box import ModelBox
from cloister.cloud.pair_values import pair_values
from cloister.cloud.private_index import PrivateIndex
from cloister.cloud.private_ranker import N_SOFT_FEATURES, PrivateRanker, PrivateRankingSettings
from cloister.cloud.sealed_boxes import box_name, open_box
from cloister.core.errors import DataError, NotFound
from cloister.data.ranking_data import RankingData
from cloister.rank.forest import ForestSettings
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.proximity_features import PAIR_NAMES, proximity
from cloister.rank.query_length_forests import (
    QueryLengthForests,
    QueryLengthForestSettings,
    fit_query_length_forests,
)
from cloister.rank.tree_features import TreeFeatureSettings, feature_places
from cloud.private_ranking_world import SETTINGS, World

pytest.importorskip("lightgbm")

SECRET = bytes(range(32))
QUERIES = [list(query) for query in ("a", "ab", "bac", "tsa", "acbde", "z", "azb", "", "fdh")]


def grown(world: World) -> QueryLengthForests:
    """Grow trees on made-up grades."""
    rng = np.random.default_rng(0)
    queries = [list(rng.choice(list("abcdefgh"), n, replace=False)) for n in (1, 2, 3, 4) * 6]
    everywhere = np.arange(world.texts.n_documents)
    rows = np.concatenate([world.served.tree_rows(query, everywhere) for query in queries])
    n = len(everywhere)
    data = RankingData(
        rows,
        rng.integers(0, 3, len(rows)).astype(np.int8),
        np.arange(0, len(rows) + 1, n),
        tuple(map(str, range(len(queries)))),
    )
    settings = QueryLengthForestSettings(
        longest=3,
        min_queries=6,
        forest=ForestSettings(n_trees=12, n_leaves=12, min_leaf_rows=5),
    )
    return fit_query_length_forests(data, [len(query) for query in queries], settings)


class Built:
    def __init__(self, settings: PrivateRankingSettings = SETTINGS, *, texts: bool = False) -> None:
        self.world = World(settings)
        self.forests = grown(self.world) if settings.features else None
        n_features = N_SOFT_FEATURES + (self.forests is not None)
        layer = KernelRanker(np.random.default_rng(3).normal(size=n_features), 0.5)
        ranker = PrivateRanker(self.world.ranker, layer, self.forests, settings)
        self.n = self.world.texts.n_documents
        self.doc_ids = [f"document {'x' * (d % 7)} {d}" for d in range(self.n)]
        stored = [" ".join(words) for words in self.world.documents] if texts else None
        self.steps: list[tuple[int, int]] = []
        self.index, self.dictionary = build_private_index(
            ranker, self.world.texts, self.world.priors, self.doc_ids, SECRET,
            document_texts=stored, keys=self.world.keys,
            progress=lambda done, n: self.steps.append((done, n)),
        )  # fmt: skip
        self.boxes = self.dictionary.boxes
        names = [
            self.boxes.open_document("name", d, self.index.document_name(d)) for d in range(self.n)
        ]
        places = {name: place for place, name in enumerate(self.doc_ids)}
        self.place_of = np.array([places[name.decode()] for name in names])  # of a secret number
        self.model = ModelBox.decode(self.opened("model"))

    def opened(self, kind: Any, *words: str) -> memoryview:
        token = self.boxes.token(kind, box_name(*words))
        sealed = self.index.box(token.label)
        if sealed is None:
            raise NotFound("no such box", where=kind)
        return open_box(token.key, sealed, token.label)

    def closure(self, box: WordBox | PhraseBox) -> list[int]:
        sealed = self.index.box(box.closure.label)
        assert sealed is not None
        content = open_box(box.closure.key, sealed, box.closure.label)
        return ClosureBox.decode(content, self.n).documents.tolist()

    def soft(self, terms: list[str]) -> np.ndarray:
        """Look up the soft features of all documents, by secret number."""
        obfuscation = self.world.settings.obfuscation
        words = list(dict.fromkeys(terms))
        stored = np.full((len(words), self.n, 20), obfuscation.absent, obfuscation.dtype)
        phrases = np.full((max(len(words) - 1, 0), self.n, 10), obfuscation.absent, stored.dtype)
        for row, word in enumerate(words):
            if self.dictionary.has_word(word):
                box = WordBox.decode(self.opened("word", word))
                stored[row, self.closure(box)] = box.levels
        for row, phrase in enumerate(pairwise(words)):
            if self.dictionary.has_phrase(*phrase):
                two = PhraseBox.decode(self.opened("phrase", *phrase))
                phrases[row, self.closure(two)] = two.levels
        blocks = [obfuscation.features(np.moveaxis(part, 0, 1)) for part in (stored, phrases)]
        return np.hstack(blocks)

    def coded_rows(self, terms: list[str]) -> np.ndarray:
        """Put together what the trees ask for, by secret number, one code after the other."""
        words = list(dict.fromkeys(terms))
        settings = self.world.settings.features
        assert settings is not None
        df = np.array([self.dictionary.document_frequency(word) for word in words])
        placed = [words[place] for place in feature_places(df, settings)]
        sourced = self.model.forest_for(len(words))
        assert sourced is not None
        rows = np.empty((self.n, len(sourced.sources)), np.int64)
        for at, (kind, first, second, column) in enumerate(sourced.sources.tolist()):
            if kind == 2:
                rows[:, at] = self.model.document_codes[:, column]
            elif kind == 0:
                rows[:, at] = self.model.term_zeros[column]
                if first < len(placed) and self.dictionary.has_word(placed[first]):
                    box = WordBox.decode(self.opened("word", placed[first]))
                    rows[self.closure(box), at] = box.codes[:, column]
            else:
                rows[:, at] = self.model.pair_zeros[column]
                if second < len(placed) and self.dictionary.has_pair(placed[first], placed[second]):
                    both = sorted((placed[first], placed[second]))
                    pair = PairBox.decode(self.opened("pair", *both), self.n)
                    a, b = sorted(both, key=lambda word: self.boxes.token("word", word).label)
                    turned = words.index(a) > words.index(b)  # as they stand in the query
                    column = self.model.pair_turned[column] if turned else column
                    rows[pair.documents, at] = pair.codes[:, column]
        return rows


@pytest.fixture(scope="module")
def built() -> Built:
    return Built(texts=True)


@pytest.mark.parametrize("query", QUERIES, ids="".join)
def test_soft_features_looked_up_in_boxes_are_the_plain_ones(
    built: Built, query: list[str]
) -> None:
    wanted = built.world.served.soft(query, built.place_of)
    np.testing.assert_array_equal(built.soft(query), wanted)


def test_levels_are_those_of_the_literal_kernels_but_for_values_at_a_power(built: Built) -> None:
    keys, kernels = built.world.keys, built.world.kernels
    for key in [*((word,) for word in keys.words), *keys.phrases]:
        kind, n = ("word", 20) if len(key) == 1 else ("phrase", 10)
        box: Any = {"word": WordBox, "phrase": PhraseBox}[kind].decode(built.opened(kind, *key))
        values = kernels.values(key)[:, :, :10].reshape(built.n, n)
        values = values[built.place_of[built.closure(box)]].astype(np.float64)
        low, high = (levels_of(values * factor, 10) for factor in (1 - 1e-4, 1 + 1e-4))
        assert ((low <= box.levels) & (box.levels <= high)).all()
        assert (low == high).mean() > 0.99


@pytest.mark.parametrize("query", QUERIES, ids="".join)
def test_trees_on_codes_give_the_bits_of_the_plain_ones(built: Built, query: list[str]) -> None:
    rows = built.world.served.tree_rows(query, built.place_of)
    sourced = built.model.forest_for(len(query))
    assert sourced is not None
    assert built.forests is not None
    found = sourced.forest.score(built.coded_rows(query)) / sourced.spread
    np.testing.assert_array_equal(found, built.forests.score(len(query), rows))


def test_trees_ask_for_words_pairs_in_both_directions_and_priors(built: Built) -> None:
    kinds = {kind for one in built.model.forests for kind in one.sources[:, 0].tolist()}
    assert kinds == {0, 1, 2}
    turned = built.model.pair_turned
    assert (turned != np.arange(len(turned))).any()
    assert (turned[turned] == np.arange(len(turned))).all()
    assert len(built.model.forests) == 4  # the common one, and lengths 1, 2, 3


def test_progress_ends_at_its_end(built: Built) -> None:
    n = len(built.steps)
    assert built.steps == [(step, n) for step in range(1, n + 1)]


def test_every_key_has_a_box_and_nothing_else_has(built: Built) -> None:
    keys = built.world.keys
    n_closures = keys.word_closures.n_closures + keys.phrase_closures.n_closures
    n_keys = len(keys.words) + len(keys.phrases) + len(keys.pairs)
    assert built.index.n_boxes == 1 + n_closures + n_keys


def test_names_and_texts_come_back_to_whoever_has_the_secret(built: Built) -> None:
    assert sorted(built.place_of.tolist()) == list(range(built.n))
    for number in range(built.n):
        text = built.boxes.open_document("text", number, built.index.document_text(number))
        assert text.decode().split() == built.world.documents[built.place_of[number]]
    sizes = np.diff(built.index.document_name_starts)
    assert len(set(sizes.tolist())) == 1  # names tell nothing by their length


def test_numbers_of_documents_and_labels_change_from_index_to_index(built: Built) -> None:
    again = Built()
    assert not np.array_equal(again.place_of, built.place_of)
    assert not {row.tobytes() for row in again.index.labels} & {
        row.tobytes() for row in built.index.labels
    }


def test_equal_values_have_different_codes(built: Built) -> None:
    for word in "abc":
        codes = WordBox.decode(built.opened("word", word)).codes
        assert len(np.unique(codes)) > 0.95 * codes.size
        assert 0 <= codes.min() <= codes.max() < 2**31


def test_the_file_comes_back_the_same(built: Built, tmp_path: Any) -> None:
    built.index.write(tmp_path / "index")
    again = PrivateIndex.open(tmp_path / "index")
    assert again.to_bytes() == built.index.to_bytes()
    built.dictionary.save(tmp_path / "dictionary")
    kept = ClientDictionary.load(tmp_path / "dictionary")
    assert (tmp_path / "dictionary").stat().st_mode & 0o777 == 0o600
    assert kept.secret == SECRET
    assert kept.index_id == again.index_id
    assert kept.words == built.dictionary.words
    assert kept.features == built.dictionary.features
    assert again.box(kept.boxes.token("word", "a").label) is not None


@pytest.mark.parametrize("base", [None, 2.0])
def test_without_trees_boxes_have_no_codes(base: float | None) -> None:
    obfuscation = KernelObfuscation(base=base)
    made = Built(SETTINGS.model_copy(update={"features": None, "obfuscation": obfuscation}))
    assert made.model.forest_for(3) is None
    assert made.model.base == base
    assert not len(made.dictionary.pairs)
    box = WordBox.decode(made.opened("word", "a"))
    assert box.codes.shape[1] == 0
    assert box.levels.dtype == obfuscation.dtype
    for query in QUERIES:
        wanted = made.world.served.soft(query, made.place_of)
        np.testing.assert_allclose(made.soft(query), wanted, rtol=1e-5, atol=1e-6)


def test_term_frequencies_alone_need_no_pairs_and_no_priors() -> None:
    features = TreeFeatureSettings(kind="T2", combined=False, n_positions=2)
    made = Built(SETTINGS.model_copy(update={"features": features}))
    assert made.model.document_codes.shape == (made.n, 0)
    assert not len(made.dictionary.pairs)
    for query in QUERIES:
        rows = made.world.served.tree_rows(query, made.place_of)
        sourced = made.model.forest_for(len(query))
        assert sourced is not None
        assert made.forests is not None
        found = sourced.forest.score(made.coded_rows(query)) / sourced.spread
        np.testing.assert_array_equal(found, made.forests.score(len(query), rows))


@pytest.mark.parametrize("seed", range(3))
def test_values_of_pairs_are_those_of_proximity(seed: int) -> None:
    world = World(seed=seed)
    found = pair_values(world.texts, world.keys)
    assert len(world.keys.pairs) > 20
    for number, (a, b) in enumerate(world.keys.pairs):
        rows = slice(found.starts[number], found.starts[number + 1])
        for terms, values in (([a, b], found.values), ([b, a], found.turned)):
            near = proximity(terms, found.documents[rows], world.texts, [(0, 1)])
            for column, name in enumerate(PAIR_NAMES):
                np.testing.assert_array_equal(values[name][rows], near.pairs[:, 0, column])


def test_an_index_needs_a_name_for_each_document() -> None:
    world = World(SETTINGS.model_copy(update={"features": None}))
    layer = KernelRanker(np.ones(N_SOFT_FEATURES))
    ranker = PrivateRanker(world.ranker, layer, None, world.settings)
    with pytest.raises(DataError, match="names"):
        build_private_index(ranker, world.texts, None, ["a", "a"], SECRET)
    names = [str(d) for d in range(world.texts.n_documents)]
    with pytest.raises(DataError, match="texts"):
        build_private_index(ranker, world.texts, None, names, SECRET, document_texts=["a"])


def test_words_of_a_closure_have_the_same_documents(built: Built) -> None:
    closures = built.world.keys.word_closures
    for number in range(closures.n_closures):
        words = [built.world.keys.words[w] for w in closures.members(number)]
        boxes = [WordBox.decode(built.opened("word", word)) for word in words]
        assert all(
            one.closure == two.closure and len(one.levels) == len(two.levels)
            for one, two in combinations(boxes, 2)
        )
