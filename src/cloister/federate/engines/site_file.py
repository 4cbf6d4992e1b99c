"""A site from its own file: who it is, where its state lies, and whose clicks it learns from.

The file is the site's own. Nothing that a coordinator or an engine sends can change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, field_validator

from cloister.core.errors import SettingsError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.local_trainer import LocalTrainer, PopulationTrainer
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import SiteId
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.federate.population import Population
from cloister.privacy.identity import SigningIdentity
from cloister.privacy.ledger.limits import Consent, Limit, one_a_level
from cloister.privacy.mechanisms.noise_source import NoiseSource
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.privacy.mechanisms.simulated_noise import SimulatedNoise
from cloister.store.database import Database

__all__ = ["SimulatedUsers", "SiteFile", "opened_site", "placed", "site_keys"]


class SimulatedUsers(Settings):
    """Some users of a simulated population.

    Parameters
    ----------
    data
        What they search: a LETOR file or folder, or a world.
    click_model
        How they click.
    n_clients
        Users of all sites together; all draw from the same queries.
    first, n
        Which of them are this site's.
    seed
        Decides everything; the same at all sites.
    """

    data: str
    click_model: str = "perfect"
    n_clients: int = Field(ge=1)
    first: int = Field(ge=0)
    n: int = Field(ge=1)
    seed: int = 0

    def trainer(self, agreement: FederationAgreement) -> PopulationTrainer:
        """Return these users."""
        from cloister.data.clicks import GRADE_COUNTS, click_model
        from cloister.data.partitions import iid
        from cloister.data.source import load_fold

        train = load_fold(self.data).train
        scale = next((n for n in GRADE_COUNTS if n >= train.n_grades), train.n_grades)
        clicks = click_model(self.click_model, scale)
        members = range(self.first, self.first + self.n)
        population = Population(iid(train, self.n_clients), clicks)
        return PopulationTrainer(population, agreement, members=list(members), seed=self.seed)


class SiteFile(Settings):
    """What a site is opened from: its users are simulated, or their clicks are in its database.

    Paths are as seen from the file's folder.

    Parameters
    ----------
    name
        The site's, as the roster has it.
    roster
        The federation's file.
    state
        Its database: a path, or an address of PostgreSQL.
    signing_key
        Its private key, for secure aggregation.
    simulated
        Its users, where they are simulated.
    clicks
        Where they are real: how long their pages are open and kept.
    max_pages
        Of a user's pages, a round learns from so many; as many as were agreed on unless given.
    budgets, consents
        As for `Site`'s limits and consents.
    """

    name: str
    roster: Path
    state: str
    signing_key: Path | None = None
    simulated: SimulatedUsers | None = None
    clicks: ClickLogSettings = ClickLogSettings()
    max_pages: int | None = Field(default=None, ge=1)
    budgets: tuple[Limit, ...] = ()
    consents: tuple[Consent, ...] = ()

    @field_validator("budgets")
    @classmethod
    def _one_a_level(cls, budgets: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return one_a_level(budgets)


@contextmanager
def opened_site(path: str | Path) -> Iterator[Site]:
    """Give the site that a file describes; its database is closed at the end."""
    file, folder = SiteFile.from_toml(path), Path(path).parent
    roster = FederationRoster.from_json(folder / file.roster)
    roster.member(file.name)
    agreed = roster.agreement
    with Database.open(placed(folder, file.state)) as database:
        trainer: LocalTrainer
        if file.simulated is not None:
            trainer = file.simulated.trainer(agreed)
        else:
            log = ClickLog(database, file.clicks)
            trainer = ClickTrainer(log, agreed, max_pages=file.max_pages)
        keys = None
        if file.signing_key is not None:
            keys = site_keys(folder / file.signing_key, file.name, roster, file.simulated)
        yield Site(
            SiteId(file.name),
            agreed,
            trainer,
            database,
            keys=keys,
            limits=file.budgets,
            consents=file.consents,
        )


def placed(folder: Path, state: str) -> str:
    """Return a database's address, where a path is as seen from a folder."""
    return state if "://" in state else str(folder / state)


def site_keys(
    signing_key: Path, name: str, roster: FederationRoster, simulated: SimulatedUsers | None
) -> SiteKeys:
    """Return what a site needs for secure aggregation; its key must be the roster's.

    Where the agreement is a simulation and so are its users, the noise comes from their seed.
    """
    identity = SigningIdentity.load(signing_key)
    if identity.public.hex() != roster.member(name).signing_key:
        raise SettingsError(
            "the roster has another public key of this site",
            where=str(signing_key),
            remedy="name the site's own key file, or mend the roster with all members",
        )
    source: NoiseSource = SecureNoise()
    if roster.agreement.simulated and simulated is not None:
        source = SimulatedNoise(stream(simulated.seed, "noise", name))
    return SiteKeys(identity, roster.directory(), source)
