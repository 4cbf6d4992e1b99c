"""The federation of the soak: short rounds, short trials, and a watched database at each node."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from cloister.federate.engines.agreement import FederationAgreement
from cloister.lab.bench.soak_audit import watch
from cloister.privacy.ledger.limits import Limit
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.sample_clinics import SampleClinics

__all__ = ["KEEP_S", "NODES", "SETTLE_S", "TRAINING", "made_federation"]

NODES: Final = ("clinic-a", "clinic-b", "clinic-c")
TRAINING: Final = "soak"
SETTLE_S: Final = 4.0
KEEP_S: Final = 600.0
_FIRST: Final = "refresh_s = 2.0\n"  # of a node, before all tables
_NODE: Final = f"""
[clicks]
settle_s = {SETTLE_S}
keep_s = {KEEP_S}
[publishing]
form = "threshold"
threshold = 2
[search]
timeout_s = 2.0
"""
_SETTINGS: Final = {
    NODES[0]: _NODE,  # it asks all others; the others ask the one that the broker chooses
    "node": f"{_NODE}n_servers = 1\n",
    "broker": """
[publishing]
form = "threshold"
""",
    "coordinator": """
[schedule]
round_every_s = 5.0
timeout_s = 3.0
trial_every = 6
trial_s = 12.0
trial_share = 0.3
votes_s = 10.0
""",
}


def made_federation(folder: Path, *, n_pods: int) -> tuple[FederationFolder, SampleClinics]:
    """Make a federation with a world in it, on a loopback address of its own."""
    agreement = FederationAgreement(
        name=TRAINING,
        ranker=RankerSettings(n_features=len(PAGE_FEATURES)),
        secure_aggregation=True,
        min_sites=2,
    )
    host = ".".join(["127", *(str(secrets.randbelow(200) + 20) for _ in range(3))])
    plan = FederationPlan(
        nodes=NODES,
        agreement=agreement,
        host=host,
        budgets=(Limit(epsilon=1e5, delta=1e-5),),  # an hour's trials: the data are made up
        consent="nobody: the data are made up",
    )
    made = FederationFolder.make(folder, plan, settings=_SETTINGS)
    clinics = SampleClinics(list(NODES), pods=n_pods)
    clinics.fill({node: made.home(node) for node in NODES})
    for node in NODES:
        file = made.file(node)
        file.write_text(_FIRST + file.read_text(encoding="utf-8"), encoding="utf-8")
        watch(made.folder / node / "state.db", node)
    return made, clinics
