"""``cloister cloud upload``: a private index goes to its server, on record where there is a ledger.

An upload is recorded as an `UnprotectedRelease`: what the server can learn from the index, once it
is asked, has no finite epsilon. A party that has a limit on its ledger is therefore refused. The
ledger keeps a digest of the file, not the file.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cloister.cloud.http_client import HttpTransport
from cloister.cloud.http_service import read_token
from cloister.cloud.private_index import PrivateIndex
from cloister.privacy.ledger.entry import Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level
from cloister.privacy.release import UnprotectedRelease
from cloister.store.addresses import parse_address

__all__ = ["UploadRecording", "upload_index"]

Result = dict[str, Any]

NOTE: Final = (
    "private index: sealed boxes. At rest their number and sizes are in the open; a query opens "
    "the boxes of its words to the server for ever. Not differentially private."
)


class UploadRecording(NamedTuple):
    """Where an upload is recorded, and under which names.

    Parameters
    ----------
    ledger
        Its address.
    party_id
        Whose documents are indexed.
    recipient
        Who gets the index; empty for the server's host.
    purpose
        Why.
    """

    ledger: str
    party_id: str
    recipient: str
    purpose: str


def upload_index(
    path: Path,
    server: str,
    token_file: Path,
    recording: UploadRecording | None,
    *,
    ca_file: Path | None = None,
) -> Result:
    """Check an index, record it, send it; return what was sent.

    It is recorded before it is sent, and noted as delivered when the server has it. A failed
    upload leaves an entry that waits; sent again, the same file has the same entry.
    """
    index = PrivateIndex.open(path)
    index_id = index.index_id.hex()
    size = path.stat().st_size
    start = time.perf_counter()
    with (
        HttpTransport(server, read_token(token_file), ca_file=ca_file) as transport,
        _recorded(path, index, server, recording) as receipt,
    ):
        transport.upload(index_id, path)
    return {
        "file": str(path),
        "server": server,
        "index_id": index_id,
        "documents": index.n_documents,
        "boxes": index.n_boxes,
        "bytes": size,
        "seconds": time.perf_counter() - start,
        "ledger": None if recording is None or receipt is None else _told(recording, receipt),
    }


@contextmanager
def _recorded(
    path: Path, index: PrivateIndex, server: str, recording: UploadRecording | None
) -> Iterator[Receipt | None]:
    if recording is None:
        yield None
        return
    statement = _statement(path, index)
    recipient = recording.recipient or urlsplit(server).hostname or server
    with Ledger.open(recording.ledger, create=False, require_limit=True) as ledger:
        receipt = _waiting(ledger, statement, recording.party_id, recipient) or ledger.release(
            UnprotectedRelease(level=Level.DOCUMENT, n_values=max(1, index.n_boxes), note=NOTE),
            statement,
            party_id=recording.party_id,
            recipient=recipient,
            purpose=recording.purpose,
        )
        yield receipt
        ledger.delivered(receipt.number)


def _waiting(ledger: Ledger, statement: bytes, party_id: str, recipient: str) -> Receipt | None:
    """Return the entry of the same file that was not delivered, if there is one."""
    for entry in ledger.pending(party_id=party_id, recipient=recipient):
        if ledger.payload(entry.number) == statement:
            return entry.receipt()
    return None


def _statement(path: Path, index: PrivateIndex) -> bytes:
    """Return what a ledger keeps of an index: digest, size, counts."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    said = {
        "kind": "private-index",
        "index_id": index.index_id.hex(),
        "sha256": digest,
        "size_bytes": path.stat().st_size,
        "n_documents": index.n_documents,
        "n_boxes": index.n_boxes,
    }
    return json.dumps(said, sort_keys=True).encode()


def _told(recording: UploadRecording, receipt: Receipt) -> Result:
    return {
        "address": parse_address(recording.ledger).shown,
        "entry": receipt.number,
        "party": recording.party_id,
        "purpose": recording.purpose,
    }
