"""Merged postings are those of an index made of the live documents alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.index.merge_policy import MergePolicy, SegmentSize
from cloister.index.postings import Postings
from cloister.index.segment_merging import LivePostings, merge_postings
from cloister.index.string_table import StringTable
from cloister.index.term_counts import count_terms

texts = st.lists(st.sampled_from(["cough", "fever", "rash", "ärzte", "x1"]), max_size=6)
segments = st.lists(st.tuples(texts.map(" ".join), st.booleans()), max_size=6)


@given(st.lists(segments, max_size=4))
def test_merged_postings_are_those_of_the_live_documents(
    parts: list[list[tuple[str, bool]]],
) -> None:
    merged = merge_postings(
        [
            LivePostings(
                Postings.build(count_terms(text for text, _ in part)),
                np.array([live for _, live in part], np.bool_),
            )
            for part in parts
        ]
    )
    alone = Postings.build(count_terms(text for part in parts for text, live in part if live))
    assert merged.arrays().keys() == alone.arrays().keys()
    for name, array in alone.arrays().items():
        assert array.dtype == merged.arrays()[name].dtype
        assert np.array_equal(array, merged.arrays()[name]), name


def test_long_lists_are_merged_block_by_block() -> None:
    rng = np.random.default_rng(7)
    several = [" ".join(rng.choice(["a1", "b2", "c3"], 5)) for _ in range(2000)]
    live = rng.random(2000) < 0.7
    parts = [
        LivePostings(Postings.build(count_terms(several[begin:end])), live[begin:end])
        for begin, end in ((0, 700), (700, 701), (701, 2000))
    ]
    alone = Postings.build(count_terms(t for t, kept in zip(several, live, strict=True) if kept))
    for name, array in merge_postings(parts).arrays().items():
        assert np.array_equal(array, alone.arrays()[name]), name


strings = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), max_size=6)


@given(strings, strings, st.data())
def test_a_table_of_strings_is_a_list_of_strings(
    one: list[str], two: list[str], data: st.DataObject
) -> None:
    both = StringTable.chained([StringTable.of(one), StringTable.of(two)])
    listed = one + two
    assert list(both) == both.tolist() == both[:] == listed
    mask = np.array([data.draw(st.booleans()) for _ in listed], np.bool_)
    kept = [string for string, keep in zip(listed, mask, strict=True) if keep]
    assert list(both.select(mask)) == kept
    blanked = ["" if blank else s for s, blank in zip(listed, mask, strict=True)]
    assert list(both.blanked(mask)) == blanked
    with pytest.raises(IndexError):
        both[len(listed)]


sizes = st.builds(SegmentSize, st.integers(1, 10**10), st.floats(0, 1, exclude_max=True))


@given(st.lists(sizes, max_size=40), st.integers(2, 9))
def test_merging_comes_to_an_end_and_leaves_few_segments(
    several: list[SegmentSize], per_tier: int
) -> None:
    policy = MergePolicy(per_tier=per_tier)
    while places := policy.due(several):
        assert len(places) in (1, per_tier)
        merged = sum(several[place].n_live_bytes for place in places)
        several = [size for place, size in enumerate(several) if place not in places]
        several.append(SegmentSize(max(int(merged), 1), 0.0))
    limit = policy.largest_bytes / per_tier
    small = [size for size in several if size.n_live_bytes <= limit]
    n_tiers = 2 + np.log(limit / policy.smallest_bytes) / np.log(per_tier)
    assert len(small) <= (per_tier - 1) * n_tiers
    assert all(size.dead_share <= policy.dead_share for size in several)
