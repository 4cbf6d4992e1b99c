"""What ``cloister sketch query`` makes of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.app.sketch_building import changing
from cloister.app.sketch_query import N_MADE_UP, answer_query, query_terms
from cloister.core.errors import NotFound, SettingsError
from cloister.core.random import stream
from cloister.index.term_counts import TermCounts, count_terms
from cloister.index.term_weights import TermWeightSettings, bm25, match_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.noisy_release import NoisyReleaseSettings, make_release
from cloister.sketch.rtk_query import ReverseTop
from cloister.sketch.rtk_sketch import RtkSketch
from cloister.sketch.sketched_counts import SketchedCounts

KEY = HashKey(bytes(range(32)))
WORDS = ["cough", "fever", "rash", "asthma"]


class Exact:
    """A source without errors."""

    def __init__(self, counts: TermCounts) -> None:
        self.counts = counts

    def top(self, term: str, k: int) -> ReverseTop:
        found = self.term_counts([term], np.arange(self.counts.n_documents))[0]
        best = np.argsort(-found, kind="stable")[:k]
        return ReverseTop(best.astype(np.int32)[None], found[best][None])

    def term_counts(
        self, terms: Sequence[str], documents: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        return self.counts.term_counts(terms, documents)


@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=8), min_size=1, max_size=20),
    terms=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    k=st.integers(1, 25),
)
def test_the_best_by_summed_counts_are_found(
    texts: list[list[str]], terms: list[str], k: int
) -> None:
    source = Exact(count_terms([" ".join(text) for text in texts]))
    found = answer_query(source, terms, k, "counts")
    score = {i: sum(text.count(term) for term in terms) for i, text in enumerate(texts)}
    best = sorted((i for i in score if score[i]), key=lambda i: (-score[i], i))[:k]
    assert found.documents.tolist() == best
    assert found.scores.tolist() == [score[i] for i in best]
    assert found.counts.T.tolist() == [[texts[i].count(term) for term in terms] for i in best]
    assert found.stands_out.all()  # made-up terms find nothing where nothing errs


def test_a_term_that_occurs_nowhere_seldom_stands_out_from_made_up_ones() -> None:
    rng = stream(3, "texts")
    words = [f"w{i}" for i in range(300)]
    texts = [" ".join(rng.choice(words, size=80)) for _ in range(150)]
    settings = NoisyReleaseSettings(
        n_rows=2, n_columns=400, cell_size=40, epsilon=4.0, statistics_columns=16
    )
    made = make_release(count_terms(texts), KEY, settings, words=SeededWords(4))
    source = SketchedCounts(made, KEY)
    absent = [answer_query(source, [f"absent{i}"], 1, "counts") for i in range(60)]
    share = np.mean([bool(found.stands_out.any()) for found in absent])
    assert share < 0.17  # 0.05 is expected, give or take 0.04
    assert all(len(found.made_up) == N_MADE_UP for found in absent)


def test_bm25_of_a_term_that_is_there_stands_out_and_of_one_that_is_not_does_not() -> None:
    rng = stream(3, "texts")
    texts = [" ".join(rng.choice([f"w{i}" for i in range(300)], size=80)) for _ in range(150)]
    texts[40] += " asthma" * 90
    settings = NoisyReleaseSettings(n_rows=2, n_columns=400, cell_size=40, epsilon=4.0)
    counts = count_terms(texts)
    source = SketchedCounts(make_release(counts, KEY, settings, words=SeededWords(4)), KEY)
    there = answer_query(source, ["asthma"], 3, "bm25")
    assert there.documents[0] == 40
    assert there.stands_out[0]
    exact = bm25(match_terms(["asthma"], np.array([40]), counts), TermWeightSettings())
    assert there.scores[0] == pytest.approx(exact[0], rel=0.6)  # few documents: df is noisy
    assert not answer_query(source, ["absent"], 3, "bm25").stands_out.any()


def test_words_are_cut_as_texts_are() -> None:
    assert query_terms(["Cough!", "high fever"]) == ["cough", "high", "fever"]
    with pytest.raises(SettingsError, match="stop words"):
        query_terms(["the", "of a"])


def test_changes_of_one_file_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "exact.sketch"
    counts = count_terms(["cough fever"] * 20)
    shape = SketchShape(n_rows=2, n_columns=10)
    hashed = KEY.hash_terms(counts.vocabulary, shape)
    RtkSketch.build(counts, hashed, cell_size=5).save(path)

    def delete(number: int) -> None:
        with changing(path):
            sketch = RtkSketch.load(path)
            sketch.delete(str(number))
            sketch.save(path)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(delete, range(16)))
    assert RtkSketch.load(path).n_documents == 4


def test_a_file_that_is_not_there_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(NotFound), changing(tmp_path / "nowhere"):
        pass
