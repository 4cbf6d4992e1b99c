from __future__ import annotations

import pickle

from cloister.core import errors
from cloister.core.errors import CloisterError, DataError

ERRORS = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]


def test_the_text_has_place_matter_and_remedy() -> None:
    error = DataError("no label", where="a.txt:7", remedy="write one")
    assert str(error) == "a.txt:7: no label; write one"
    assert error.message == "a.txt:7: no label"


def test_an_error_without_a_remedy_of_its_own_has_that_of_its_kind() -> None:
    assert str(DataError("no label")) == "no label; correct the data or leave it out"
    for name in ERRORS:
        assert getattr(errors, name)("x").remedy


def test_errors_cross_process_boundaries_whole() -> None:
    error = pickle.loads(pickle.dumps(DataError("no label", where="a.txt:7", remedy="write one")))
    assert type(error) is DataError
    assert (error.what, error.where, error.remedy) == ("no label", "a.txt:7", "write one")


def test_every_error_of_the_module_is_in_the_tree() -> None:
    for name in ERRORS:
        assert issubclass(getattr(errors, name), CloisterError)
