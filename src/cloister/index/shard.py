"""A shard: the index of one server, on disk, with who may read what.

One index serves every reader. `Shard.view` gives what one reader may read, as the last commit has
it: also where another process made that commit.

Rights are enforced by `ReaderView`, for whoever asks through it. They do not protect against
somebody who can read the folder: its files hold the terms of all documents, and are not encrypted.

Deletion
--------
After the commit of a deletion no view shows the document. Its terms stay in the file of its segment
until that is merged away, by the policy or by `Shard.purge`; then the file is removed. What the
disk, a backup or a process that still has the old file open keeps of it is beyond this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.last_commit import LastCommit
from cloister.index.reader_view import ReaderView
from cloister.index.shard_commit import ShardCommit
from cloister.index.shard_draft import IndexedDocument, ShardDraft
from cloister.index.shard_files import ShardFiles
from cloister.index.shard_settings import ShardSettings
from cloister.index.snapshot import Snapshot
from cloister.index.term_counts import TermCounts
from cloister.index.view_cache import ViewCache

__all__ = ["IndexedDocument", "Shard", "ShardSettings"]


class Shard:
    """The index of one server. Threads may share it, with all changes that wait for a commit.

    Changes are seen by nobody before `commit`, except for `set_rights`, which commits by itself.
    From the first change to the commit this object is the writer: others who want to write wait,
    and are refused with `Busy` after ``ShardSettings.wait_s``. Anybody may read at any time.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from cloister.core.ids import AgentId
    >>> alice, bob = Reader(AgentId("alice")), Reader(AgentId("bob"))
    >>> private = Rights(owner=AgentId("alice"))
    >>> with TemporaryDirectory() as folder, Shard.open(folder, server_id=ServerId("s1")) as shard:
    ...     shard.add([IndexedDocument(DocId("d1"), PodId("p1"), "cough and fever", private)])
    ...     _ = shard.commit()
    ...     before = shard.view(bob).level("document").n_entities
    ...     _ = shard.set_rights({DocId("d1"): private.grant("bob")})
    ...     before, shard.view(bob).level("document").n_entities
    (0.0, 1.0)
    """

    def __init__(self, files: ShardFiles, settings: ShardSettings) -> None:
        self._files = files
        self._settings = settings
        self._writing = threading.RLock()  # held while a change is made
        self._draft: ShardDraft | None = None
        views = ViewCache(max_views=settings.max_views, view_bytes=settings.view_bytes)
        self._last = LastCommit(files, views)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        server_id: ServerId,
        analysis: TextAnalysis | None = None,
        create: bool = True,
        settings: ShardSettings | None = None,
    ) -> Shard:
        """Open an index, or make an empty one.

        Parameters
        ----------
        folder
            Where it is.
        server_id
            Whose it is; the index of another server is refused.
        analysis
            How texts are cut into terms; the index's own where not given, and no other.
        create
            Whether a missing index is made.
        settings
            Of time and memory.

        Raises
        ------
        NotFound
            There is no index, and none is to be made.
        SettingsError
            The index is another server's, or was made with another analysis.
        Damaged
            The files are not as they were written.
        """
        files = ShardFiles(Path(folder))
        if not files.exists() and create:
            files.create(ShardCommit(0, server_id, analysis or TextAnalysis()))
        try:
            shard = cls(files, settings or ShardSettings())
            last = shard._last.known
            _require(last.server_id == server_id, "the index of another server", folder)
            same = analysis is None or analysis == last.analysis
            _require(same, "made with another analysis of texts", folder)
        except BaseException:
            files.close()
            raise
        return shard

    def close(self) -> None:
        """Drop what was not committed, and let go of all files."""
        with self._writing:
            self._end()
            self._last.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def server_id(self) -> ServerId:
        """Whose index this is."""
        return self._last.known.server_id

    @property
    def analysis(self) -> TextAnalysis:
        """How its texts were cut into terms."""
        return self._last.known.analysis

    @property
    def version(self) -> int:
        """Number of the last commit. It tells of every change: not for readers."""
        return self._last.refreshed().version

    @property
    def n_documents(self) -> int:
        """Number of documents, whoever may read them. Not for readers."""
        return self._last.refreshed().n_live

    def snapshot(self) -> Snapshot:
        """Return the last commit, with everybody's documents. Not for readers."""
        return self._last.snapshot()

    def view(self, reader: Reader) -> ReaderView:
        """Return what a reader may read now; whoever calls this has verified who it is."""
        return self._last.view(reader)

    def hide(self, pods: frozenset[PodId]) -> None:
        """Let no view of this object show some pods, until it is told otherwise.

        Neither counts nor statistics nor versions depend on them then. Nothing is written.
        """
        self._last.hide(pods)

    def add(self, documents: Iterable[IndexedDocument]) -> None:
        """Add documents; one whose id is there already takes the place of the old one.

        Where one of them cannot be added this raises, and those before it stay added.
        """
        for document in documents:  # which may take its time: rights can change meanwhile
            with self._writing:
                self._begun().add(document)

    def add_counted(self, documents: Sequence[IndexedDocument], counts: TermCounts) -> None:
        """Add documents whose terms were counted already, by the index's own analysis."""
        with self._writing:
            self._begun().add_counted(documents, counts)

    def delete(self, doc_ids: Iterable[DocId]) -> int:
        """Take documents out; return how many of them were there."""
        with self._writing:
            return self._begun().delete(doc_ids)

    def set_rights(self, changes: Mapping[DocId, Rights]) -> int:
        """Change who may read documents, at once and durably; return the new version.

        The next view of any reader, in any process, goes by the new rights. Other changes that are
        not committed yet stay so.

        Raises
        ------
        NotFound
            One of the documents is not there; then nothing is changed.
        """
        with self._writing:
            began = self._draft is None
            draft, last = self._begun(), self._last.refreshed()
            try:
                if not all(last.find(doc_id) or draft.has(doc_id) for doc_id in changes):
                    raise NotFound("not allowed, or no such resource", where="rights")
                self._last.publish(last.with_rights(changes).tidied())
            finally:
                if began:
                    self._end()
                elif self._last.refreshed().version > last.version:
                    draft.set_rights(changes)  # also where only the end of `publish` failed
            return self._last.known.version

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the writer from the beginning to the end, over several commits.

        What is changed elsewhere in between is then not left without its half in the index because
        another writer was in the way.
        """
        with self._writing:
            self._files.hold(self._settings.wait_s)
        try:
            yield
        finally:
            with self._writing:
                self._files.release()
                if self._draft is None:
                    self._files.unlock()

    def set_etags(self, changes: Mapping[DocId, str]) -> None:
        """Change the ETags of documents whose text stayed as it was."""
        with self._writing:
            self._begun().set_etags(changes)

    def etags(self, pod_id: PodId) -> dict[DocId, str]:
        """Return the ETag of each document of a pod, with changes that are not committed yet."""
        return {doc_id: etag for doc_id, (etag, _) in self._in_pod(pod_id).items()}

    def rights(self, pod_id: PodId) -> dict[DocId, Rights]:
        """Return who may read each document of a pod, with changes that are not committed yet."""
        return {doc_id: rights for doc_id, (_, rights) in self._in_pod(pod_id).items()}

    def pod_of(self, doc_id: DocId) -> PodId | None:
        """Return the pod of a document as the last commit has it, whoever may read it."""
        last = self._last.refreshed()
        place = last.find(doc_id)
        if place is None:
            return None
        stored = last.segments[place.segment].stored
        return PodId(stored.pod_ids[int(stored.pods[place.number])])

    def commit(self) -> int:
        """Make all changes durable and visible; return the version."""
        return self._finish(lambda draft: draft.finished(self._settings.merging))

    def merge(self) -> int:
        """Commit, with all segments merged into one; return the version."""
        with self._writing:
            self._begun()
            return self._finish(ShardDraft.merged)

    def purge(self) -> int:
        """Commit, and remove from the files what was deleted or changed; return the version."""
        with self._writing:
            self._begun()
            return self._finish(ShardDraft.purged)

    def rollback(self) -> None:
        """Drop what was not committed."""
        with self._writing:
            try:
                if self._draft is not None:
                    self._files.sweep(self._last.refreshed())
            finally:
                self._end()

    def _in_pod(self, pod_id: PodId) -> dict[DocId, tuple[str, Rights]]:
        with self._writing:
            return (self._draft or self._new_draft(self._last.refreshed())).in_pod(pod_id)

    def _new_draft(self, base: ShardCommit) -> ShardDraft:
        return ShardDraft(self._files, base, buffer_chars=self._settings.buffer_chars)

    def _begun(self) -> ShardDraft:
        """Become the writer, if that is not so yet."""
        if self._draft is None:
            self._files.lock(self._settings.wait_s)
            try:
                last = self._last.refreshed()
                self._files.sweep(last)
                self._draft = self._new_draft(last)
            except BaseException:
                self._files.unlock()
                raise
        return self._draft

    def _finish(self, finished: Callable[[ShardDraft], ShardCommit]) -> int:
        """Commit what a draft comes to; where that fails, the draft stays for another try."""
        with self._writing:
            if self._draft is None:
                return self._last.refreshed().version
            commit = finished(self._draft)
            if self._draft.touched:
                self._last.publish(commit)
            self.rollback()
            return self._last.known.version

    def _end(self) -> None:
        """Let others write."""
        self._draft = None
        self._files.unlock()


def _require(holds: bool, what: str, folder: str | Path) -> None:
    if not holds:
        raise SettingsError(what, where=str(folder), remedy="name another folder")
