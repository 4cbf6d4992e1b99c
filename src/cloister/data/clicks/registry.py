"""Click models by name."""

from __future__ import annotations

from typing import Final

from cloister.core.errors import SettingsError
from cloister.data.clicks.cascade import CASCADE_TABLES, StopRule, cascade_model
from cloister.data.clicks.model import ClickModel
from cloister.data.clicks.position_based import position_based_model

__all__ = ["CLICK_MODEL_NAMES", "GRADE_COUNTS", "click_model"]

_POSITION_BASED: Final = "pbm-"
_CASCADE_NAMES: Final = tuple(dict.fromkeys(name for name, _ in CASCADE_TABLES))
_ETAS: Final = ("0", "0.5", "1", "1.5", "2")  # thesis section 4.5.1

CLICK_MODEL_NAMES: Final = (*_CASCADE_NAMES, *(_POSITION_BASED + eta for eta in _ETAS))
GRADE_COUNTS: Final = tuple(sorted({n_grades for _, n_grades in CASCADE_TABLES}))


def click_model(name: str, n_grades: int, *, stop: StopRule = "after_click") -> ClickModel:
    """Return the click model of that name for that number of grades.

    Parameters
    ----------
    name
        One of ``CLICK_MODEL_NAMES``, or ``pbm-`` and any eta from 0.
    n_grades
        Number of relevance grades of the data set's scale: 2, 3 or 5.
    stop
        When a cascade's user may leave; position-based models have no stopping.

    Examples
    --------
    >>> click_model("perfect", 3).name, click_model("pbm-1.5", 5).name
    ('perfect', 'pbm-1.5')
    >>> click_model("careless", 3)
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: click_model: unknown click model 'careless'; known: ...
    """
    if name in _CASCADE_NAMES:
        return cascade_model(name, n_grades, stop=stop)
    if name.startswith(_POSITION_BASED):
        return position_based_model(_eta(name), n_grades)
    raise _unknown(name)


def _eta(name: str) -> float:
    try:
        return float(name.removeprefix(_POSITION_BASED))
    except ValueError:
        raise _unknown(name) from None


def _unknown(name: str) -> SettingsError:
    known = ", ".join(CLICK_MODEL_NAMES)
    return SettingsError(
        f"unknown click model {name!r}", where="click_model", remedy=f"known: {known}"
    )
