"""The ledger for programs and for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import typer

from cloister.app.output import number, table

if TYPE_CHECKING:
    from cloister.privacy.ledger.statement import LimitAccount, Overview, Statement, Total

__all__ = ["overview_result", "show_checked", "show_exported", "show_limit", "show_overview"]

Result = dict[str, Any]

NO_BOUND = "no bound"


def overview_result(address: str, seen: Overview) -> Result:
    """Return the figures by party, the accounts behind them, and the head to write down."""
    accounts = {one.party_id: _account(one) for one in seen.statements}
    figures = {
        name: {party: account[name] for party, account in accounts.items()}
        for name in ("releases", "epsilon", "delta", "limit")
    }
    return figures | {
        "unbounded": [one.party_id for one in seen.statements if math.isinf(one.real.epsilon)],
        "pending": sum(one.n_pending for one in seen.statements),
        "failed": [one._asdict() for one in seen.failures],
        "parties": accounts,
        "head": seen.head._asdict(),
        "ledger": address,
    }


def _account(one: Statement) -> Result:
    here = one.limits.get(one.level)
    return {
        **_total(one.real),
        "delta": one.delta,
        "level": str(one.level),
        "limit": None if here is None else here.limit.epsilon,
        "epsilon_filter": None if here is None else here.epsilon,
        "remains": None if here is None else here.remains,
        "limits": {str(level): _limited(account) for level, account in one.limits.items()},
        "pending": one.n_pending,
        "neighbours": list(one.neighbours),
        "recipients": {name: _total(spent) for name, spent in one.recipients.items()},
        "simulated": _total(one.simulated),
        "claims": [
            {
                "mechanism": claim.mechanism,
                "releases": claim.n_releases,
                "claimed_epsilon": claim.claimed_epsilon,
                "epsilon_of_one": claim.one_epsilon,
                "epsilon_of_all": claim.all_epsilon,
            }
            for claim in one.claims
        ],
    }


def _limited(one: LimitAccount) -> Result:
    return {
        "limit": one.limit.epsilon,
        "delta": one.limit.delta,
        "failures": one.limit.filter.failures,
        "order": one.limit.filter.order,
        "releases": one.n_releases,
        "epsilon_filter": one.epsilon,
        "epsilon_report": one.epsilon_report,
        "remains": one.remains,
        "used": one.used,
        "consented": one.n_consented,
    }


def _total(spent: Total) -> Result:
    """Return a number of releases and their cost; a cost without bound is null in JSON."""
    unbounded = math.isinf(spent.epsilon)
    return {"releases": spent.n_releases, "epsilon": spent.epsilon, "unbounded": unbounded}


def show_overview(result: Result) -> None:
    """Show the accounts to people."""
    if not result["parties"]:
        typer.echo("nothing is recorded yet")
    else:
        _show_parties(result["parties"])
        _show_recipients(result["parties"])
        _show_simulated(result["parties"])
        _show_claims(result["parties"])
        _show_days(result.get("days", []))
        _show_failed(result["failed"])
    _show_head(result)


def _show_parties(parties: dict[str, Result]) -> None:
    columns = ["party", "releases", "pending", "report", "delta", "level"]
    rows = [
        [
            party, one["releases"], one["pending"], _epsilon(one["epsilon"]), one["delta"],
            one["level"],
        ]
        for party, one in parties.items()
    ]  # fmt: skip
    table("real releases, all recipients together", columns, rows)
    _show_limits(parties)
    if without := [party for party, one in parties.items() if not one["limits"]]:
        typer.echo(f"No limit is set for: {', '.join(without)}\n")


def _show_limits(parties: dict[str, Result]) -> None:
    """Show what each limit counts, if it counts anything, and that of the level shown above."""
    rows = [
        [
            f"{party}, {level}", one["releases"], _epsilon(one["epsilon_filter"]),
            _epsilon(one["epsilon_report"]), one["limit"], one["remains"],
            _percent(one["used"]), one["consented"],
        ]
        for party, account in parties.items()
        for level, one in account["limits"].items()
        if one["releases"] or level == account["level"]
    ]  # fmt: skip
    if rows:
        columns = ["limit of", "releases", "filter", "report", "limit", "remains", "used"]
        title = "limits: epsilon by the filter, which refuses, and by the report"
        table(title, [*columns, "by consent"], rows)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if math.isfinite(share) else "all"


def _show_recipients(parties: dict[str, Result]) -> None:
    rows = [
        [f"{party} → {name}", spent["releases"], _epsilon(spent["epsilon"])]
        for party, one in parties.items()
        if len(one["recipients"]) > 1
        for name, spent in one["recipients"].items()
    ]
    if rows:
        table("by recipient, if they do not share", ["to", "releases", "epsilon"], rows)


def _show_simulated(parties: dict[str, Result]) -> None:
    rows = [
        [party, one["simulated"]["releases"], _epsilon(one["simulated"]["epsilon"])]
        for party, one in parties.items()
        if one["simulated"]["releases"]
    ]
    if rows:
        title = "simulated releases: they protect nobody; what real ones would cost"
        table(title, ["party", "releases", "epsilon"], rows)


def _show_claims(parties: dict[str, Result]) -> None:
    rows = [
        [
            f"{party}, {claim['mechanism']}", claim["releases"], claim["claimed_epsilon"],
            _epsilon(claim["epsilon_of_one"]), _epsilon(claim["epsilon_of_all"]),
        ]
        for party, one in parties.items()
        for claim in one["claims"]
    ]  # fmt: skip
    if rows:
        columns = ["releases", "number", "claimed for one", "true for one", "true for all"]
        table("what inventors claim, and what holds (epsilon)", columns, rows)


def _show_failed(failed: list[Result]) -> None:
    for one in failed:
        typer.echo(f"Entry {one['number']} failed and stays charged: {one['reason']}\n")


def _show_days(days: list[Result]) -> None:
    if days:
        rows = [[day["date"], day["releases"], _epsilon(day["epsilon_rdp"])] for day in days[-30:]]
        table("spent by the end of the day (quick bound)", ["day", "releases", "epsilon"], rows)


def _show_head(result: Result) -> None:
    head = result["head"]
    typer.echo(f"head: entry {head['number']}, {head['hash']}")


def show_checked(result: Result) -> None:
    """Say what was checked, and what that does not show."""
    typer.echo(
        f"whole: {number(result['entries'])} entries, {number(result['pending'])} pending; "
        "no party is over its limit"
    )
    _show_head(result)
    if not result["pinned"]:
        typer.echo(
            "This does not show that nobody wrote the whole ledger anew: "
            "give a head that was written down elsewhere with --head."
        )


def show_exported(result: Result) -> None:
    """Say what was written."""
    typer.echo(f"{result['file']}: {number(result['entries'])} entries, without payloads")
    _show_head(result)


def show_limit(result: Result) -> None:
    """Say what the limit of a party is now."""
    party, level = result["party"], result["level"]
    now = result["parties"][party]["limits"].get(level)
    if now is None:
        typer.echo(f"{party}, {level}: no limit")
        return
    spent = _epsilon(now["epsilon_filter"])
    typer.echo(f"{party}, {level}: limit {number(now['limit'])}, spent {spent}")
    if not now["epsilon_filter"] <= now["limit"]:
        typer.echo("More is spent already: every further release is refused.")


def _epsilon(value: float) -> str:
    return number(value) if math.isfinite(value) else NO_BOUND
