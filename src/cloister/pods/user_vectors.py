"""A user's word vectors: trained on what the user may read, kept in the user's own pod.

They are one resource of a folder pod that the user owns, with an access control list of its own
that names this user alone. It is no document: no sync indexes it, and `FolderPod.read` shows it to
nobody. Where its own list is missing it is refused; inherited rules do not count.

Who learns what:

- Other users nothing: `load_vectors` looks in pods that the reader owns, and asks the list there.
- Whoever keeps the pod's folder can open the file, and with it what
  :mod:`cloister.search.word_vectors` says that vectors tell.
- A server that ranks with them has them in memory (`PodRegistry.search_servers`). Here all servers
  of a home run in one process, which reads every pod anyway. A server elsewhere would learn which
  words the user may read on the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError
from cloister.core.ids import AgentId, DocId, PodId
from cloister.core.rights import STRANGER, Reader
from cloister.pods.acl_turtle import MAX_LIST_BYTES, read_acl, write_acl
from cloister.pods.pod_files import PodFiles
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.web_access_control import AccessRules, Mode
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import (
    TuningSettings,
    WordVectorSettings,
    fine_tune,
    rights_of_vectors,
    train_base,
)

__all__ = [
    "ReadableTexts",
    "load_vectors",
    "readable_basis",
    "readable_texts",
    "require_current",
    "require_own_pods",
    "store_vectors",
    "train_public_base",
    "train_user_vectors",
]

RESOURCE: Final = "word-vectors.bin"  # an ending that no document has
ACL: Final = f"{RESOURCE}.acl"
ADDRESS: Final = f"https://pod.invalid/{RESOURCE}"  # the list is relative: this never shows
MAX_VECTORS_BYTES: Final = 2_000_000_000  # 1.6 million words of 300 numbers


class ReadableTexts(NamedTuple):
    """What somebody may read in a home.

    Parameters
    ----------
    documents
        The words of each document, in the order of the documents' ids.
    n_left_out
        Documents in an index that their pod did not show: refused meanwhile, gone, or not to be
        read.
    """

    documents: list[list[str]]
    n_left_out: int = 0


def readable_basis(registry: PodRegistry, reader: Reader) -> str:
    """Return 32 hexadecimal digits that stand for all documents a reader may read by the indexes.

    They change with the text, id, pod or server of such a document, and with which these are, and
    with nothing else.
    """
    hashed = hashlib.blake2b(digest_size=16)
    for server_id in registry.server_ids():
        view = registry.shard(server_id).view(reader)
        if len(view.documents):
            hashed.update(f"{server_id}\0{view.version}\0".encode())
    return hashed.hexdigest()


def readable_texts(registry: PodRegistry, reader: Reader) -> ReadableTexts:
    """Read all that a reader may read: the index says which documents, each pod whether."""
    found: dict[DocId, list[str]] = {}
    n_left_out = 0
    for server_id in registry.server_ids():
        shard = registry.shard(server_id)
        view = shard.view(reader)
        for number in view.documents.tolist():
            doc_id = view.doc_id(number)
            try:
                text = registry.read_text(server_id, doc_id, reader)
            except AccessDenied:
                n_left_out += 1
            else:
                found[doc_id] = shard.analysis.terms(text)
    return ReadableTexts([found[doc_id] for doc_id in sorted(found)], n_left_out)


def train_public_base(
    registry: PodRegistry, settings: WordVectorSettings | None = None, *, seed: int = 1
) -> WordVectors:
    """Train a base on the documents of a home that everybody may read."""
    settings = settings or WordVectorSettings()
    try:
        return train_base(readable_texts(registry, STRANGER).documents, settings, seed=seed)
    except DataError as error:
        raise DataError(
            f"{error.what} in what everybody may read here",
            where="public base",
            remedy="make more documents public, lower the count, or bring a base from a file",
        ) from None


def train_user_vectors(
    registry: PodRegistry,
    reader: Reader,
    base: WordVectors,
    settings: TuningSettings | None = None,
    *,
    seed: int = 1,
) -> WordVectors:
    """Tune a base on what a reader may read; `WordVectors.basis` is its `readable_basis`.

    What is readable is taken down before any text is read: what changes meanwhile makes the vectors
    old, and never silently current.
    """
    basis = readable_basis(registry, reader)
    texts = readable_texts(registry, reader)
    if not texts.documents:
        raise NotFound(
            "nothing to train on: this user may read no document here",
            where=reader.agent_id,
            remedy="sync the pods, or have documents granted",
        )
    return replace(fine_tune(base, texts.documents, settings, seed=seed), basis=basis)


def store_vectors(registry: PodRegistry, user: AgentId, vectors: WordVectors) -> PodId:
    """Put a user's vectors into a folder pod that the user owns, for that user alone.

    Of several such pods it is the first by name; older vectors in the others are removed.
    """
    first, *others = require_own_pods(registry, user)
    files = PodFiles(first.address)
    rules = AccessRules().with_readers(rights_of_vectors(user))
    with files.changing():
        # The list comes first: the vectors are never there without it.
        files.write(ACL, write_acl(rules.bound_to(f"./{RESOURCE}")).encode())
        files.write(RESOURCE, vectors.to_bytes())
    for older in (PodFiles(pod.address) for pod in others):
        with older.changing():
            older.delete(RESOURCE)
            older.delete(ACL)
    return PodId(first.pod_id)


def require_own_pods(registry: PodRegistry, user: AgentId) -> list[RegisteredPod]:
    """Return the folder pods that a user owns, by name; raise where there is none."""
    pods = list(_own_pods(registry, user))
    if not pods:
        raise SettingsError(
            "this user owns no folder pod here, where vectors could be kept",
            where=user,
            remedy=f"cloister pods add FOLDER --owner {user}, or write them to a file with --out",
        )
    return pods


def load_vectors(registry: PodRegistry, reader: Reader) -> WordVectors:
    """Return a reader's own vectors; raise `NotFound` where there are none they may read."""
    for pod in _own_pods(registry, reader.agent_id):
        content = _allowed_content(PodFiles(pod.address), reader)
        if content is not None:
            return WordVectors.from_bytes(content)
    raise NotFound("no word vectors of this user", where=reader.agent_id, remedy=_train(reader))


def require_current(registry: PodRegistry, reader: Reader, vectors: WordVectors) -> WordVectors:
    """Return vectors of what the reader may read now; raise `DataError` for any others."""
    if vectors.basis != readable_basis(registry, reader):
        raise DataError(
            "the word vectors are of other documents than this user may read now",
            where=reader.agent_id,
            remedy=f"train again: {_train(reader)}",
        )
    return vectors


def _own_pods(registry: PodRegistry, user: AgentId) -> Iterator[RegisteredPod]:
    """Give the folder pods of which both the registry and the pod say that the user owns them."""
    if not user:
        return
    for _, pod in sorted(registry.pods.items()):
        if pod.kind == "folder" and pod.owner == user:
            try:
                registry.datastore(pod)
            except DataError:  # the folder says that it is another's
                continue
            yield pod


def _allowed_content(files: PodFiles, reader: Reader) -> bytes | None:
    """Return the resource where its own list lets the reader read, before and after."""
    if not _may_read(files, reader):
        return None
    content = files.read(RESOURCE, max_bytes=MAX_VECTORS_BYTES)
    return content if _may_read(files, reader) else None


def _may_read(files: PodFiles, reader: Reader) -> bool:
    listed = files.read(ACL, max_bytes=MAX_LIST_BYTES)
    if listed is None:
        return False
    rules = read_acl(listed, f"{ADDRESS}.acl").own(ADDRESS)
    return Mode.READ in rules.modes(reader)


def _train(reader: Reader) -> str:
    groups = "".join(f" --group {name}" for name in sorted(reader.groups))
    return f"cloister vectors train --as {reader.agent_id}{groups}"
