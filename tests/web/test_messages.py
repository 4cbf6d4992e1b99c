"""Messages take what their description says, and nothing that only looks like it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from cloister.web.messages import Message


class Wanted(Message):
    whole: int = 1
    real: float = 1.0
    switch: bool = False
    text: str = ""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("whole", "3"),
        ("whole", 3.5),
        ("whole", True),
        ("whole", float("inf")),
        ("real", "3"),
        ("real", float("nan")),
        ("switch", "yes"),
        ("switch", 1),
        ("text", 3),
        ("text", None),
        ("version", 2),
        ("version", "1"),
        ("other", 1),
    ],
)
def test_a_value_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Wanted.model_validate({field: value})


def test_json_has_one_kind_of_number() -> None:
    taken = Wanted.model_validate({"whole": 84.0, "real": 2})
    assert (taken.whole, type(taken.whole)) == (84, int)
    assert (taken.real, type(taken.real)) == (2.0, float)
