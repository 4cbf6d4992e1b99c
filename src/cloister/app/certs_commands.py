"""``cloister certs``: a federation's certificate authority, and requests to one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.certs_output import (
    described,
    show_authority,
    show_issued,
    show_list,
    show_listed,
    show_request,
    show_revoked,
)
from cloister.app.output import JsonFlag, command_result

if TYPE_CHECKING:
    from cloister.privacy.certificates.authority import Authority

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Certificates for the services of a federation: a private authority.",
    no_args_is_help=True,
)

AuthorityFolder = Annotated[
    Path,
    typer.Option(
        "--authority",
        metavar="FOLDER",
        envvar="CLOISTER_AUTHORITY",
        help="The authority's folder. Whoever has its key can be everybody.",
    ),
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Encrypts the authority's key; only its owner may read the file."
    ),
]
Who = Annotated[
    str,
    typer.Argument(
        metavar="ROLE/NAME",
        help="As in node/clinic-a; roles: node, broker, coordinator, operator, officer.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", help="A DNS name or an address on which it answers; may be repeated."),
]
Federation = Annotated[str, typer.Option(help="The federation's name.")]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where ROLE-NAME.key and the rest go.")
]
OutFile = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="A certificate there is replaced.")
]
Days = Annotated[float, typer.Option(help="For how long it holds.", min=0.001, max=3650)]


@app.command("init")
@command_result(show_authority)
def init(
    authority: AuthorityFolder,
    federation: Federation,
    domain: Annotated[
        list[str] | None,
        typer.Option(
            help="Certificates may name hosts here only: a domain, or a network as in 10.0.0.0/8; "
            "may be repeated.",
            show_default="hosts anywhere",
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    days: Annotated[float, typer.Option(help="For how long it holds.", min=1, max=36500)] = 3650.0,
    list_days: Annotated[
        float, typer.Option(help="For how long each list of revoked ones holds.", min=0.01)
    ] = 30.0,
    as_json: JsonFlag = False,
) -> Result:
    """Make a new authority; give its certificate to everybody, and its key to nobody."""
    from cloister.privacy.certificates.authority import Authority

    made = Authority.create(
        authority,
        federation,
        domains=domain or (),
        passphrase_file=passphrase_file,
        lifetime=timedelta(days=days),
        list_lifetime=timedelta(days=list_days),
    )
    return {"federation": made.federation, "folder": str(made.folder), **_public_files(made)}


@app.command("issue")
@command_result(show_issued)
def issue(
    who: Who,
    authority: AuthorityFolder,
    out: OutFolder,
    host: Hosts = None,
    days: Days = 90.0,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Draw a key and certify it. Where the key should not travel: `request` and `sign`."""
    role, name = _split(who)
    opened = _opened(authority, passphrase_file)
    files = opened.issue(role, name, folder=out, hosts=host or (), lifetime=timedelta(days=days))
    written = {"certificate": str(files.certificate), "key": str(files.key)}
    return described(files.issued, opened.federation) | written


@app.command("request")
@command_result(show_request)
def request(
    who: Who,
    federation: Federation,
    out: OutFolder,
    host: Hosts = None,
    as_json: JsonFlag = False,
) -> Result:
    """Draw a key that stays here, and write a request for a certificate for it."""
    from cloister.privacy.certificates.certificate_request import new_request

    role, name = _split(who)
    files = new_request(out, federation, role, name, hosts=host or ())
    return {
        "request": str(files.request),
        "key": str(files.key),
        "fingerprint": files.fingerprint,
    }


@app.command("sign")
@command_result(show_issued)
def sign(
    request_file: Annotated[
        Path, typer.Argument(metavar="REQUEST", help="Made by `cloister certs request`.")
    ],
    who: Who,
    authority: AuthorityFolder,
    out: OutFile,
    host: Hosts = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="What the other side read out to you; another key is refused."),
    ] = None,
    days: Days = 90.0,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Certify the key of a request, for whom and for which hosts you say."""
    from cloister.core.file_errors import explained
    from cloister.privacy.certificates.key_files import replace_public_file, require_replaceable

    role, name = _split(who)
    require_replaceable(out)
    with explained(request_file):
        content = request_file.read_bytes()
    _require_fingerprint(content, fingerprint)
    opened = _opened(authority, passphrase_file)
    issued = opened.sign(content, role, name, hosts=host or (), lifetime=timedelta(days=days))
    replace_public_file(out, issued.pem.encode())
    return described(issued, opened.federation) | {"certificate": str(out)}


@app.command("renew")
@command_result(show_issued)
def renew(
    who: Who,
    authority: AuthorityFolder,
    out: OutFile,
    days: Days = 90.0,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Certify the same key and hosts anew; the old certificate holds until it ends."""
    from cloister.privacy.certificates.key_files import replace_public_file, require_replaceable

    role, name = _split(who)
    require_replaceable(out)
    opened = _opened(authority, passphrase_file)
    issued = opened.renew(role, name, lifetime=timedelta(days=days))
    replace_public_file(out, issued.pem.encode())
    return described(issued, opened.federation) | {"certificate": str(out)}


@app.command("revoke")
@command_result(show_revoked)
def revoke(
    target: Annotated[
        str,
        typer.Argument(
            metavar="ROLE/NAME|SERIAL",
            help="All of a name, or one certificate: 8 digits of its number, or more.",
        ),
    ],
    authority: AuthorityFolder,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Revoke certificates; it holds at a service once that has the new list."""
    opened = _opened(authority, passphrase_file)
    revoked = [described(one, opened.federation) for one in opened.revoke(target)]
    return {"revoked": revoked, **_public_files(opened)}


@app.command("list")
@command_result(show_listed)
def listed(authority: AuthorityFolder, as_json: JsonFlag = False) -> Result:
    """Show what was issued, what was revoked, and what ends when."""
    opened = _opened(authority, None)
    certificates = [described(one, opened.federation) for one in opened.listed()]
    return {
        "federation": opened.federation,
        "certificates": certificates,
        **_public_files(opened),
    }


@app.command("crl")
@command_result(show_list)
def crl(
    authority: AuthorityFolder,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Write the list of revoked certificates anew, before the old one ends."""
    opened = _opened(authority, passphrase_file)
    opened.refresh_list()
    return _public_files(opened)


def _opened(folder: Path, passphrase_file: Path | None) -> Authority:
    from cloister.privacy.certificates.authority import Authority

    return Authority.open(folder, passphrase_file=passphrase_file)


def _public_files(authority: Authority) -> Result:
    ends = authority.list_ends()
    return {
        "authority_certificate": str(authority.certificate_path),
        "revoked_list": str(authority.list_path),
        "revoked_list_ends": ends.isoformat(),
        "revoked_list_over": ends <= datetime.now(UTC),
        "revoked_list_behind": authority.list_is_behind(),
    }


def _split(who: str) -> tuple[str, str]:
    from cloister.core.errors import SettingsError

    role, slash, name = who.partition("/")
    if not slash:
        raise SettingsError(
            "whom is it for?", where=repr(who[:80]), remedy="write ROLE/NAME, as in node/clinic-a"
        )
    return role, name


def _require_fingerprint(request: bytes, fingerprint: str | None) -> None:
    from cloister.core.errors import AccessDenied
    from cloister.privacy.certificates.certificate_request import read_request

    found = read_request(request).fingerprint
    wanted = (fingerprint or found).lower().replace(":", "").replace(" ", "")
    if wanted != found:
        raise AccessDenied(
            f"the request's key has the fingerprint {found}",
            where="request",
            remedy="do not sign: it is not the key that you were told of",
        )
