"""``cloister federation init``: a federation in one folder, ready to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloister.core.errors import SettingsError
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.sample_clinics import SampleClinics

__all__ = ["make_federation"]

_NODE = """
[search]
timeout_s = 3.0

[clicks]
settle_s = {settle}  # a page takes clicks for so long; then rounds learn from it

[publishing]
form = "{form}"
threshold = 2
"""
_COORDINATOR = """
[schedule]
round_every_s = {every}
timeout_s = 5.0
trial_every = 10
trial_s = 600.0
"""


def make_federation(
    folder: Path,
    nodes: list[str],
    *,
    name: str,
    training: str,
    world: bool,
    pods: int,
    host: str,
    port: int,
    round_every_s: float,
    settle_s: float,
    privacy: SitePrivacy | None,
    min_nodes: int | None = None,
) -> dict[str, Any]:
    """Make the folder; return what to do next."""
    if len(nodes) < 3:
        raise SettingsError(
            "secure aggregation needs three nodes: of a sum of two, each can tell the other's part",
            where="--nodes",
            remedy="name three or more",
        )
    agreement = FederationAgreement(
        name=training,
        ranker=RankerSettings(n_features=len(PAGE_FEATURES)),
        secure_aggregation=True,
        min_sites=min_nodes or len(nodes) // 2 + 1,
        privacy=privacy,
    )
    plan = FederationPlan(
        name=name, nodes=tuple(nodes), agreement=agreement, host=host, first_port=port
    )
    form = "threshold" if world else "noisy"
    settings = {
        "node": _NODE.format(settle=settle_s, form=form),
        "coordinator": _COORDINATOR.format(every=round_every_s),
        "broker": f'\n[publishing]\nform = "{form}"\n',
    }
    made = FederationFolder.make(folder, plan, settings=settings)
    users: dict[str, list[str]] = {}
    if world:
        clinics = SampleClinics(nodes, pods=pods)
        clinics.fill({node: made.home(node) for node in nodes})
        users = {node: [str(one.agent_id) for one in clinics.users(node)] for node in nodes}
    return {
        "folder": str(made.folder),
        "services": {service: made.url(service) for service in made.services},
        "users": users,
        "roster_digest": made.roster.digest(),
        "next": f"cloister federation up {folder}",
    }
