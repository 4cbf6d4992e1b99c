"""Who may ask the console, and how it ends."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from cloister.lab.bench.served_demo import ServedDemo


def asked(demo: ServedDemo, method: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(demo.address).netloc, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://elsewhere.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(demo: ServedDemo, headers: dict[str, str]) -> None:
    status, told = asked(demo, "POST", "/federation/do/round", **headers)
    assert (status, told) == (403, "Not from a page of this console.\n")


@pytest.mark.parametrize("host", ["elsewhere.example", "127.0.0.1.elsewhere.example", ""])
def test_a_name_that_was_bound_to_this_machine_is_refused(demo: ServedDemo, host: str) -> None:
    assert asked(demo, "GET", "/search", host=host)[0] == 403


def test_no_file_outside_is_served(demo: ServedDemo) -> None:
    for name in (
        "../page.py",
        "..%2Fpage.py",
        "%2e%2e/console.py",
        "console.css%00",
        "/etc/passwd",
    ):
        assert asked(demo, "GET", f"/static/{name}")[0] in (400, 403, 404, 405)
