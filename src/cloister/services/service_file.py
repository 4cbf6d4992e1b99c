"""The file from which a service starts: who it is, where it listens, where its state lies.

Paths are as seen from the file's folder. The file holds no secret, but names files that do.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator

from cloister.core.deadline import LONGEST_S
from cloister.core.errors import SettingsError
from cloister.core.settings import Settings
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site_file import SimulatedUsers, placed
from cloister.federate.online.click_log import ClickLogSettings
from cloister.federate.online.noisy_sign_test import SignTest
from cloister.pods.pod_gate import READ_RATE
from cloister.privacy.ledger.limits import Consent, Limit, one_a_level
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.published_statistics import PublishedForm
from cloister.services.user_tokens import UserTokenSettings
from cloister.web.limits import ServiceLimits
from cloister.web.tls import TlsFiles

__all__ = [
    "AcceptedTables",
    "BrokerFile",
    "CoordinatorServiceFile",
    "NodeFile",
    "NodeSearchSettings",
    "PublishingSettings",
    "ScheduleSettings",
    "ServiceFile",
    "read_service_file",
]


class ServiceFile(Settings):
    """What all services have in common.

    Parameters
    ----------
    kind
        Which service it is.
    name
        As the roster and the certificate have it.
    roster
        The federation's file.
    host, port
        Where to listen; port 0 takes a free one.
    state
        The database: a path, or an address of PostgreSQL.
    files
        Folder of content-addressed files: rankers, tables.
    tls
        Certificate, key, authority, and the list of revoked certificates.
    limits
        What is taken from callers.
    operators, officers
        Names of the certificates of those who run and watch this service; nobody unless given.
    """

    kind: str
    name: str
    roster: Path
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    state: str
    files: Path
    tls: TlsFiles
    limits: ServiceLimits = ServiceLimits()
    operators: tuple[str, ...] = ()
    officers: tuple[str, ...] = ()

    def opened_roster(self) -> FederationRoster:
        """Read the federation's file."""
        return FederationRoster.from_json(self.roster)

    def below(self, folder: Path) -> Self:
        """Return the file with its paths as seen from everywhere."""
        tls = self.tls.model_dump(exclude_none=True)
        return self.model_copy(
            update={
                "roster": folder / self.roster,
                "state": placed(folder, self.state),
                "files": folder / self.files,
                "tls": TlsFiles(**{name: folder / path for name, path in tls.items()}),
            }
        )


class NodeSearchSettings(Settings):
    """How a node searches for its users.

    Parameters
    ----------
    n_servers
        Nodes asked for documents, chosen by the broker; all of them unless given. The node itself
        is always asked.
    n_candidates
        Documents that are ranked for a page.
    page_length
        Documents of a page.
    timeout_s
        How long other nodes are waited for.
    confirm_s
        How long pods may take to confirm the documents of one draw of a page; those of pods that
        take longer are left out. Less than ``timeout_s``. All draws take twice as long at most.
    pod_documents_per_s
        How many documents of one pod on a server searches may ask for; a pod that is asked for more
        is left alone for a while. Give more where one pod serves many people.
    """

    n_servers: int | None = Field(default=None, ge=1)
    n_candidates: int = Field(default=50, ge=1, le=1000)
    page_length: int = Field(default=10, ge=1, le=100)
    timeout_s: float = Field(default=3.0, gt=0)
    confirm_s: float = Field(default=1.0, gt=0)
    pod_documents_per_s: float = Field(default=READ_RATE, gt=0)


class PublishingSettings(Settings):
    """What a node publishes of its documents' terms, through the broker.

    Parameters
    ----------
    form
        ``noisy``, ``threshold`` or ``exact``; what each guarantees says
        `cloister.search.published_statistics`.
    noise
        Of noisy tables.
    threshold
        Of tables with one.
    """

    form: PublishedForm = "noisy"
    noise: NoisyStatisticsSettings = NoisyStatisticsSettings(epsilon=1.0)
    threshold: int = Field(default=5, ge=2)


class NodeFile(ServiceFile):
    """A node's file.

    Parameters
    ----------
    home
        Folder of pods and index, as `cloister pods` keeps it.
    signing_key, token_key
        Its private keys: for secure aggregation, and of its issuer of tokens.
    users
        Whose tokens it believes about its users.
    search, publishing, clicks
        How it searches, what it publishes (nothing unless given), how it learns.
    max_pages
        Pages of one user that a round learns from; as many as were agreed on unless given.
    votes_epsilon
        What a user's vote in a trial of rankers may cost; 0 where no votes are given.
    budgets
        What its releases may cost at most, one for a level; the standard limits unless given.
    consents
        Who agreed, by name, to releases that have no bound; without one they are refused.
    refresh_s
        How often it asks the coordinator what to serve.
    sync_s
        How often its pods are looked at for changes. A pod that was not synced for three times as
        long is hidden. 0 to look only when an operator asks, and to hide none.
    simulated
        Its users are simulated: for trying out engines and faults.
    """

    kind: Literal["node"] = "node"
    home: Path
    signing_key: Path
    token_key: Path
    users: UserTokenSettings = UserTokenSettings()
    search: NodeSearchSettings = NodeSearchSettings()
    publishing: PublishingSettings | None = None
    clicks: ClickLogSettings = ClickLogSettings()
    max_pages: int | None = Field(default=None, ge=1)
    votes_epsilon: float = Field(default=1.0, ge=0)
    budgets: tuple[Limit, ...] = ()
    consents: tuple[Consent, ...] = ()
    refresh_s: float = Field(default=5.0, gt=0)
    sync_s: float = Field(default=60.0, ge=0)
    simulated: SimulatedUsers | None = None

    @field_validator("budgets")
    @classmethod
    def _one_a_level(cls, budgets: tuple[Limit, ...]) -> tuple[Limit, ...]:
        return one_a_level(budgets)

    def below(self, folder: Path) -> Self:
        """Return the file with its paths as seen from everywhere."""
        names = ("home", "signing_key", "token_key")
        paths = {name: folder / getattr(self, name) for name in names}
        users = {"users": self.users.below(folder)}
        return super().below(folder).model_copy(update=paths | users)


class AcceptedTables(Settings):
    """In which form all nodes publish: tables of different forms cannot be added up."""

    form: PublishedForm = "noisy"


class BrokerFile(ServiceFile):
    """A broker's file.

    Parameters
    ----------
    publishing
        Which tables are taken.
    """

    kind: Literal["broker"] = "broker"
    publishing: AcceptedTables = AcceptedTables()


class ScheduleSettings(Settings):
    """When rounds and trials run by themselves.

    Parameters
    ----------
    round_every_s
        Seconds from one round to the next; none by itself unless given.
    timeout_s
        How long a node is waited for at each stage.
    trial_every
        After so many rounds the newest ranker is tried; never by itself unless given.
    trial_s
        For how long.
    trial_share
        On which share of searches.
    votes_s
        How long nodes are waited for that have not sent their votes.
    """

    round_every_s: float | None = Field(default=None, gt=0, le=LONGEST_S)
    timeout_s: float = Field(default=10.0, gt=0)
    trial_every: int | None = Field(default=None, ge=1)
    trial_s: float = Field(default=86_400.0, gt=0, le=LONGEST_S)
    trial_share: float = Field(default=0.2, gt=0, le=1)
    votes_s: float = Field(default=600.0, gt=0, le=LONGEST_S)


class CoordinatorServiceFile(ServiceFile):
    """A coordinator's file.

    Parameters
    ----------
    schedule
        When rounds and trials run.
    trials
        How rankers are compared; all nodes give votes of its epsilon.
    keep_every
        Keep nodes' updates of every so many rounds for unlearning; not with secure aggregation.
    """

    kind: Literal["coordinator"] = "coordinator"
    schedule: ScheduleSettings = ScheduleSettings()
    trials: SignTest = SignTest()
    keep_every: int | None = Field(default=None, ge=1)


_KINDS: Final[dict[str, type[ServiceFile]]] = {
    "node": NodeFile,
    "broker": BrokerFile,
    "coordinator": CoordinatorServiceFile,
}


def read_service_file(path: str | Path) -> ServiceFile:
    """Read a service's file; its ``kind`` says which service it is."""
    path = Path(path).absolute()
    try:
        kind = tomllib.loads(path.read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError):
        kind = "node"  # from_toml says what is wrong
    if kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise SettingsError(
            "the file does not say which service it is",
            where=str(path),
            remedy=f"write kind = one of: {known}",
        )
    return _KINDS[kind].from_toml(path).below(path.parent)
