"""What published statistics cost: one repetition, with pods, readers and noise of its own."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from cloister.data.worlds.address import WORLD_PREFIX, is_world
from cloister.data.worlds.clinic import ClinicSettings
from cloister.lab.espresso.spread_collection import (
    SpreadCollection,
    beir_words,
    spread_beir,
    spread_clinic,
)
from cloister.lab.espresso.statistics_cost import (
    StatisticsCost,
    StatisticsCostSettings,
    statistics_cost,
)
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance

__all__ = [
    "CLINIC",
    "EXACT",
    "FOUND",
    "LISTED",
    "NOTHING",
    "OWN",
    "StatisticsTrialSettings",
    "at_access",
    "measure",
    "noisy_name",
    "threshold_name",
]

OWN: Final = "the user's own"
EXACT: Final = "exact"
NOTHING: Final = "nothing listed"
FOUND: Final = "found terms"
LISTED: Final = "word list"
CLINIC: Final = f"{WORLD_PREFIX}clinic?"


class StatisticsTrialSettings(StudySettings):
    """One repetition.

    Parameters
    ----------
    data
        A folder in the BEIR layout, or the address of a clinic world.
    seed
        Of the world, of which pods there are, of who may read them and of the noise.
    servers, documents_a_pod
        Of a collection that is spread; a clinic world has its own servers, and one a pod.
    word_list
        The folder of another collection, whose words noisy tables list; none where empty.
    cost
        Which tables are tried; its own seed does not matter.
    """

    servers: int = Field(default=10, ge=1)
    documents_a_pod: int = Field(default=1, ge=1)
    word_list: str = ""
    cost: StatisticsCostSettings = StatisticsCostSettings()


def threshold_name(threshold: float, *, each: bool = False) -> str:
    """Return the name of tables with a threshold.

    Examples
    --------
    >>> threshold_name(5), threshold_name(5, each=True)
    ('threshold 5', 'threshold 5, each server')
    """
    return _of_whom(f"threshold {threshold:g}", each)


def noisy_name(epsilon: float, terms: str, *, each: bool = False) -> str:
    """Return the name of noisy tables, of found terms or of a word list.

    Examples
    --------
    >>> noisy_name(0.5, LISTED)
    'noisy 0.5, word list'
    """
    return _of_whom(f"noisy {epsilon:g}, {terms}", each)


def at_access(name: str, access: int) -> str:
    """Return the name of tables for a user who may read so much.

    Examples
    --------
    >>> at_access(EXACT, 10)
    'exact, 10 % access'
    """
    return f"{name}, {access} % access"


def measure(settings: StatisticsTrialSettings, advance: Advance) -> Figures:
    """Return agreement and judged nDCG with tables of each form, at each access level."""
    cost = settings.cost.model_copy(update={"seed": settings.seed})
    words = beir_words(settings.word_list) if settings.word_list else None
    rows = statistics_cost(_collection(settings), cost, words, advance)
    return {
        at_access(_name(row), row.access): {
            "agreement@5": row.ndcg_5,
            "agreement@10": row.ndcg_10,
            "judged@5": row.judged_5,
            "judged@10": row.judged_10,
            "listed": row.listed,
        }
        for row in rows
    }


def _collection(settings: StatisticsTrialSettings) -> SpreadCollection:
    if is_world(settings.data):
        world = ClinicSettings.from_text(settings.data.removeprefix(CLINIC))
        return spread_clinic(world.model_copy(update={"seed": settings.seed}))
    return spread_beir(
        settings.data,
        n_servers=settings.servers,
        documents_per_pod=settings.documents_a_pod,
        seed=settings.seed,
    )


def _name(row: StatisticsCost) -> str:
    each = row.made.startswith("each server")
    match row.form:
        case "threshold":
            return threshold_name(row.parameter, each=each)
        case "noisy":
            terms = LISTED if row.made.endswith("word list") else FOUND
            return noisy_name(row.parameter, terms, each=each)
    return {"user": OWN, "exact": EXACT, "nothing": NOTHING}[row.form]


def _of_whom(name: str, each: bool) -> str:
    return f"{name}, each server" if each else name
