"""Who may ask a console, and what browsers are told to do with its answers."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.console.browser import Browser
from cloister.app.console.guard import KEY_COOKIE, MOST_BODY, ConsoleGuard
from services.processes import made_clinics

KEY = "a-key-that-nobody-guesses"
LOCAL = "http://127.0.0.1"


async def _page(request: Request) -> Response:
    return PlainTextResponse("a page")


def client(key: str | None = None) -> Browser:
    app = Starlette(routes=[Route("/page", _page, methods=["GET", "POST"])])
    return Browser(ConsoleGuard(app, key))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8400", 200),
        ("localhost:8400", 200),
        ("[::1]:8400", 200),
        ("127.9.9.9", 200),
        ("elsewhere.example", 403),
        ("127.0.0.1.elsewhere.example", 403),
        ("localhost.elsewhere.example:8400", 403),
        ("0.0.0.0", 403),
        ("10.0.0.1", 403),
        ("[not an address", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    assert client().get("/page", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # no browser
        ({"origin": LOCAL, "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://127.0.0.1:8401"}, 403),  # another program of this machine
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"content-length": str(MOST_BODY + 1)}, 413),
        ({"content-length": "many"}, 400),
        ({"transfer-encoding": "chunked"}, 411),
    ],
)
def test_what_changes_something_comes_from_our_own_pages(
    headers: dict[str, str], status: int
) -> None:
    assert client().post("/page", headers=headers).status_code == status


def test_answers_bind_the_browser() -> None:
    headers = client().get("/page").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy.split("; ")
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_the_key_is_asked_for_once_and_is_not_left_in_the_address() -> None:
    browser = client(KEY)
    assert browser.get("/page").status_code == 401
    assert browser.get("/page?key=wrong").status_code == 401
    assert browser.get("/page", headers={"cookie": f"{KEY_COOKIE}=wrong"}).status_code == 401
    assert browser.get("/page", headers={"cookie": "="}).status_code == 401
    entered = browser.get(f"/page?key={KEY}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/page")
    told = entered.headers["set-cookie"]
    assert "httponly" in told.lower()
    assert "samesite=strict" in told.lower()
    kept = {"cookie": told.partition(";")[0]}
    assert browser.get("/page", headers=kept).status_code == 200


def test_the_console_of_a_federation_asks_for_its_key_and_bears_silent_services(
    tmp_path: Path,
) -> None:
    folder, _ = made_clinics(tmp_path / "f")
    program = "from cloister.app.command_line import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "console", str(folder.folder), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    try:
        assert process.stdout is not None
        address = urlsplit(json.loads(process.stdout.readline())["address"])
        connection = http.client.HTTPConnection(address.netloc, timeout=30)
        connection.request("GET", "/federation")
        answer = connection.getresponse()
        assert (answer.status, b"needs its key" in answer.read()) == (401, True)
        connection.request("GET", f"/?{address.query}")
        answer = connection.getresponse()
        answer.read()
        cookie = str(answer.headers["set-cookie"]).partition(";")[0]
        for path, text in (("/federation", "does not answer"), ("/search", "NODE:NAME"),
                           ("/ledger", "Ledger"), ("/start", "organisations")):  # fmt: skip
            connection.request("GET", path, headers={"cookie": cookie})
            answer = connection.getresponse()
            assert (answer.status, text in answer.read().decode()) == (200, True), path
        connection.request("POST", "/federation/days", headers={"cookie": cookie})
        assert connection.getresponse().status == 404  # real people search by themselves
        connection.close()
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
