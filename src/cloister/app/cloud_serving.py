"""``cloister cloud serve``: the server's side, which holds no key of its own."""

from __future__ import annotations

from pathlib import Path

from cloister.app.output import print_json, say
from cloister.cloud.http_service import serve

__all__ = ["serve_folder"]


def serve_folder(
    folder: Path,
    token_file: Path,
    *,
    host: str,
    port: int,
    tls_certificate: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    as_json: bool,
) -> None:
    """Serve until the process is told to end; the address is told as soon as it is known.

    As JSON it is the one object on standard output: who starts the server waits for this line.
    """

    def listening(address: str) -> None:
        if as_json:
            print_json({"folder": str(folder), "address": address})
        else:
            say(f"serving {folder} at {address}; end it with Ctrl-C")

    serve(
        folder,
        token_file,
        host=host,
        port=port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        listening=listening,
    )
