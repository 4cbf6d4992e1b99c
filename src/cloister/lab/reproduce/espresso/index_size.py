"""How large an index is, for comparison with what a selector keeps of it."""

from __future__ import annotations

from pathlib import Path

from cloister.index.snapshot import Snapshot

__all__ = ["index_bytes"]


def index_bytes(folder: Path, snapshot: Snapshot) -> int:
    """Return the bytes of an index's files, less the names of documents and pods.

    What is left are postings, lengths, rights and stamps, for all users.
    """
    files = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    names = sum(len(name) for segment in snapshot.segments for name in segment.doc_ids)
    return files - names - sum(len(name) for name in snapshot.pod_ids)
