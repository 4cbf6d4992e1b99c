"""The last commit of an index, as the disk has it now, and readers' views of it."""

from __future__ import annotations

import threading

from cloister.core.ids import PodId
from cloister.core.rights import Reader
from cloister.index.reader_view import ReaderView
from cloister.index.shard_commit import ShardCommit
from cloister.index.shard_files import FileIdentity, ShardFiles
from cloister.index.snapshot import Snapshot
from cloister.index.view_cache import ViewCache

__all__ = ["LastCommit"]


class LastCommit:
    """Follows the commits of a folder, whichever process makes them. Threads may share it.

    Each call looks at the disk first: what it returns is of the last commit at that moment, and
    views of an older one are dropped.

    Parameters
    ----------
    files
        The folder; `close` lets go of it.
    views
        Where views are kept. Nobody else uses it.
    """

    def __init__(self, files: ShardFiles, views: ViewCache) -> None:
        self._files = files
        self._views = views
        self._lock = threading.RLock()  # held while the last commit is looked at or replaced
        self._identity, self._commit = files.read_commit({})
        self._snapshot = self._commit.snapshot()

    @property
    def known(self) -> ShardCommit:
        """The commit that was the last one when somebody looked: for what never changes."""
        return self._commit

    def refreshed(self) -> ShardCommit:
        """Return the last commit."""
        with self._lock:
            if self._identity != self._files.identity():
                stored = {state.stored.name: state.stored for state in self._commit.segments}
                self._replace(*self._files.read_commit(stored))
            return self._commit

    def snapshot(self) -> Snapshot:
        """Return the last commit as queries read it, with everybody's documents."""
        with self._lock:
            self.refreshed()
            return self._snapshot

    def view(self, reader: Reader) -> ReaderView:
        """Return what a reader may read of the last commit."""
        with self._lock:
            return self._views.view(self.snapshot(), reader)

    def hide(self, pods: frozenset[PodId]) -> None:
        """Let no view show some pods, from now on."""
        with self._lock:
            self._views.hide(pods)

    def publish(self, commit: ShardCommit) -> None:
        """Make a commit the last one, on the disk and for the next view, with the next version.

        Whoever calls this holds the lock of the folder.
        """
        commit = commit._replace(version=self.refreshed().version + 1)
        self._replace(self._files.write_commit(commit), commit)

    def close(self) -> None:
        """Drop all views, and let go of all files."""
        with self._lock:
            self._views.clear()
            self._files.close()

    def _replace(self, identity: FileIdentity, commit: ShardCommit) -> None:
        with self._lock:
            self._identity, self._commit = identity, commit
            self._snapshot = commit.snapshot()
            self._views.clear()
