from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from cloister.core.errors import NotFound, SettingsError
from cloister.core.settings import Settings


class Walk(Settings):
    steps: int = Field(default=3, ge=1)
    pace: float = 1.0
    marks: tuple[int, ...] = ()


def test_a_misspelt_setting_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError) as caught:
        Walk(step=4)
    assert caught.value.where == "step"
    assert "marks, pace, steps" in caught.value.remedy


def test_a_value_outside_its_range_is_an_error_that_shows_the_value() -> None:
    with pytest.raises(SettingsError, match=r"steps.*greater than or equal to 1.*0"):
        Walk(steps=0)


def test_nan_is_refused() -> None:
    with pytest.raises(SettingsError):
        Walk(pace=float("nan"))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(Exception, match="frozen"):
        Walk().steps = 4  # type: ignore[misc]


def test_settings_are_read_from_an_address() -> None:
    assert Walk.from_text("steps=7&marks=1,2&pace=0.5") == Walk(steps=7, marks=(1, 2), pace=0.5)
    assert Walk.from_text("") == Walk()


def test_a_setting_given_twice_is_an_error() -> None:
    with pytest.raises(SettingsError, match="more than once"):
        Walk.from_text("steps=7&steps=8")


def test_an_address_without_values_is_an_error() -> None:
    with pytest.raises(SettingsError):
        Walk.from_text("steps")


def test_settings_are_read_from_a_table_of_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "walk.toml"
    path.write_text("[day.one]\nsteps = 9\n")
    assert Walk.from_toml(path, table="day.one").steps == 9
    with pytest.raises(SettingsError, match=r"no table \[day.two\]"):
        Walk.from_toml(path, table="day.two")
    with pytest.raises(NotFound):
        Walk.from_toml(tmp_path / "none.toml")
    path.write_text("steps = = 1")
    with pytest.raises(SettingsError, match="not a TOML file"):
        Walk.from_toml(path)


def test_equal_settings_have_equal_digests_whatever_the_order() -> None:
    assert Walk(steps=2, pace=3.0).digest() == Walk(pace=3, steps=2).digest()
    assert Walk(steps=2).digest() != Walk(steps=4).digest()
