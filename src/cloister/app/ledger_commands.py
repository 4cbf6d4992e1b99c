"""``cloister ledger show``, ``check``, ``export`` and ``limit``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.ledger_output import (
    overview_result,
    show_checked,
    show_exported,
    show_limit,
    show_overview,
)
from cloister.app.output import ForceFlag, JsonFlag, command_result, console
from cloister.core.errors import SettingsError
from cloister.privacy.level import Level

if TYPE_CHECKING:
    from cloister.privacy.ledger.ledger import Ledger
    from cloister.privacy.ledger.statement import Statement

__all__ = ["app", "default_ledger"]

app = typer.Typer(
    help="What was released, to whom, and at what cost; what each party allows.",
    no_args_is_help=True,
)


class ExportFormat(StrEnum):
    """What ``export`` writes."""

    JSON = "json"
    CSV = "csv"


def default_ledger() -> str:
    """Return where a ledger lies if nobody says otherwise: in the user's data folder."""
    from platformdirs import user_data_path

    return str(user_data_path("cloister") / "ledger.db")


def _probability(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} does not lie between 0 and 1")
    return value


def _epsilon(text: str) -> float:
    """Read a limit; infinity stands for none."""
    if text == "none":
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"{text!r} is neither a number of at least 0 nor the word none")
    return value


def _hash(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[0-9a-f]{64}", text):
        raise typer.BadParameter("a head has 64 hexadecimal digits, as `cloister ledger show` says")
    return text


def _name(text: str | None) -> str | None:
    from cloister.privacy.ledger.entry import checked_name

    return None if text is None else _accepted(checked_name, text)


def _purpose(text: str) -> str:
    from cloister.privacy.ledger.entry import checked_purpose

    return _accepted(checked_purpose, text)


def _accepted(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except SettingsError as error:
        raise typer.BadParameter(error.message) from None


LedgerAddress = Annotated[
    str,
    typer.Option(
        "--ledger",
        metavar="ADDRESS",
        envvar="CLOISTER_LEDGER",
        default_factory=default_ledger,
        show_default="ledger.db in the user's data folder",
        help="A SQLite file, or postgresql://USER@HOST/DATABASE.",
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="The chance with which epsilon may fail.",
        show_default="the limit's, else 1e-6",
        callback=_probability,
    ),
]
LevelOption = Annotated[
    Level | None,
    typer.Option(help="The unit that is meant.", show_default="the limit's, else user"),
]


@contextmanager
def _read(address: str) -> Iterator[Ledger]:
    """Open a ledger for looking: no file is changed, and rights to read are enough."""
    from cloister.privacy.ledger.ledger import Ledger

    with console(err=True).status("reading the ledger"), Ledger.reading(address) as ledger:
        yield ledger


@contextmanager
def _opened(address: str, *, create: bool) -> Iterator[Ledger]:
    from cloister.privacy.ledger.ledger import Ledger

    if create and "://" not in address:
        Path(address).absolute().parent.mkdir(parents=True, exist_ok=True)
    with Ledger.open(address, create=create) as ledger:
        yield ledger


def _shown(address: str) -> str:
    from cloister.store.addresses import parse_address

    return parse_address(address).shown


@app.command("show")
@command_result(show_overview)
def show(
    ledger: LedgerAddress,
    party: Annotated[str | None, typer.Option(help="One party only.", callback=_name)] = None,
    delta: Delta = None,
    level: LevelOption = None,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Show each party's releases, their true cost together, and its limit.

    The cost is of all recipients together, as if they shared what they got; simulated releases,
    which protect nobody, are shown apart. Write the head down elsewhere: it pins the past.
    """
    from cloister.privacy.ledger.statement import overview

    with _read(ledger) as opened:
        seen = overview(opened, party_id=party, delta=delta, level=level)
        days = _days(opened, seen.statements[0]) if party else None
    return overview_result(_shown(ledger), seen) | ({"days": days} if party else {})


def _days(ledger: Ledger, one: Statement) -> list[dict[str, Any]]:
    """Return how a party's spending grew."""
    from cloister.privacy.ledger.history import history

    days = history(ledger, one.party_id, delta=one.delta, level=one.level)
    return [
        {"date": day.date, "releases": day.n_releases, "epsilon_rdp": day.epsilon} for day in days
    ]


@app.command("check")
@command_result(show_checked)
def check(
    ledger: LedgerAddress,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="A head shown earlier, which must still be there.",
            callback=_hash,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """See that no entry was changed, that payloads are whole and nobody is over the limit."""
    from cloister.privacy.ledger.check import check_ledger
    from cloister.privacy.ledger.statement import overview

    with _read(ledger) as opened:
        checked = check_ledger(opened, pinned=head)
        seen = overview(opened)
    return overview_result(_shown(ledger), seen) | {
        "entries": checked.n_entries,
        "pending": checked.n_pending,
        "head": checked.head._asdict(),
        "pinned": head,
    }


@app.command("export")
@command_result(show_exported)
def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    ledger: LedgerAddress,
    file_format: Annotated[
        ExportFormat, typer.Option("--format", help="What to write.")
    ] = ExportFormat.JSON,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Write all entries to a file, without the payloads."""
    from cloister.privacy.ledger.export import export_ledger
    from cloister.privacy.ledger.statement import overview

    with _read(ledger) as opened:
        head = export_ledger(opened, out, file_format=file_format.value, replace=force)
        seen = overview(opened)
    return overview_result(_shown(ledger), seen) | {
        "file": str(out),
        "format": file_format.value,
        "entries": head.number,
        "head": head._asdict(),
    }


@app.command("limit")
@command_result(show_limit)
def limit(
    party: Annotated[str, typer.Argument(help="Whose limit.", callback=_name)],
    ledger: LedgerAddress,
    epsilon: Annotated[
        float,
        typer.Option(
            metavar="E|none",
            help="What all releases together may cost at most; none takes the limit away.",
            parser=_epsilon,
        ),
    ],
    delta: Annotated[
        float, typer.Option(help="The chance with which that may fail.", callback=_probability)
    ] = 1e-6,
    level: Annotated[Level, typer.Option(help="The unit that is meant.")] = Level.USER,
    failures: Annotated[
        float | None,
        typer.Option(
            help="The part of delta for releases that may fail by themselves.",
            callback=_probability,
            show_default="a tenth of delta",
        ),
    ] = None,
    order: Annotated[
        float | None,
        typer.Option(
            help="At which divergences are added up; a plan can have a better one.",
            min=1.0001,
            max=1e5,
            show_default="the best one for normal noise",
        ),
    ] = None,
    purpose: Annotated[str, typer.Option(help="Why; it is recorded.", callback=_purpose)] = "",
    new: Annotated[
        bool,
        typer.Option("--new", help="Set a party's first limit; make a missing ledger."),
    ] = False,
    as_json: JsonFlag = False,
) -> dict[str, Any]:
    """Set a party's limit of one level, or take it away; the change is recorded.

    Without --new the party must be one whose limit somebody has set or taken away before: a name
    that is misspelt gets no limit of its own.
    """
    from cloister.privacy.ledger.limits import Limit
    from cloister.privacy.ledger.statement import overview

    wanted = None
    if epsilon < math.inf:
        wanted = Limit(epsilon=epsilon, delta=delta, level=level, failures=failures, order=order)
    with _opened(ledger, create=new) as opened:
        if not new:
            opened.require_party(party)
        opened.set_limit(party, wanted, purpose=purpose, level=level)
        seen = overview(opened, party_id=party, level=level)
    return overview_result(_shown(ledger), seen) | {"party": party, "level": str(level)}
