"""``cloister federation init``: a federation in one folder, ready to start."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cloister.core.contention import lock_patiently
from cloister.core.errors import NotFound, SettingsError
from cloister.core.file_errors import writing
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.privacy.filters import charge_of
from cloister.privacy.ledger.limits import STANDARD_LIMITS, Limit
from cloister.privacy.level import Level
from cloister.rank.ranker import RankerSettings
from cloister.search.page_features import PAGE_FEATURES
from cloister.services.federation_folder import UNFINISHED, FederationFolder, FederationPlan
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


@contextmanager
def _whole(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Have a folder filled whole or not at all; what a killed process began there is removed.

    A note in the folder says what is being made, while it is being made. It is written only where
    the folder is empty, and nothing but what it names is ever removed.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise NotFound("this is a file, not a folder", where=str(folder), remedy="name a folder")
    note = folder / UNFINISHED
    with writing(note):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_others(folder, _begun(note))
    with writing(note):
        file = note.open("a+", encoding="utf-8")
    with file:
        lock_patiently(file, what="this folder", where=str(folder))
        begun = _begun(note)
        _refuse_others(folder, begun)
        _remove(folder, begun)
        file.truncate(0)
        file.write(json.dumps(sorted(names)))
        file.flush()
        try:
            yield
        except BaseException:
            _remove(folder, names)
            raise
        finally:
            note.unlink(missing_ok=True)


def _begun(note: Path) -> list[str]:
    """Return what an earlier process began to make; nothing where it noted nothing whole."""
    try:
        return [str(name) for name in json.loads(note.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []


def _refuse_others(folder: Path, begun: list[str]) -> None:
    if {path.name for path in folder.iterdir()} - {UNFINISHED, *begun}:
        raise SettingsError(
            "the folder is not empty", where=str(folder), remedy="name a new folder"
        )


def _remove(folder: Path, names: Iterable[str]) -> None:
    for path in (folder / Path(name).name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


INVENTED: Final = "nobody: all data are invented (--world)"


def _budgets(epsilon: float | None, agreement: FederationAgreement) -> tuple[Limit, ...]:
    """Return a node's limits; raise where the training alone would exceed the one for users."""
    limits = dict(STANDARD_LIMITS)
    if epsilon is not None:
        limits[Level.USER] = Limit(epsilon=epsilon, delta=limits[Level.USER].delta)
    users = limits[Level.USER]
    if agreement.privacy is not None:
        one = charge_of(agreement.release(), users.level, users.filter.order)
        training = one.times(agreement.privacy.n_rounds)
        if not users.filter.admits(training):
            raise SettingsError(
                f"the training alone would cost epsilon {users.filter.spent(training):.3g} at "
                f"delta {users.delta:g}, and a node's limit is {users.epsilon:g}",
                where="--epsilon",
                remedy="take a smaller --epsilon, or a larger --limit",
            )
    return tuple(limits.values())


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
    limit: float | None = None,
    consent: str = "",
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
    if world and not consent:
        consent = INVENTED
    plan = FederationPlan(
        name=name,
        nodes=tuple(nodes),
        agreement=agreement,
        host=host,
        first_port=port,
        budgets=_budgets(limit, agreement),
        consent=consent,
    )
    form = "threshold" if world else "noisy"
    settings = {
        "node": _NODE.format(settle=settle_s, form=form),
        "coordinator": _COORDINATOR.format(every=round_every_s),
        "broker": f'\n[publishing]\nform = "{form}"\n',
    }
    users: dict[str, list[str]] = {}
    with _whole(folder, plan.entries):
        made = FederationFolder.make(folder, plan, settings=settings)
        if world:
            clinics = SampleClinics(nodes, pods=pods)
            clinics.fill({node: made.home(node) for node in nodes})
            users = {node: [str(one.agent_id) for one in clinics.users(node)] for node in nodes}
    return {
        "folder": str(made.folder),
        "services": {service: made.url(service) for service in made.services},
        "users": users,
        "limits": {str(one.level): one.epsilon for one in plan.budgets},
        "consent": consent,
        "roster_digest": made.roster.digest(),
        "next": f"cloister federation up {folder}",
    }
