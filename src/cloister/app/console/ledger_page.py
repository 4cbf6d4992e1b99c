"""The ledgers, for a privacy officer: what was released, to whom, what it cost, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from cloister.app.console.ledger_accounts import LEVELS, Account, accounts_of
from cloister.app.console.ledger_charts import kinds_chart, spending_chart
from cloister.app.console.ledger_costs import LedgerCosts, release_of
from cloister.app.console.ledger_export import ledgers_csv, ledgers_json
from cloister.app.console.ledger_lines import lines_of
from cloister.app.console.page import render
from cloister.app.console.scene import Scene
from cloister.app.console.training_spending import training_spending
from cloister.app.ledger_reading import ReadLedger, read_ledger
from cloister.core.errors import CloisterError, NotFound
from cloister.privacy.ledger.statement import USUAL_DELTA
from cloister.services.federation_folder import COORDINATOR

__all__ = ["ledger_router"]

PAGE_LENGTH: Final = 100
TIMEOUT_S: Final = 5.0  # for a page of a ledger

Service = Annotated[str, Query(max_length=200)]
PageNumber = Annotated[int, Query(ge=1, le=10**6)]


class _Read(NamedTuple):
    """The ledgers that could be read, and why others could not."""

    ledgers: tuple[ReadLedger, ...]
    missing: dict[str, str]

    def of(self, service: str) -> _Read:
        """Return one service's alone; all of them where none is named."""
        if not service:
            return self
        return _Read(
            tuple(one for one in self.ledgers if one.service == service),
            {name: why for name, why in self.missing.items() if name == service},
        )


def ledger_router(scene: Scene) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter()
    costs = LedgerCosts()

    @router.get("/ledger")
    def show(request: Request, service: Service = "", page: PageNumber = 1) -> Response:
        _check(scene, service)
        read = _read(scene)
        accounts = accounts_of(read.ledgers, scene.folder.roster.agreement, costs)
        return render(
            request,
            "ledger.html",
            title="Ledger",
            services=_services(scene),
            service=service,
            **_summary(scene, read, accounts),
            training=training_spending(read.ledgers, scene.folder.roster.agreement, costs),
            drawn=spending_chart(accounts, costs),
            kinds=kinds_chart(accounts),
            **_table(read.of(service), accounts, page),
        )

    @router.get("/ledger/spending")
    def spending(request: Request) -> Response:
        accounts = accounts_of(_read(scene).ledgers, scene.folder.roster.agreement, costs)
        drawn = spending_chart(accounts, costs)
        return render(request, "ledger_spending.html", title="", drawn=drawn)

    _add_exports(router, scene)
    return router


def _add_exports(router: APIRouter, scene: Scene) -> None:
    @router.get("/ledger/export.json")
    def as_json(service: Service = "") -> Response:
        _check(scene, service)
        read = _read(scene).of(service)
        content = ledgers_json(scene.folder.roster.name, read.ledgers, read.missing)
        return _file(content, "application/json", "ledgers.json")

    @router.get("/ledger/export.csv")
    def as_csv(service: Service = "") -> Response:
        _check(scene, service)
        read = _read(scene).of(service)
        return _file(ledgers_csv(read.ledgers, read.missing), "text/csv", "ledgers.csv")


def _file(content: bytes, media_type: str, name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)


def _services(scene: Scene) -> tuple[str, ...]:
    """Return who keeps a ledger."""
    return (COORDINATOR, *scene.nodes)


def _check(scene: Scene, service: str) -> None:
    if service and service not in _services(scene):
        known = ", ".join(_services(scene))
        raise NotFound("no such ledger", where=service, remedy=f"known: {known}")


def _read(scene: Scene) -> _Read:
    """Read all ledgers at once; what does not answer, or is not understood, is named."""
    services = _services(scene)

    def one(service: str) -> ReadLedger | str:
        try:
            return _understood(read_ledger(scene.office, service, timeout_s=TIMEOUT_S))
        except CloisterError as error:
            return error.what

    with ThreadPoolExecutor(len(services)) as pool:
        found = dict(zip(services, pool.map(one, services), strict=True))
    return _Read(
        tuple(value for value in found.values() if isinstance(value, ReadLedger)),
        {name: value for name, value in found.items() if isinstance(value, str)},
    )


def _understood(ledger: ReadLedger) -> ReadLedger:
    """Return a ledger all of whose entries can be read; a newer service may write others."""
    for entry in ledger.entries:
        _ = entry.limit if entry.kind == "limit" else release_of(entry.body)
    return ledger


def _summary(scene: Scene, read: _Read, accounts: Sequence[Account]) -> dict[str, Any]:
    return {
        "ledgers": read.ledgers,
        "missing": read.missing,
        "accounts": accounts,
        "levels": {one: LEVELS[one] for one in LEVELS if one in {a.level for a in accounts}},
        "agreement": scene.folder.roster.agreement,
        "n_releases": sum(one.n_releases for one in read.ledgers),
        "n_pending": sum(one.n_pending for one in read.ledgers),
        "failed": [(one.service, failed) for one in read.ledgers for failed in one.failed],
        "broken": [one.service for one in read.ledgers if not one.chain_holds],
    }


def _table(read: _Read, accounts: Sequence[Account], page: int) -> dict[str, Any]:
    deltas = {(one.service, one.party_id): one.delta for one in accounts}
    lines = lines_of(read.ledgers, deltas, USUAL_DELTA)
    n_pages = max(1, -(-len(lines) // PAGE_LENGTH))
    page = min(page, n_pages)
    first = (page - 1) * PAGE_LENGTH
    return {
        "lines": lines[first : first + PAGE_LENGTH],
        "first": first + 1,
        "n_lines": len(lines),
        "page": page,
        "n_pages": n_pages,
    }
