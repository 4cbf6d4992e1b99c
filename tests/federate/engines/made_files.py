"""A federation of three sites as files: roster, sites and coordinator, over simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.roster import FederationRoster, Member
from cloister.federate.engines.site_call import SiteId
from cloister.privacy.identity import SigningIdentity
from cloister.rank.ranker import RankerSettings

NAMES = ("clinic-a", "clinic-b", "clinic-c")
WORLD = "world:features?queries=30&documents=10&features=5"
N_CLIENTS = 12
SEED = 7


def agreement(**fields: Any) -> FederationAgreement:
    usual: dict[str, Any] = {
        "name": "pilot",
        "ranker": RankerSettings(n_features=5),
        "simulated": True,
        "secure_aggregation": True,
        "min_sites": 2,
    }
    return FederationAgreement(**(usual | fields))


def write_federation(
    folder: Path, agreed: FederationAgreement | None = None, *, n_rounds: int = 3, **fields: Any
) -> dict[SiteId, Path]:
    """Write all files; return those of the sites. The coordinator's is ``coordinator.toml``."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {name: SigningIdentity.generate() for name in NAMES}
    members = tuple(Member(name=name, signing_key=keys[name].public.hex()) for name in NAMES)
    roster = FederationRoster(name="clinics", agreement=agreed or agreement(), members=members)
    (folder / "roster.json").write_bytes(roster.to_json())
    extra = "".join(f"{name} = {value}\n" for name, value in fields.items())
    (folder / "coordinator.toml").write_text(
        f'roster = "roster.json"\nstate = "coordinator.db"\nn_rounds = {n_rounds}\n{extra}'
    )
    sites = {}
    for number, name in enumerate(NAMES):
        keys[name].save(folder / f"{name}.key")
        sites[SiteId(name)] = path = folder / f"{name}.toml"
        path.write_text(
            f'name = "{name}"\nroster = "roster.json"\nstate = "{name}.db"\n'
            f'signing_key = "{name}.key"\n[simulated]\ndata = "{WORLD}"\n'
            f"n_clients = {N_CLIENTS}\nfirst = {4 * number}\nn = 4\nseed = {SEED}\n"
            f'[[consents]]\nname = "test"\nrecipient = "coordinator"\n'
            f'purpose = "{roster.agreement.name}"\n'
        )
    return sites
