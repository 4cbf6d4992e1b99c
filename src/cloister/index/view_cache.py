"""Keeps the views of the readers who asked last."""

from __future__ import annotations

from collections import OrderedDict

from cloister.core.ids import PodId
from cloister.core.rights import Reader
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Snapshot

__all__ = ["ViewCache"]


class ViewCache:
    """Views of one snapshot, one for each reader. The caller holds a lock.

    A reader whose groups changed is another reader. When the index changes all views are dropped,
    and with them the last hold on files that were merged away.

    Parameters
    ----------
    max_views
        How many views are kept; the one asked for longest ago goes first.
    view_bytes
        How much memory each view may take for lists of postings.
    """

    def __init__(self, *, max_views: int, view_bytes: int) -> None:
        self._max_views = max_views
        self._view_bytes = view_bytes
        self._snapshot: Snapshot | None = None
        self._hidden: frozenset[PodId] = frozenset()
        self._views: OrderedDict[Reader, ReaderView] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def hide(self, pods: frozenset[PodId]) -> None:
        """Let no view show some pods, from now on."""
        if pods != self._hidden:
            self.clear()
            self._hidden = pods

    def view(self, snapshot: Snapshot, reader: Reader) -> ReaderView:
        """Return the view of a snapshot for a reader."""
        if snapshot is not self._snapshot:
            self.clear()
            self._snapshot = snapshot
        if reader not in self._views:
            self._views[reader] = ReaderView(
                snapshot, reader, cache_bytes=self._view_bytes, hidden=self._hidden
            )
        self._views.move_to_end(reader)
        if len(self._views) > self._max_views:
            self._views.popitem(last=False)
        return self._views[reader]

    def clear(self) -> None:
        """Drop all views."""
        self._snapshot = None
        self._views.clear()
