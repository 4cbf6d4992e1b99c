"""The bits of selector tables beside the codes as books print them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import ServerId
from cloister.search.bit_codes import (
    MAX_VALUE,
    gamma_bits,
    padded_words,
    read_gamma,
    read_rice,
    rice_bits,
    rice_parameter,
    write_gamma,
    write_rice,
)
from cloister.search.selector_table_codec import (
    length_code,
    list_section_bits,
    pack_counts,
    pack_lengths,
    pack_lists,
    sort_lists,
    unpack_counts,
    unpack_lengths,
    unpack_lists,
)
from cloister.search.term_keys import KEY_BITS, TermKeys

values = st.one_of(st.integers(0, 40), st.integers(0, MAX_VALUE - 1))


def low_first(value: int, n_bits: int) -> str:
    return format(value, f"0{n_bits}b")[::-1] if n_bits else ""


def printed_gamma(value: int) -> str:
    """Elias 1975: the length in unary, then the bits after the first; here the lowest first."""
    rest = value.bit_length() - 1
    return "0" * rest + "1" + low_first(value - 2**rest, rest)


def printed_rice(value: int, parameter: int) -> str:
    return "0" * (value // 2**parameter) + "1" + low_first(value % 2**parameter, parameter)


def bits_of(words: np.ndarray, n_bits: int) -> str:
    return "".join(map(str, np.unpackbits(words.view(np.uint8), bitorder="little")[:n_bits]))


@given(st.lists(values, max_size=20), st.integers(0, 70))
def test_gamma_codes_are_the_printed_ones(numbers, begin):
    words = np.zeros(2 + begin // 64 + len(numbers), np.uint64)
    position = begin
    for number in numbers:
        position = write_gamma(words, position, number + 1)
    wanted = "0" * begin + "".join(printed_gamma(number + 1) for number in numbers)
    assert bits_of(words, position) == wanted
    assert position - begin == sum(gamma_bits(number + 1) for number in numbers)
    words, end, position = padded_words(words.tobytes()), position, begin
    for number in numbers:
        found, position = read_gamma(words, position, end)
        assert found == number + 1
    assert read_gamma(words, position, end) == (-1, -1)


@given(st.lists(st.integers(0, 3000), max_size=20), st.integers(0, 24), st.integers(0, 70))
def test_rice_codes_are_the_printed_ones(numbers, parameter, begin):
    words = np.zeros(3 + (begin + sum(numbers) + 25 * len(numbers)) // 64, np.uint64)
    position = begin
    for number in numbers:
        position = write_rice(words, position, number, parameter)
    wanted = "0" * begin + "".join(printed_rice(number, parameter) for number in numbers)
    assert bits_of(words, position) == wanted
    assert position - begin == sum(rice_bits(number, parameter) for number in numbers)
    words, end, position = padded_words(words.tobytes()), position, begin
    for number in numbers:
        found, position = read_rice(words, position, end, parameter)
        assert found == number
    assert read_rice(words, position, end, parameter) == (-1, -1)


def test_a_number_of_more_than_32_bits_is_none():
    words = padded_words(bytes(20) + b"\xff" * 20)
    assert read_gamma(words, 0, 320) == (-1, -1)
    assert read_rice(words, 0, 320, 31) == (-1, -1)
    assert read_rice(words, 159, 320, 31)[0] == 2**32 - 1
    assert read_gamma(words, 160 - 31, 320)[0] == 2**32 - 1


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=50))
def test_the_parameter_for_a_total_is_never_far_from_the_best(numbers):
    """A bound that Rice codes have for any numbers: two bits each above the mean's logarithm."""
    parameter = rice_parameter(sum(numbers), len(numbers))
    mean = sum(numbers) / len(numbers)
    taken = sum(rice_bits(number, parameter) for number in numbers)
    assert taken <= len(numbers) * (3 + np.log2(max(mean, 1)))


def numbered_terms(rng: np.random.Generator, n: int, hash_bits: int) -> tuple[np.ndarray, ...]:
    keys = np.sort(rng.integers(0, max(n, 1) << KEY_BITS, n, dtype=np.int64))
    hashes, fine = np.divmod(keys, 1 << (KEY_BITS - hash_bits))
    n_documents = rng.geometric(0.4, n)
    n_pods = rng.integers(1, n_documents + 1)
    return hashes, fine, np.stack([n_documents, n_pods, n_documents + rng.geometric(0.5, n) - 1], 1)


@pytest.mark.parametrize("one_each", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 500])
@pytest.mark.parametrize("hash_bits", [4, 14, 24])
def test_counts_come_back(n, hash_bits, one_each):
    hashes, fine, counts = numbered_terms(np.random.default_rng(n), n, hash_bits)
    if one_each:
        counts[:, 1] = counts[:, 0]
    words = np.zeros(4 * n + 4, np.uint64)
    end = pack_counts(words, hash_bits, one_each, hashes, fine, counts)
    found = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, 3), np.int64)
    assert unpack_counts(words, end, hash_bits, one_each, *found) == end
    assert np.array_equal(found[0], hashes)
    assert np.array_equal(found[2], counts)
    _, where, n_equal = np.unique(hashes, return_inverse=True, return_counts=True)
    shared = n_equal[where] > 1 if n else np.zeros(0, bool)
    assert np.array_equal(found[1], np.where(shared, fine, -1))
    assert end <= n * (hash_bits + 2) + 28 * shared.sum() + 3 * 2 * 32 * n
    if n == 500 and hash_bits == 4:
        assert shared.any()


lists_of_terms = st.lists(
    st.dictionaries(st.integers(0, 11), st.integers(1, 500), max_size=8), max_size=8
)
lengths_of_all = st.lists(st.integers(500, 90_000), min_size=12, max_size=12)


def flat(lists: list[dict[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *(len(one) for one in lists)]).astype(np.int64)
    documents = np.array([d for one in lists for d in sorted(one)], np.int32)
    counts = np.array([one[d] for one in lists for d in sorted(one)], np.int32)
    return starts, documents, counts


@given(lists_of_terms, lengths_of_all)
def test_lists_come_back_and_take_the_bits_that_were_counted(lists, lengths):
    starts, documents, counts = flat(lists)
    every = np.array(lengths, np.int64)
    named, local = np.unique(documents, return_inverse=True)
    terms = np.arange(len(lists))
    n_bits = list_section_bits(terms, starts, documents, counts, every)
    words = np.zeros(n_bits // 64 + 4, np.uint64)
    least, parameter = length_code(every[named])
    middle = pack_lengths(words, 0, every[named], least, parameter)
    end = pack_lists(words, middle, starts, local.astype(np.int32), counts, len(named))
    assert end == n_bits
    found = np.empty_like(documents), np.empty_like(counts), np.empty(len(named), np.int64)
    assert unpack_lengths(words, 0, end, least, parameter, found[2]) == middle
    assert unpack_lists(words, middle, end, starts, *found[:2], len(named)) == end
    assert np.array_equal(found[0], local)
    assert np.array_equal(found[1], counts)
    assert np.array_equal(found[2], every[named])


@given(lists_of_terms, lengths_of_all, st.floats(0.1, 3), st.floats(1e-5, 1e-2))
def test_sorted_lists_have_the_largest_weights_first(lists, lengths, at_zero, by_length):
    starts, documents, counts = flat(lists)
    every = np.array(lengths, np.int64)
    sort_lists(starts, documents, counts, every, at_zero, by_length)
    for number, one in enumerate(lists):
        part = slice(starts[number], starts[number + 1])
        wanted = sorted(
            one.items(),
            key=lambda pair: (-pair[1] / (pair[1] + at_zero + by_length * every[pair[0]]), pair[0]),
        )
        assert list(zip(documents[part].tolist(), counts[part].tolist(), strict=True)) == wanted


@given(st.lists(st.text(max_size=6), min_size=1, max_size=30, unique=True))
def test_keys_of_many_terms_are_those_of_each(terms):
    try:
        encoded = [term.encode("utf-8") for term in terms]
    except UnicodeEncodeError:
        return
    keys = TermKeys(ServerId("a"), len(terms))
    found = keys.of_all(encoded).tolist()
    assert found == [keys.of(term) for term in terms]
    assert all(key < len(terms) << KEY_BITS for key in found)


def test_keys_are_spread_evenly():
    n = 5000
    keys = TermKeys(ServerId("a"), n).of_all([b"%d" % number for number in range(n)])
    counts = np.bincount((keys * np.uint64(20) // np.uint64(n << KEY_BITS)).astype(int))
    assert len(counts) == 20
    assert ((counts - n / 20) ** 2 / (n / 20)).sum() < 50  # chi squared, 19 degrees of freedom
