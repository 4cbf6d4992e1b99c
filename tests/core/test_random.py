from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from cloister.core.errors import SettingsError
from cloister.core.random import stream


def test_purposes_that_look_alike_have_different_streams() -> None:
    purposes: list[tuple[str | int, ...]] = [(), ("1",), (1,), ("a", "b"), ("ab",), ("a", "b", 0)]
    draws = [tuple(stream(3, *p).integers(2**62, size=3).tolist()) for p in purposes]
    assert len(set(draws)) == len(purposes)


def test_the_same_purpose_gives_the_same_numbers() -> None:
    assert stream(3, "x", 1).random(5).tolist() == stream(3, "x", 1).random(5).tolist()


def test_seeds_give_different_numbers() -> None:
    assert stream(1, "x").random() != stream(2, "x").random()


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3), np.int32(3)])
def test_numpy_and_python_name_the_same_stream(number: np.integer[Any]) -> None:
    expected = stream(3, "clicks", 3).random(5).tolist()
    assert stream(number, np.str_("clicks"), number).random(5).tolist() == expected  # type: ignore[arg-type]


def test_earlier_streams_stay_as_they_are() -> None:
    # blake2b of repr(("clicks", 3)): results that were published must not change.
    words = np.frombuffer(hashlib.blake2b(b"('clicks', 3)", digest_size=16).digest(), np.uint32)
    sequence = np.random.SeedSequence(7, spawn_key=words.tolist())
    expected = np.random.Generator(np.random.PCG64(sequence)).random(5).tolist()
    assert stream(7, "clicks", 3).random(5).tolist() == expected


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7", None])
def test_a_seed_that_is_no_number_from_0_is_refused(seed: Any) -> None:
    with pytest.raises(SettingsError, match=r"^seed: must be"):
        stream(seed)


@pytest.mark.parametrize("part", [1.0, None, True, np.bool_(True), b"clicks", ("a",)])
def test_a_purpose_that_is_neither_name_nor_number_is_refused(part: Any) -> None:
    with pytest.raises(SettingsError, match=r"^purpose: must be a name or a whole number"):
        stream(7, part)


def test_streams_are_independent_enough_to_be_averaged() -> None:
    means = np.array([stream(5, "walk", i).random(100).mean() for i in range(400)])
    assert abs(means.mean() - 0.5) < 0.005
