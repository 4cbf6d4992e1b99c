"""Everything that decides one trial of membership inference."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from cloister.data.normalise import Normalisation
from cloister.lab.reproduce.click_inference.setting import ClickInferenceSettings
from cloister.lab.reproduce.study import StudySettings

__all__ = ["RankerMembershipSettings", "UpdateMembershipSettings"]


class UpdateMembershipSettings(StudySettings):
    """A trial on updates: a ranker is trained, clients search, and sums of updates are seen.

    Parameters
    ----------
    data, fold, seed, click_model, normalise, negatives
        Which queries, how clients click, and what a page teaches. Attacked are queries that the
        ranker was not trained on, with as many candidates as a page has places or more.
    target
        ``query``: was this query of one client in it? ``client``: were this client's queries, all
        of which are known?
    clients
        In a sum; 1 is a client's own update.
    queries_per_update
        Interactions behind each client's update.
    observations
        Targets; each is tried in a sum that it is in and in one that it is not.
    n_shadows
        Updates that the adversary makes of queries of its own.
    noise
        Whether updates are clipped and the sum has the noise of private FPDGD.
    epsilon, delta, clip_norm, rounds, population
        Of the noise: what the training of so many rounds may reveal of a user, and of how many
        clients those of a sum are drawn.
    train_clients, train_rounds
        Size of the training of the ranker.
    """

    click_model: str = "informational"
    normalise: Normalisation = "query_minmax"
    negatives: Literal["to_last_click", "whole_page"] = "to_last_click"
    target: Literal["query", "client"] = "query"
    clients: int = Field(default=1, ge=1)
    queries_per_update: int = Field(default=1, ge=1, le=32)
    observations: int = Field(default=400, ge=4)
    n_shadows: int = Field(default=1000, ge=50)
    noise: bool = False
    epsilon: float = Field(default=4.5, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    clip_norm: float = Field(default=0.3, gt=0)
    rounds: int = Field(default=200, ge=1)
    population: int = Field(default=1000, ge=1)
    train_clients: int = Field(default=100, ge=1)
    train_rounds: int = Field(default=50, ge=1)

    @property
    def scene(self) -> ClickInferenceSettings:
        """What click inference would be set to on the same ground."""
        return ClickInferenceSettings(
            data=self.data,
            fold=self.fold,
            seed=self.seed,
            click_model=self.click_model,
            normalise=self.normalise,
            negatives=self.negatives,
            train_clients=self.train_clients,
            train_rounds=self.train_rounds,
            train_noise=False,
            protection="sum+noise" if self.noise else "sum",
            clients=self.clients,
            epsilon=self.epsilon,
            delta=self.delta,
            clip_norm=self.clip_norm,
            rounds=self.rounds,
            population=max(self.population, self.clients),
        )


class RankerMembershipSettings(StudySettings):
    """A trial on rankers: federations are drawn from a pool of people, trained, and made to forget.

    Parameters
    ----------
    data, fold, seed, click_model, normalise
        Whose queries, and how everybody clicks.
    clients
        Of a federation; the pool has twice as many people.
    own_queries
        Queries of each person, which nobody else has; 0 for queries that all share.
    own_taste
        Share of its queries of which a person's grades follow a taste of its own.
    queries_per_round, rounds
        Of training.
    n_shadows
        Federations that the adversary draws, trains, and lets unlearn a client, itself.
    n_attacked
        Federations that are attacked; of each one client is forgotten.
    keep_every, local_steps
        Of unlearning by FedEraser, and of short retraining of as many steps.
    epsilon, delta, clip_norm
        Given an epsilon, trainings are private at the level of a user (PrivateFPDGD), and nothing
        is unlearned: what was kept of single updates would not be.
    """

    click_model: str = "informational"
    normalise: Normalisation = "query_minmax"
    clients: int = Field(default=10, ge=2)
    own_queries: int = Field(default=20, ge=0)
    own_taste: float = Field(default=0.0, ge=0, le=1)
    queries_per_round: int = Field(default=5, ge=1)
    rounds: int = Field(default=300, ge=1)
    n_shadows: int = Field(default=100, ge=8)
    n_attacked: int = Field(default=40, ge=4)
    keep_every: int = Field(default=10, ge=1)
    local_steps: int = Field(default=3, ge=1)
    epsilon: float | None = Field(default=None, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    clip_norm: float = Field(default=0.3, gt=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.own_taste and not self.own_queries:
            raise ValueError("own_taste needs own_queries")
        if self.n_shadows < 2 * self.n_people:
            raise ValueError(f"{self.n_people} people need {2 * self.n_people} shadows or more")
        return self

    @property
    def n_people(self) -> int:
        """How many people federations are drawn from."""
        return 2 * self.clients
