"""What a coordinator and its sites agree on before a training begins.

A site trains by its own copy, and refuses rounds that are run by another: a coordinator cannot
lower a protection on its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final, Self

from pydantic import Field, field_validator, model_validator

from cloister.core.errors import SettingsError
from cloister.core.ids import checked_id
from cloister.core.settings import Settings
from cloister.federate.engines.protected_site_sum import SiteSumProtection
from cloister.federate.fpdgd import FpdgdSettings
from cloister.federate.rules import RULES
from cloister.privacy.calibration import PlannedNoise, planned_noise
from cloister.privacy.level import Level
from cloister.privacy.release import Release, UnprotectedRelease
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint
from cloister.privacy.secure_aggregation.session import Session
from cloister.rank.ranker import RankerSettings

__all__ = ["FederationAgreement", "SitePrivacy"]

# Their memory of earlier rounds is not in the database: a coordinator that is started again
# would judge sites differently.
_WITH_MEMORY: Final = frozenset({"fldetector", "adaptive"})
FALSE_ALARM: Final = 1e-9  # chance that honest sites' sum of a round exceeds the longest allowed
ROUNDING: Final = 1 + 1e-9  # lengths of honest updates come from doubles


class SitePrivacy(Settings):
    """How much all rankers of a training may reveal of one user, and how it is kept to that.

    The guarantee is for a user with all its interactions over the whole training, where each user
    belongs to one site. It holds against the coordinator and all readers of rankers, also with
    ``n_colluders`` other sites on their side, if the user's own site keeps to the agreement. The
    user's own site sees its clicks. With a ``sampling_rate`` below 1 it also needs that site's
    coins to stay hidden. A failed attempt counts as a round: sites take part in no more than
    ``n_rounds`` of both.

    Parameters
    ----------
    epsilon, delta
        What all rounds together may reveal of one user; delta well below one over the users.
    n_rounds
        Rounds of the whole training, for which the noise is chosen; none more is allowed.
    clip_norm
        The longest update of a user. It must not be chosen by looking at users' data.
    n_users
        Users of all sites together at most: public, as sums are divided by how many are expected,
        and a sum longer than so many users and the noise can make is discarded. With more users
        privacy holds all the same, and nobody is refused or left out; only the noisy sum, which
        everybody may know, decides whether it is discarded.
    server_rate
        What the mean update is multiplied by.
    """

    epsilon: float = Field(gt=0)
    delta: float = Field(gt=0, lt=1)
    n_rounds: int = Field(ge=1)
    clip_norm: float = Field(default=0.3, gt=0)
    n_users: int = Field(ge=1)
    server_rate: float = Field(default=1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _no_limit_of_a_site(cls, given: Any) -> Any:
        if isinstance(given, dict) and "most_users" in given:
            raise ValueError("sites have no limit of users any more: delete most_users")
        return given

    @model_validator(mode="after")
    def _delta_protects(self) -> Self:
        if self.delta * self.n_users > 1:
            raise ValueError("delta allows to publish one of the users whole: take a smaller one")
        return self


class FederationAgreement(Settings):
    """How a training runs, the same at the coordinator and at all sites.

    Parameters
    ----------
    name
        Of the training; a new one for each.
    ranker
        What is trained.
    training
        How users train: the mean of whole rankers, without the thesis's noise.
    sampling_rate
        The chance with which a user takes part in a round: a coin that its site throws.
    rule, n_attackers
        How sites' updates are added up in the open; with secure aggregation by ``fedavg`` alone.
    min_sites
        A round with fewer sites changes nothing. With secure aggregation no sum of fewer is formed.
        Of a sum of two without noise, each site can tell the other's part from the ranker.
    secure_aggregation
        Whether the coordinator sees the sum over sites alone, and no site's update.
    n_colluders
        With it: how many sites may tell the coordinator what they know.
    largest_value, scale_bits
        With it and without ``privacy``: bounds the size of a site's sums (a difference times its
        interactions, and the number of interactions), and says how finely they are added.
    largest_update
        Without ``privacy``: the greatest length of a site's mean update. A site shortens its own to
        it. A longer one is refused; one inside a secure sum spoils the sum. In the worlds of
        `cloister.data`, sites of five users and more stay below 0.8, and their median is 0.3.
    privacy
        What may be revealed of a user. It needs secure aggregation: sites add the noise in shares.
    most_spoilt
        With secure aggregation: training stops after so many rounds that some site spoilt, until an
        operator lets it go on. Each costs the other sites a release. With ``privacy``, attempts
        that failed after sites had released count, too.
    simulated
        Whether what is drawn can be drawn again from a seed: then nobody is protected, and all
        records say so.

    Examples
    --------
    >>> agreed = FederationAgreement(
    ...     name="pilot", ranker=RankerSettings(n_features=5), min_sites=3,
    ...     secure_aggregation=True,
    ...     privacy=SitePrivacy(epsilon=4.0, delta=1e-6, n_rounds=10, n_users=300))
    >>> agreed.release().sensitivity == 0.3 * 2**agreed.protection.scale_bits
    True
    """

    name: str
    ranker: RankerSettings
    training: FpdgdSettings = FpdgdSettings()
    sampling_rate: float = Field(default=1.0, gt=0, le=1)
    rule: str = "fedavg"
    n_attackers: int = Field(default=0, ge=0)
    min_sites: int = Field(default=1, ge=1)
    secure_aggregation: bool = False
    n_colluders: int = Field(default=0, ge=0)
    largest_value: float = Field(default=2.0**20, gt=0)
    scale_bits: int = Field(default=32, ge=0, le=62)
    largest_update: float = Field(default=1.0, gt=0)
    privacy: SitePrivacy | None = None
    most_spoilt: int = Field(default=3, ge=1)
    simulated: bool = False

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        return checked_id(name)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        training = self.training
        if training.private_layer or training.paper_noise or training.aggregation == "sum":
            raise ValueError("sites train whole rankers without noise: leave these settings out")
        if training.participants is not None:
            raise ValueError("each site throws its users' coins: give a sampling_rate instead")
        if self.rule not in RULES or self.rule in _WITH_MEMORY:
            known = ", ".join(sorted(RULES.keys() - _WITH_MEMORY))
            raise ValueError(f"the rule is one of: {known}")
        if self.secure_aggregation and self.rule != "fedavg":
            raise ValueError("under masks no update can be judged: the rule is fedavg")
        if self.secure_aggregation and self.min_sites < self.n_colluders + 2:
            raise ValueError("min_sites is at least two more than n_colluders")
        if self.privacy is not None and not self.secure_aggregation:
            raise ValueError("privacy needs secure_aggregation")
        return self

    @property
    def n_parameters(self) -> int:
        """Length of the ranker's parameters."""
        return self.ranker.n_parameters

    @property
    def order(self) -> float | None:
        """At which a limit lets all rounds of ``privacy`` pass; None without.

        With a small ``sampling_rate`` it can be another one than a limit's usual order.
        """
        return None if self.privacy is None else self._planned(self.privacy).order

    def _planned(self, privacy: SitePrivacy) -> PlannedNoise:
        return planned_noise(
            privacy.epsilon,
            privacy.delta,
            n_rounds=privacy.n_rounds,
            sampling_rate=self.sampling_rate,
        )

    @cached_property
    def protection(self) -> SiteSumProtection | None:
        """How sites protect their sums; None without ``privacy``."""
        privacy = self.privacy
        if privacy is None:
            return None
        return SiteSumProtection(
            clip_norm=privacy.clip_norm,
            sigma=self._planned(privacy).multiplier * privacy.clip_norm,
            min_survivors=self.min_sites,
            n_colluders=self.n_colluders,
            n_values=self.n_parameters,
        )

    def longest_sum(self, n_sites: int) -> float:
        """Return the greatest length of the noised sum over sites; only with ``privacy``.

        The sum of honest sites is longer with a chance of at most `FALSE_ALARM` a round: half of
        that for more of ``n_users`` coins than expected, and half for the noise.
        """
        if self.privacy is None or self.protection is None:
            raise SettingsError("without privacy a sum has no greatest length", where="longest_sum")
        n_users, chance = self.privacy.n_users, FALSE_ALARM / 2
        if self.sampling_rate < 1:
            from scipy.stats import binom  # slow to import

            n_users = int(binom.isf(chance, n_users, self.sampling_rate))
        return self.protection.longest_sum(n_users, n_sites, chance=chance)

    def largest_step(self, n_sites: int) -> float:
        """Return how far one round of at most so many sites can move the ranker.

        That is a Euclidean length, and holds whatever sites send: the coordinator discards sums
        that would move the ranker farther.

        Examples
        --------
        >>> agreed = FederationAgreement(name="pilot", ranker=RankerSettings(n_features=5))
        >>> round(agreed.largest_step(3), 6)
        1.0
        """
        if self.privacy is None:
            return self.largest_update * ROUNDING
        n_expected = self.privacy.n_users * self.sampling_rate
        return self.privacy.server_rate * self.longest_sum(n_sites) / n_expected * ROUNDING

    @property
    def fixed_point(self) -> FixedPoint:
        """How a site's sums become integers for secure aggregation."""
        if self.protection is not None:
            return self.protection.fixed_point
        return FixedPoint(bound=self.largest_value, scale_bits=self.scale_bits)

    def session(self, session_id: str, members: Iterable[str], *, announced: str) -> Session:
        """Return the session of one attempt at a round.

        Its id, its members and the digest of its announcement are new; the rest was agreed on.
        """
        return Session(
            session_id=session_id,
            members=tuple(sorted(members)),
            n_values=self.n_parameters + (self.privacy is None),  # the last: interactions
            fixed_point=self.fixed_point,
            min_survivors=self.min_sites,
            n_colluders=self.n_colluders,
            announced=announced,
        )

    def release(self) -> Release:
        """Return the record of what a site releases in one round."""
        if self.protection is not None:
            return self.protection.release(
                sampling_rate=self.sampling_rate,
                simulated=self.simulated,
                note="holds against the coordinator and readers of rankers; a user's own site, "
                "and whoever knows its coins, is trusted",
            )
        seen = "the sum over sites" if self.secure_aggregation else "each site's mean update"
        return UnprotectedRelease(
            level=Level.USER,
            n_values=self.n_parameters + 1,
            simulated=self.simulated,
            note=f"the coordinator sees {seen} and the number of interactions that it rests on, "
            "readers every ranker",
        )

    def ranker_release(self) -> Release:
        """Return the record of what readers of a round's ranker get."""
        if self.protection is not None:
            return self.release()
        return UnprotectedRelease(
            level=Level.USER,
            n_values=self.n_parameters,
            simulated=self.simulated,
            note="readers see every ranker",
        )
