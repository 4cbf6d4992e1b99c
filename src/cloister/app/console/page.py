"""How a page is made: templates, what they all know, and what an error looks like."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import cloister
from cloister.app.console.charts import chart_json
from cloister.app.output import number

__all__ = ["NAVIGATION", "PageName", "render"]

_TEMPLATES: Final = Path(__file__).parent / "templates"


class PageName(NamedTuple):
    """A page in the navigation."""

    path: str
    title: str


NAVIGATION: Final = (
    PageName("/start", "Start"),
    PageName("/search", "Search"),
    PageName("/federation", "Federation"),
    PageName("/ledger", "Ledger"),
    PageName("/attack-lab", "Attack lab"),
    PageName("/forget", "Forget"),
    PageName("/experiments", "Experiments"),
)


def render(
    request: Request, template: str, *, title: str, http_status: int = 200, **values: Any
) -> Response:
    """Return a page; it tells when it was made."""
    page = _environment().get_template(template)
    text = page.render(
        title=title,
        path=request.url.path,
        navigation=NAVIGATION,
        made_up=request.app.state.scene.life is not None,
        federation=request.app.state.scene.folder.roster.name,
        made_at=datetime.now(UTC),
        version=cloister.__version__,
        **values,
    )
    return HTMLResponse(text, http_status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["chart"] = lambda chart: _json(chart_json(chart))
    environment.filters["short"] = lambda digest: digest[:12]
    environment.filters["moment"] = _moment
    return environment


def _json(value: Any) -> Markup:
    """Return JSON that can stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _moment(recorded_at: str) -> str:
    """Write a time of a ledger for people."""
    return datetime.fromisoformat(recorded_at).strftime("%Y-%m-%d %H:%M:%S")
