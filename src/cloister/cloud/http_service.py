"""The server of private indexes as a program: ``python -m cloister.cloud.http_service FOLDER``.

It keeps indexes in a folder (`cloister.cloud.index_folder`) and answers at the addresses that
`cloister.cloud.http_routes` lists, behind the same door as all services (`cloister.web.serving`):
clients that are slow or idle are cut, and make room for others. What it needs comes with the extra
``cloud``; torch, LightGBM and gensim are not needed.

Requests carry keys of boxes, and the token: whoever listens to the line learns what the server
learns. So an address other than this machine's own needs a certificate, or a proxy that has one.
The server writes no log of requests. That binds this program only: an operator who is curious keeps
whatever comes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloister.core.errors import CloisterError, MissingDependency, SettingsError
from cloister.privacy.private_file import read_private_file
from cloister.web.addresses import is_loopback

if TYPE_CHECKING:
    from cloister.cloud.http_routes import CloudServiceLimits

__all__ = ["main", "read_token", "serve"]

LEAST_TOKEN: Final = 16  # characters


def serve(
    folder: str | Path,
    token_file: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8470,
    tls_certificate: str | Path | None = None,
    tls_key: str | Path | None = None,
    behind_proxy: bool = False,
    limits: CloudServiceLimits | None = None,
    listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is told to end (SIGINT, SIGTERM).

    Parameters
    ----------
    folder
        Where indexes are kept.
    token_file
        Holds what clients must send as a bearer token; only its owner may read it.
    host, port
        Where to listen; port 0 takes a free one.
    tls_certificate, tls_key
        Files in PEM.
    behind_proxy
        A proxy on the way does TLS: listen beyond this machine without a certificate.
    limits
        What is taken from clients.
    listening
        Told the address as soon as connections are taken.
    """
    _require_packages()
    from cloister.cloud.http_routes import CloudServiceLimits, cloud_service
    from cloister.cloud.index_folder import IndexFolder
    from cloister.web.serving import serve as serve_until_told
    from cloister.web.tls import ServerTlsFiles

    if tls_key and not tls_certificate:
        raise SettingsError("a key needs its certificate", where=str(tls_key))
    if not is_loopback(host) and not (tls_certificate or behind_proxy):
        raise SettingsError(
            "beyond this machine keys need TLS",
            where=host,
            remedy="give a certificate and its key, or say that a proxy does it",
        )
    limits = limits or CloudServiceLimits()
    kept = IndexFolder(folder, max_indexes=limits.max_indexes)
    service = cloud_service(kept, read_token(token_file), limits)
    tls = None
    if tls_certificate:
        tls = ServerTlsFiles(
            certificate=Path(tls_certificate), key=Path(tls_key or tls_certificate)
        )
    serve_until_told(
        service,
        host=host,
        port=port,
        tls=tls,
        behind_proxy=behind_proxy,
        limits=limits.of_connections(one_address=behind_proxy),
        listening=listening,
    )


def read_token(path: str | Path) -> str:
    """Read a token from a file that only its owner may read.

    Raises
    ------
    SettingsError
        If it is shorter than 16 characters, or holds others than printable ASCII without blanks.
    """
    token = read_private_file(path).strip()
    if len(token) < LEAST_TOKEN or not all(33 <= byte < 127 for byte in token):
        raise SettingsError(
            f"a token has at least {LEAST_TOKEN} printable ASCII characters and no blanks",
            where=str(path),
            remedy="write one, such as the output of: openssl rand -hex 32",
        )
    return token.decode("ascii")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server from the command line; the first line of output has its address."""
    parser = argparse.ArgumentParser(description="Keep private indexes and rank by them.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8470)
    parser.add_argument("--tls-certificate", type=Path)
    parser.add_argument("--tls-key", type=Path)
    parser.add_argument("--behind-proxy", action="store_true")
    options = vars(parser.parse_args(arguments))
    try:
        serve(options.pop("folder"), options.pop("token_file"), **options, listening=_announce)
    except CloisterError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _announce(address: str) -> None:
    sys.stdout.write(json.dumps({"address": address}) + "\n")
    sys.stdout.flush()


def _require_packages() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "the server needs FastAPI and uvicorn",
            where="cloud",
            remedy="pip install 'cloister[cloud]'",
        ) from None


if __name__ == "__main__":
    sys.exit(main())
