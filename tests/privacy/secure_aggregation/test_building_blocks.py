from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint
from cloister.privacy.secure_aggregation.keys import ENCRYPTION, MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import MaskStream
from cloister.privacy.secure_aggregation.neighbours import (
    _most_marked,
    holders_at,
    plan_graph,
    ring_order,
)
from cloister.privacy.secure_aggregation.shamir import (
    PRIME,
    lagrange_at_zero,
    reconstruct,
    share,
)

reals = st.lists(st.floats(-100, 100), min_size=1, max_size=6)


# --- fixed point


@given(st.lists(reals, min_size=1, max_size=5), st.integers(0, 40))
def test_the_decoded_sum_is_the_sum_of_truncated_values(rows: list[list[float]], bits: int) -> None:
    width = min(map(len, rows))
    code = FixedPoint(bound=100.0, scale_bits=bits)
    total = np.zeros(width, np.uint64)
    for row in rows:
        total += code.encode(row[:width])
    exact = [sum(int(Fraction(row[i]) * 2**bits) for row in rows) for i in range(width)]
    assert total.view(np.int64).tolist() == exact
    decoded = code.decode(total, n_clients=len(rows))
    assert decoded.tolist() == pytest.approx([Fraction(e, 2**bits) for e in exact], rel=1e-15)


@given(reals, st.integers(0, 30))
def test_encoding_never_makes_a_vector_longer(values: list[float], bits: int) -> None:
    code = FixedPoint(bound=100.0, scale_bits=bits)
    integers = code.encode(values).view(np.int64).tolist()
    length = sum(Fraction(i, 2**bits) ** 2 for i in integers)
    assert length <= sum(Fraction(v) ** 2 for v in values)


@pytest.mark.parametrize(
    "values", [[np.nan], [np.inf], [-np.inf], [1.0000001], [-2], [True], ["1"], [1j]]
)
def test_what_is_no_number_or_out_of_range_is_refused(values: list[object]) -> None:
    with pytest.raises(DataError):
        FixedPoint(bound=1.0).encode(np.array(values))


def test_unsigned_counts_beyond_the_bound_are_refused_and_not_wrapped() -> None:
    with pytest.raises(DataError):
        FixedPoint(bound=2.0**62, scale_bits=0).encode(np.array([2**64 - 1], np.uint64))


@given(st.integers(1, 30), st.floats(1.0, 2.0**62), st.data())
def test_integers_are_compared_with_the_bound_exactly(
    n: int, bound: float, data: st.DataObject
) -> None:
    """A float near 2^60 stands for many integers; none above the bound may pass as equal to it."""
    code = FixedPoint(bound=bound, scale_bits=0)
    kind = data.draw(st.sampled_from((np.int64, np.uint64)))
    value = int(bound) + data.draw(st.integers(-1100, 1100))
    sign = data.draw(st.sampled_from((1, -1))) if kind is np.int64 else 1
    assume(value >= 0)
    given_value = np.array([sign * value], kind)
    if Fraction(value) > Fraction(bound):
        with pytest.raises(DataError, match="larger in size"):
            code.encode(given_value)
        return
    encoded = code.encode(given_value)
    assert int(encoded.view(np.int64)[0]) == sign * value
    if n * int(bound) < 2**63:
        total = encoded * np.uint64(n)
        assert code.decode_counts(total, n_clients=n).tolist() == [n * sign * value]


@pytest.mark.parametrize(("bound", "bits"), [(1e300, 62), (2.0**63, 0), (1.0, 62), (2.5, 62)])
def test_a_bound_that_no_word_holds_is_refused_at_once(bound: float, bits: int) -> None:
    if bound == 1.0:
        assert FixedPoint(bound=bound, scale_bits=bits).encode([-1.0]).tolist() == [2**64 - 2**62]
        return
    with pytest.raises(SettingsError, match="2\\^63"):
        FixedPoint(bound=bound, scale_bits=bits)


def test_a_sum_that_could_overflow_is_refused_when_planned() -> None:
    code = FixedPoint(bound=1.0, scale_bits=60)
    assert code.largest_sum(7) == 7 * 2**60
    with pytest.raises(SettingsError, match="2\\^63"):
        code.largest_sum(8)


def test_a_sum_beyond_what_clients_can_reach_is_refused() -> None:
    code = FixedPoint(bound=10.0, scale_bits=0)
    assert code.decode_counts(np.array([20], np.uint64), n_clients=2).tolist() == [20]
    for wrong in (21, 2**64 - 21):
        with pytest.raises(DataError):
            code.decode_counts(np.array([wrong], np.uint64), n_clients=2)


# --- Shamir


@given(st.binary(max_size=65), st.data())
def test_any_threshold_of_shares_give_the_secret(secret: bytes, data: st.DataObject) -> None:
    points = data.draw(st.lists(st.integers(1, 5000), min_size=1, max_size=9, unique=True))
    threshold = data.draw(st.integers(1, len(points)))
    shares = dict(zip(points, share(secret, threshold, points), strict=True))
    chosen = data.draw(st.permutations(points))[: data.draw(st.integers(threshold, len(points)))]
    found = reconstruct({point: shares[point] for point in chosen}, threshold)
    assert found == int.from_bytes(secret, "big")


def test_weights_are_lagranges_for_every_subset_of_some_points() -> None:
    many = tuple(range(3, 220, 2)) + tuple(range(2, 220, 4))
    sets = [*combinations((1, 2, 3, 7, 900, 2**40), 4), *combinations(range(1, 7), 3), (1,), (2,)]
    for points in (*sets, many, tuple(range(1, 100)), tuple(range(20, 90))):
        for point, weight in zip(points, lagrange_at_zero(points), strict=True):
            literal = 1
            for other in points:
                if other != point:
                    literal = literal * other * pow(other - point, -1, PRIME) % PRIME
            assert weight == literal


def test_fewer_shares_fit_every_secret() -> None:
    """With t - 1 shares fixed, each secret has its polynomial: nothing is learnt."""
    values = dict(zip((1, 2), share(b"x", 3, (1, 2, 3))[:2], strict=True))
    for secret in (0, 1, 12345):
        w1, w2, w3 = lagrange_at_zero((1, 2, 3))
        third = (secret - w1 * values[1] - w2 * values[2]) * pow(w3, -1, PRIME) % PRIME
        assert reconstruct({**values, 3: third}, 3) == secret


def test_wrong_repeated_and_too_few_shares_are_refused() -> None:
    shares = dict(zip((1, 2, 3, 4), share(b"secret", 2, (1, 2, 3, 4)), strict=True))
    for point in shares:
        with pytest.raises(DataError, match="disagree"):
            reconstruct({**shares, point: (shares[point] + 1) % PRIME}, 2)
    with pytest.raises(DataError, match="needed"):
        reconstruct({1: shares[1]}, 2)
    with pytest.raises(DataError, match="different"):
        share(b"secret", 2, (1, 1, 2))
    with pytest.raises(DataError, match="field"):
        reconstruct({1: PRIME, 2: 0}, 2)
    with pytest.raises(SettingsError):
        share(b"secret", 3, (1, 2))


# --- masks and keys


@pytest.mark.parametrize("n_values", [1, 5, 32_768, 32_769, 70_001])
def test_a_mask_is_the_key_stream_of_aes_256_ctr(n_values: int) -> None:
    cipher = Cipher(algorithms.AES256(b"s" * 32), modes.CTR(bytes(16))).encryptor()
    literal = np.frombuffer(cipher.update(bytes(8 * n_values)), "<u8")
    vector = np.full(n_values, 7, np.uint64)
    MaskStream(n_values).add(vector, b"s" * 32)
    assert np.array_equal(vector, literal + np.uint64(7))


def test_two_clients_agree_and_each_part_of_the_context_changes_the_key() -> None:
    a, b = KeyPair.generate(), KeyPair.generate()
    key = a.agree(b.public, MASK, b"t", 1, 2)
    assert key == b.agree(a.public, MASK, b"t", 1, 2)
    others = [
        a.agree(b.public, ENCRYPTION, b"t", 1, 2),
        a.agree(b.public, MASK, b"u", 1, 2),
        a.agree(b.public, MASK, b"t", 1, 3),
        a.agree(KeyPair.generate().public, MASK, b"t", 1, 2),
    ]
    assert len({key, *others}) == 5
    assert a.private_bytes().hex() not in repr(a)


def test_a_public_key_of_low_order_is_refused() -> None:
    with pytest.raises(AggregationFailed, match="not usable"):
        KeyPair.generate().agree(bytes(32), MASK, b"t", 0, 1)


# --- neighbours


@given(st.integers(5, 60), st.data())
def test_the_tail_bound_is_the_hypergeometric_quantile(n: int, data: st.DataObject) -> None:
    marked, drawn = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    bits = data.draw(st.integers(0, 30))

    def small(m: int) -> bool:
        tail = sum(
            Fraction(comb(marked, i) * comb(n - marked, drawn - i), comb(n, drawn))
            for i in range(m + 1, min(marked, drawn) + 1)
        )
        return n * tail <= Fraction(1, 2**bits)

    found = _most_marked(n, marked, drawn, bits)
    assert small(found)
    assert found == max(0, drawn - (n - marked)) or not small(found - 1)


def test_the_tail_bound_agrees_with_scipy_for_a_thousand_clients() -> None:
    most = _most_marked(1000, 100, 219, 20)
    law = stats.hypergeom(1000, 100, 219)
    assert 1000 * law.sf(most) <= 2**-20 < 1000 * law.sf(most - 1)


@given(st.integers(2, 30), st.data())
def test_holding_is_mutual_and_everybody_has_as_many_holders(n: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(n)))
    n_holders = data.draw(st.sampled_from([*range(1, n + 1, 2), n]))
    holders = {order[place]: holders_at(order, place, n_holders) for place in range(n)}
    for client, held_by in holders.items():
        assert client in held_by
        assert len(held_by) == n_holders
        assert all(client in holders[other] for other in held_by)


def test_every_ring_order_is_as_likely_as_any_other() -> None:
    seen = dict.fromkeys(map(tuple, _orders()), 0)
    n_draws = 2400
    for number in range(n_draws):
        seen[tuple(ring_order(number.to_bytes(4, "big"), ["a", "b", "c", "d"]))] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6


def _orders() -> list[list[int]]:
    from itertools import permutations

    return [list(order) for order in permutations(range(4))]


@pytest.mark.parametrize(
    ("n", "dropouts", "colluders"), [(100, 10, 5), (1000, 100, 50), (3000, 300, 60)]
)
def test_a_planned_ring_satisfies_the_inequalities_for_random_orders(
    n: int, dropouts: int, colluders: int
) -> None:
    plan = plan_graph(n, n - dropouts, colluders)
    assert plan.n_holders < n
    width, threshold = plan
    rng = np.random.default_rng(1)
    for _ in range(50):
        assert _most_in_a_row(rng, n, dropouts, width) <= width - threshold
        marked = _marked(rng, n, colluders)
        c = _in_a_row(marked, width)
        overlap = _in_a_row(marked, min(width, 2 * (width - threshold) + c))
        gap = _in_a_row(marked, min(width, width - threshold + c))
        assert 2 * threshold >= width + 2 * c + 2
        assert 3 * threshold >= 2 * width + 2 + overlap + gap


def _marked(rng: np.random.Generator, n: int, n_marked: int) -> np.ndarray:
    marked = np.zeros(n, int)
    marked[rng.permutation(n)[:n_marked]] = 1
    return marked


def _in_a_row(marked: np.ndarray, width: int) -> int:
    around = np.concatenate([[0], np.cumsum(np.concatenate([marked, marked[:width]]))])
    return int((around[width:] - around[:-width]).max())


def _most_in_a_row(rng: np.random.Generator, n: int, n_marked: int, width: int) -> int:
    return _in_a_row(_marked(rng, n, n_marked), width)


def test_a_plan_that_cannot_withstand_a_lying_server_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 6 survivors"):
        plan_graph(8, 5, 3)


@given(st.integers(2, 40), st.data())
def test_a_complete_graph_follows_bonawitz(n: int, data: st.DataObject) -> None:
    survivors, colluders = data.draw(st.integers(1, n)), data.draw(st.integers(0, n))
    try:
        plan = plan_graph(n, survivors, colluders)
    except SettingsError:
        assert 2 * survivors <= n + colluders
        return
    assume(plan.n_holders == n)
    assert plan.threshold == survivors
    assert 2 * survivors > n + colluders
