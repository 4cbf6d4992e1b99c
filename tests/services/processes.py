"""A federation of real processes on loopback addresses of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cloister.federate.engines.agreement import FederationAgreement
from cloister.privacy.ledger.limits import Limit
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import FederationFolder, FederationPlan
from cloister.services.processes import Processes as RunningServices
from cloister.services.sample_clinics import SampleClinics, SampleUser
from cloister.services.user_client import UserClient

NODES = ("clinic-a", "clinic-b", "clinic-c")
FAULTY = Path(__file__).with_name("faulty_service.py")


def own_host() -> str:
    """Return a loopback address that no other test uses."""
    return (
        f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    )


def clicked_agreement(**fields: Any) -> FederationAgreement:
    usual: dict[str, Any] = {
        "name": "pilot",
        "ranker": RankerSettings(n_features=len(PAGE_FEATURES)),
        "secure_aggregation": True,
        "min_sites": 2,
    }
    return FederationAgreement(**(usual | fields))


class Processes(RunningServices):
    """The services of a federation folder, perhaps with a program that can be armed to fail."""

    def __init__(self, folder: FederationFolder, *, faulty: bool = False, **more: Any) -> None:
        program = {"program": [str(FAULTY)]} if faulty else {}
        super().__init__(folder, **program, **more)


def made_clinics(
    folder: Path,
    *,
    pods: int = 8,
    agreement: FederationAgreement | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[FederationFolder, SampleClinics]:
    """Make a federation of three clinics with a world in it."""
    plan = FederationPlan(
        nodes=NODES,
        agreement=agreement or clicked_agreement(),
        host=own_host(),
        budgets=(Limit(epsilon=500.0, delta=1e-5),),  # votes that decide among a few users
        consent="test",
    )
    made = FederationFolder.make(folder, plan, settings=settings)
    clinics = SampleClinics(list(NODES), pods=pods)
    clinics.fill({node: made.home(node) for node in NODES})
    return made, clinics


def user_client(folder: FederationFolder, user: SampleUser | str) -> UserClient:
    """Return a user's way to the home node."""
    agent, groups = (user, frozenset()) if isinstance(user, str) else (user.agent_id, user.groups)
    return UserClient.in_folder(folder, agent, folder.token(agent, groups=groups))


def wait_until(
    holds: Callable[[], bool], timeout_s: float = 30.0, *, what: str = "it did not happen"
) -> None:
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)
