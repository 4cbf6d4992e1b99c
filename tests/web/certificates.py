"""The certificates of the tests' federation, and a plain client that shows one."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

import httpx

from cloister.web.tls import TlsFiles
from web.authority import Authority


class Certificates(NamedTuple):
    """Who has which files."""

    authority: Authority
    server: TlsFiles
    node: TlsFiles
    operator: TlsFiles
    other_federation: TlsFiles
    nameless: TlsFiles
    stranger: TlsFiles  # of another authority


def client_with(url: str, files: TlsFiles | None, authority: Path) -> httpx.Client:
    """Return a plain client with or without a certificate."""
    context = ssl.create_default_context(cafile=authority)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return httpx.Client(base_url=url, verify=context, trust_env=False)
