"""Noise from a table and AES against exact chances, exact inversion and opendp."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.mechanisms.aes_noise import (
    CHUNK,
    AesWords,
    SeededWords,
    Words,
    add_noise,
)
from cloister.privacy.mechanisms.noise_table import NoiseKind, noise_table
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from privacy.goodness_of_fit import (
    SIGNIFICANCE,
    discrete_gaussian,
    discrete_laplace,
    fit_of_whole_numbers,
)

WORD = 2**64
KEY = bytes(range(32))


class GivenWords:
    """Words as a test wants them."""

    simulated = True

    def __init__(self, words: list[int], more: int = 0) -> None:
        self.words = np.array(words, np.uint64)
        self.more = more

    def fill(self, out: NDArray[np.uint64], *, purpose: int, first: int) -> None:
        out[:] = self.words[first : first + len(out)]

    def more_bits(self) -> int:
        return self.more


def drawn(kind: NoiseKind, width: float, words: Words, n: int = 400_000) -> NDArray[np.int64]:
    values = np.zeros(n, np.int64)
    add_noise(values, noise_table(kind, width), words)
    return values


@pytest.mark.parametrize("sigma", [0.4, 0.66, 1.47, 9.4, 60.0])
def test_normal_noise_from_aes_has_the_exact_chances(sigma: float) -> None:
    noise = drawn("discrete-gaussian", sigma, AesWords(KEY))
    assert fit_of_whole_numbers(noise, discrete_gaussian(sigma)) > SIGNIFICANCE


@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_laplace_noise_from_aes_has_the_exact_chances(scale: float) -> None:
    noise = drawn("discrete-laplace", scale, AesWords(KEY))
    assert fit_of_whole_numbers(noise, discrete_laplace(scale)) > SIGNIFICANCE


def test_a_test_of_fit_would_see_a_width_one_percent_off() -> None:
    noise = drawn("discrete-gaussian", 9.4 * 1.01, AesWords(KEY))
    assert fit_of_whole_numbers(noise, discrete_gaussian(9.4)) < SIGNIFICANCE


def test_moments_of_wide_noise_are_those_of_a_normal_variable() -> None:
    noise = drawn("discrete-gaussian", 500.0, SeededWords(2)) / 500.0
    n = len(noise)
    assert abs(noise.mean()) < 5 / math.sqrt(n)
    assert abs((noise**2).mean() - 1) < 5 * math.sqrt(2 / n)
    assert abs((noise**4).mean() - 3) < 5 * math.sqrt(96 / n)


def test_noise_is_distributed_as_that_of_opendp() -> None:
    ours = drawn("discrete-gaussian", 3.0, AesWords(), 20_000)
    theirs = SecureNoise().discrete_gaussian(np.zeros(20_000, np.int64), 3.0)
    both = np.stack([np.bincount(np.clip(x + 8, 0, 16), minlength=17) for x in (ours, theirs)])
    assert stats.chi2_contingency(both).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("kind", ["discrete-gaussian", "discrete-laplace"])
def test_table_holds_the_first_64_bits_of_the_exact_sums(kind: NoiseKind) -> None:
    table = noise_table(kind, 1.5)
    x = range(-300, 301)
    with localcontext(prec=150):
        width = Decimal("1.5")
        if kind == "discrete-gaussian":
            weights = [(-Decimal(i * i) / (2 * width * width)).exp() for i in x]
        else:
            weights = [(-Decimal(abs(i)) / width).exp() for i in x]
        total = sum(weights)
        running, sums = Decimal(0), {}
        for i, weight in zip(x, weights, strict=True):
            running += weight
            sums[i] = int(running / total * WORD)
    found = {table.low + i: int(bound) for i, bound in enumerate(table.bounds)}
    assert found == {i: sums[i] for i in found}
    assert sums[table.low - 1] == 0
    assert found[max(found)] == WORD - 1


@settings(max_examples=200, deadline=None)
@given(word=st.integers(0, WORD - 1), sigma=st.sampled_from([0.05, 0.7, 4.0, 300.0]))
def test_quick_draws_are_those_of_the_slow_exact_inversion(word: int, sigma: float) -> None:
    table = noise_table("discrete-gaussian", sigma)
    values = np.zeros(1, np.int64)
    add_noise(values, table, GivenWords([word], more=2**1023))
    assert values[0] == table.settle(word, 2**1023)


@pytest.mark.parametrize("sigma", [0.7, 9.4])
def test_words_that_equal_a_bound_are_settled_by_more_bits(sigma: float) -> None:
    table = noise_table("discrete-gaussian", sigma)
    words = [int(bound) for bound in table.bounds] + [0, WORD - 1]
    low, high = np.zeros((2, len(words)), np.int64)
    add_noise(low, table, GivenWords(words, more=0))
    add_noise(high, table, GivenWords(words, more=2**1024 - 1))
    inner = slice(1, len(table.bounds) - 1)
    steps = table.low + np.arange(len(table.bounds))
    assert (low[inner] == steps[inner]).all()
    assert (high[inner] == steps[inner] + 1).all()
    assert low[-2] < -30 * sigma  # the tails that the table leaves out
    assert high[-1] > 30 * sigma


def test_sums_beyond_the_type_are_cut_to_its_ends() -> None:
    values = np.array([32767, -32768] * 500, np.int16)
    add_noise(values, noise_table("discrete-gaussian", 50.0), SeededWords(3))
    assert values.max() == 32767
    assert values.min() == -32768
    assert (values[::2] > 32000).all()
    assert (values[1::2] < -32000).all()


@pytest.mark.parametrize("words", [AesWords(KEY), SeededWords(4)])
def test_noise_depends_on_the_place_only_and_not_on_threads_or_parts(words: Words) -> None:
    table = noise_table("discrete-gaussian", 4.0)
    n = CHUNK + 70_001
    before = numba.get_num_threads()
    try:
        found = []
        for n_threads in (1, before):
            numba.set_num_threads(n_threads)
            values = np.zeros(n, np.int16)
            add_noise(values, table, words, purpose=5)
            found.append(values)
    finally:
        numba.set_num_threads(before)
    assert (found[0] == found[1]).all()
    part = np.zeros(1000, np.int16)
    add_noise(part, table, words, purpose=5, first=60_002)
    assert (part == found[0][60_002:61_002]).all()
    other = np.zeros(1000, np.int16)
    add_noise(other, table, words, purpose=6, first=60_002)
    assert (part != other).mean() > 0.5


def test_two_aes_sources_draw_different_noise_and_one_key_the_same() -> None:
    table = noise_table("discrete-gaussian", 4.0)
    noise = np.zeros((4, 1000), np.int32)
    for row, source in zip(
        noise, (AesWords(), AesWords(), AesWords(KEY), AesWords(KEY)), strict=True
    ):
        add_noise(row, table, source)
    assert (noise[0] != noise[1]).any()
    assert (noise[2] == noise[3]).all()
    assert not AesWords().simulated
    assert SeededWords(1).simulated


def test_aes_words_are_the_cipher_in_counter_mode() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    block = (7).to_bytes(8, "big") + (3).to_bytes(8, "big")
    encryptor = Cipher(algorithms.AES256(KEY), modes.ECB()).encryptor()
    words = np.empty(2, np.uint64)
    AesWords(KEY).fill(words, purpose=7, first=6)
    assert words.tobytes() == encryptor.update(block)


def test_wrong_use_is_refused() -> None:
    table = noise_table("discrete-gaussian", 4.0)
    with pytest.raises(DataError):
        add_noise(np.zeros(3), table, SeededWords(1))
    with pytest.raises(DataError):
        add_noise(np.zeros((4, 4), np.int16)[:, ::2], table, SeededWords(1))
    with pytest.raises(SettingsError):
        add_noise(np.zeros(3, np.int16), table, SeededWords(1), first=3)
    with pytest.raises(SettingsError):
        AesWords(b"short")
    for width in (0.0, -1.0, math.nan, 1e9):
        with pytest.raises(SettingsError):
            noise_table("discrete-gaussian", width)
