"""Everything that decides one trial of click inference."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from cloister.data.normalise import Normalisation
from cloister.lab.reproduce.study import StudySettings

__all__ = ["ClickInferenceSettings", "Order", "Protection"]

Protection = Literal["none", "paper", "sum", "sum+noise"]
Order = Literal["known", "unknown", "candidates"]


class ClickInferenceSettings(StudySettings):
    """Everything that decides one trial; the defaults are the click-inference report's.

    Parameters
    ----------
    data, fold, seed
        Which queries, and what is drawn at random. Attacked are the validation queries, or where
        there are none the test queries, whose candidates fill a page.
    click_model
        How the attacked clients click. The ranker was trained with perfect clicks, as in the
        report.
    normalise
        How features are read.
    negatives
        PDGD's unclicked documents: all of the page (report), or down to the last click and one.
    ranker, hidden
        The ranker.
    train_clients, train_queries, train_rounds
        Sizes of the training of the global ranker.
    train_noise
        Whether it is trained with the paper's noise (linear rankers only), as in the report.
    protection
        ``none``; the ``paper``'s clipping and noise on each client's weights; the ``sum`` of so
        many clients and nothing else; the same with clipped updates and noise.
    clients
        Clients in a sum.
    queries_per_update
        Pages behind each client's update.
    order
        Whether the server knows the page in order (then it is the ranker's own, as in the report),
        only which documents are on it, or only the candidates (pages are then drawn, as PDGD does).
    observations
        How many updates or sums are seen; 0 for one of each query.
    paper_epsilon, paper_sensitivity, paper_clients
        Of the paper's noise.
    epsilon, delta, clip_norm, rounds, population
        Of ``sum+noise``: what the training of so many rounds may reveal of a user, the longest
        update, and how many clients there are; fewer in a sum means that they were drawn.
    """

    click_model: str = "perfect"
    normalise: Normalisation = "query_minmax"
    negatives: Literal["to_last_click", "whole_page"] = "whole_page"
    ranker: Literal["linear", "mlp"] = "linear"
    hidden: int = Field(default=64, ge=1)
    train_clients: int = Field(default=1000, ge=1)
    train_queries: int = Field(default=4, ge=1)
    train_rounds: int = Field(default=200, ge=1)
    train_noise: bool = True
    protection: Protection = "none"
    clients: int = Field(default=1, ge=1)
    queries_per_update: int = Field(default=1, ge=1, le=32)
    order: Order = "known"
    observations: int = Field(default=0, ge=0)
    paper_epsilon: float = Field(default=1.2, gt=0)
    paper_sensitivity: float = Field(default=3.0, gt=0)
    paper_clients: int = Field(default=1000, ge=1)
    epsilon: float = Field(default=4.5, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    clip_norm: float = Field(default=0.3, gt=0)
    rounds: int = Field(default=200, ge=1)
    population: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.clients > 1 and not self.is_sum:
            raise ValueError("clients (in a sum) needs the protection sum or sum+noise")
        if self.protection == "sum+noise" and self.population < self.clients:
            raise ValueError("population is at least clients")
        if self.order == "candidates" and (self.clients > 1 or self.queries_per_update > 1):
            raise ValueError("order candidates is for one query of one client")
        return self

    @property
    def is_sum(self) -> bool:
        """Whether the server sees sums."""
        return self.protection in ("sum", "sum+noise")

    @property
    def one_page(self) -> bool:
        """Whether each observation is of one page of one client."""
        return self.clients == 1 and self.queries_per_update == 1
