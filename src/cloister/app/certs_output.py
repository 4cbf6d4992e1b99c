"""How people are shown what ``cloister certs`` made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from cloister.app.output import say, table

if TYPE_CHECKING:
    from cloister.privacy.certificates.authority_state import IssuedCertificate

__all__ = [
    "described",
    "show_authority",
    "show_issued",
    "show_list",
    "show_listed",
    "show_request",
    "show_revoked",
]

Result = dict[str, Any]

SHOWN_DIGITS: Final = 16  # of 40; `revoke` takes them


def described(issued: IssuedCertificate, federation: str) -> Result:
    """Return a certificate as JSON has it."""
    from cloister.privacy.certificates.certificate_name import CertificateName

    name = CertificateName(federation, issued.role, issued.name)
    return {
        "serial": issued.serial,
        "who": name.short,
        "uri": name.uri,
        "hosts": list(issued.hosts),
        "begins": issued.begins.isoformat(),
        "ends": issued.ends.isoformat(),
        "revoked": None if issued.revoked is None else issued.revoked.isoformat(),
        "state": _state(issued),
    }


def show_authority(result: Result) -> None:
    """Say where a new authority lies."""
    typer.echo(f"{result['folder']}: the authority of {result['federation']}")
    typer.echo(f"give to everybody: {result['authority_certificate']}")
    show_list(result)
    say("Whoever has authority.key can be everybody: keep the folder off the services' machines.")


def show_issued(result: Result) -> None:
    """Say for whom and where a certificate is."""
    hosts = ", ".join(result["hosts"]) or "no host"
    typer.echo(f"{result['certificate']}: {result['uri']}, {hosts}, until {result['ends'][:10]}")
    if "key" in result:
        typer.echo(f"{result['key']}: its key; nobody else may have it")


def show_request(result: Result) -> None:
    """Say what to send, and what to read out."""
    typer.echo(f"{result['request']}: send it to the authority")
    typer.echo(f"{result['key']}: its key; it stays here")
    typer.echo(f"read this out to whoever signs: {result['fingerprint']}")


def show_revoked(result: Result) -> None:
    """Say what was revoked."""
    for one in result["revoked"]:
        typer.echo(f"revoked: {one['who']} {one['serial']}")
    show_list(result)


def show_listed(result: Result) -> None:
    """Show all certificates of an authority."""
    rows = [
        [
            one["who"],
            _loud(one["state"]),
            one["ends"][:10],
            ", ".join(one["hosts"]),
            one["serial"][:SHOWN_DIGITS],
        ]
        for one in result["certificates"]
    ]
    table(result["federation"], ["for", "state", "ends", "hosts", "serial"], rows)
    show_list(result)


def show_list(result: Result) -> None:
    """Say where the list of revoked certificates is."""
    ends, path = result["revoked_list_ends"][:10], result["revoked_list"]
    if result["revoked_list_behind"]:
        typer.echo(
            f"{path} does not hold what was revoked last: a command was cut off before it wrote "
            "the list. Write it: cloister certs crl"
        )
    if result["revoked_list_over"]:
        typer.echo(
            f"{path} is OVER since {ends}: services that have it refuse everybody. "
            "Make it anew and give it to every service: cloister certs crl"
        )
    else:
        typer.echo(f"give to every service: {path}, before {ends}")


def _loud(state: str) -> str:
    return "OVER" if state == "over" else state


def _state(issued: IssuedCertificate) -> str:
    if issued.revoked is not None:
        return "revoked"
    return "holds" if issued.holds_at(datetime.now(UTC)) else "over"
