from __future__ import annotations

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


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(SettingsError):
        stream(-1)


def test_streams_are_independent_enough_to_be_averaged() -> None:
    means = np.array([stream(5, "walk", i).random(100).mean() for i in range(400)])
    assert abs(means.mean() - 0.5) < 0.005
