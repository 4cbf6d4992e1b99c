"""Word2Vec forms over access levels: one repetition, with a user, a public part and a base."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.address import WORLD_PREFIX, is_world
from cloister.data.worlds.clinic import ClinicSettings
from cloister.lab.espresso.curve_texts import CurveTexts, beir_texts, clinic_texts
from cloister.lab.espresso.vector_curve import CurveSettings, access_curve
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance

__all__ = [
    "BASE",
    "BM25",
    "CLINIC",
    "FORMS",
    "MENDED_FORM",
    "PAPER_FORM",
    "LowAccessSettings",
    "at_level",
    "measure",
]

BM25: Final = "BM25"
BASE: Final = "base"
PAPER_FORM: Final = "paper's form"
MENDED_FORM: Final = "backed off"
FORMS: Final = {"bm25": BM25, "base": BASE, "paper": PAPER_FORM, "backed_off": MENDED_FORM}
CLINIC: Final = f"{WORLD_PREFIX}clinic?"


class LowAccessSettings(StudySettings):
    """One repetition.

    Parameters
    ----------
    data
        A folder in the BEIR layout, or the address of a clinic world.
    seed
        Of the world, of what is public, of what is granted and of training.
    curve
        The levels, and how vectors are made; its own seed and number of users do not matter.
    """

    curve: CurveSettings = CurveSettings()


def at_level(form: str, access: int) -> str:
    """Return the name of a form for a user who may read so much.

    Examples
    --------
    >>> at_level(MENDED_FORM, 5)
    'backed off, 5 %'
    """
    return f"{form}, {access} %"


def measure(settings: LowAccessSettings, advance: Advance) -> Figures:
    """Return agreement, relevance and chance of each form at each level."""
    curve = settings.curve.model_copy(update={"seed": settings.seed, "n_users": 1})
    return {
        at_level(FORMS[point.form], point.access_percent): {
            "agreement": point.agreement,
            "relevance": point.relevance,
            "chance": point.chance,
            "n_documents": point.n_documents,
            "n_tokens": point.n_tokens,
            "tuning_s": point.seconds,
        }
        for point in access_curve(_texts(settings), curve, advance)
    }


def _texts(settings: LowAccessSettings) -> CurveTexts:
    if not is_world(settings.data):
        return beir_texts(settings.data)
    world = ClinicSettings.from_text(settings.data.removeprefix(CLINIC))
    return clinic_texts(world.model_copy(update={"seed": settings.seed}))
