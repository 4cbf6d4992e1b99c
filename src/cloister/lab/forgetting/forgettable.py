"""Which trainings can forget their clients, from what their server saw."""

from __future__ import annotations

from cloister.core.errors import SettingsError
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["refuse_unless_forgettable"]


def refuse_unless_forgettable(settings: SimulationSettings) -> None:
    """Raise where a training's clients cannot be forgotten from what the server saw."""
    if settings.epsilon is not None:
        raise SettingsError(
            "in private training the server never sees a single update, so there is none to keep",
            where="epsilon",
            remedy="train again without the client; what its rankers tell of it is bounded by "
            "epsilon",
        )
    if settings.method != "fpdgd" or settings.private_layer or settings.paper_epsilon is not None:
        raise SettingsError(
            "updates are kept of plain FPDGD only",
            where="keep updates",
            remedy="use the method fpdgd without a private layer and without noise",
        )
    if settings.share_data or settings.warm_up_rounds:
        raise SettingsError(
            "queries that a client shared stay with the others, and in the first ranker",
            where="share_data",
            remedy="share none where clients are to be forgotten",
        )
    if settings.normalise.startswith("global"):
        raise SettingsError(
            "a global scale comes from everybody's documents, a forgotten client's too",
            where="normalise",
            remedy="use query_minmax or none where clients are to be forgotten",
        )
