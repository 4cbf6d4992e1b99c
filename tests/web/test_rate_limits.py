"""Token buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloister.web.rate_limits import TokenBuckets


@given(
    st.integers(1, 100),
    st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=200),
)
def test_no_span_of_time_lets_more_through_than_a_full_bucket_and_what_flowed_in(
    a_minute: int, pauses: list[float]
) -> None:
    buckets, now, taken = TokenBuckets(a_minute), 0.0, []
    for pause in pauses:
        now += pause
        if buckets.take("ann", now=now) == 0:
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            span = taken[last] - taken[first]
            assert last - first + 1 <= a_minute + span * a_minute / 60 + 1e-6


@given(st.integers(1, 50))
def test_after_the_time_that_was_told_there_is_a_token(a_minute: int) -> None:
    buckets = TokenBuckets(a_minute)
    wait_s = 0.0
    while wait_s == 0.0:
        wait_s = buckets.take("ann", now=0.0)
    assert buckets.wait_s("ann", now=wait_s + 1e-6) == 0
    assert buckets.take("ann", now=wait_s + 1e-6) == 0


def test_asking_takes_nothing_and_others_are_not_touched() -> None:
    buckets = TokenBuckets(1)
    assert [buckets.wait_s("ann", now=0.0) for _ in range(5)] == [0.0] * 5
    assert buckets.take("ann", now=0.0) == 0
    assert buckets.take("ann", now=0.0) > 0
    assert buckets.take("bob", now=0.0) == 0


def test_the_number_of_buckets_is_bounded() -> None:
    buckets = TokenBuckets(1, max_buckets=10)
    for number in range(100):
        buckets.take(number, now=0.0)
    assert len(buckets) == 10
    assert buckets.take(99, now=0.0) > 0
