"""What a node publishes of its documents' terms: made once, recorded, then sent until it arrived.

The tables, the ledger's record of them and the note that they wait are on the disk before anything
is sent. A node that is killed sends the same tables afterwards: noise is never drawn twice for one
release. New tables are made when an operator asks for them, since each version costs anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from cloister.core.ids import ServerId
from cloister.index.shard import Shard
from cloister.privacy.ledger.entry import Label, Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import note_delivery
from cloister.search.noisy_statistics import noisy_statistics
from cloister.search.published_statistics import (
    PublishedStatistics,
    exact_statistics,
    threshold_statistics,
)
from cloister.search.server_contents import ServerContents, contents_of
from cloister.services.node.broker_link import BrokerLink
from cloister.services.service_file import PublishingSettings
from cloister.store.files import Files
from cloister.store.keyed_state import Json, KeyedState

__all__ = ["Publisher"]

BROKER: Final = "broker"  # and through it all nodes
_STATE: Final = KeyedState("node-published")  # by node: digest, and whether it has arrived


class Publisher:
    """Makes and sends one node's tables.

    Parameters
    ----------
    name
        The node: whose privacy the tables cost.
    shard
        Its index.
    ledger
        Where each version is recorded before it leaves.
    files
        Where tables are kept.
    settings
        In which form.
    """

    def __init__(
        self,
        name: ServerId,
        shard: Shard,
        ledger: Ledger,
        files: Files,
        settings: PublishingSettings,
    ) -> None:
        self._name = name
        self._shard = shard
        self._ledger = ledger
        self._files = files
        self._settings = settings
        self._one_at_a_time = threading.Lock()  # a version must not overtake another
        ledger.database.migrate(KeyedState.schema)

    def state(self) -> dict[str, Any]:
        """Return the digest of the last tables and whether the broker has them; maybe nothing."""
        found = self._ledger.database.run(lambda c: _STATE.get(c, self._name), read_only=True)
        return {} if found is None else dict(found.value)

    def make(self) -> str:
        """Make new tables and record them, or raise `BudgetExceeded`; return their digest."""
        with self._one_at_a_time:
            return self._made()

    def _made(self) -> str:
        contents = contents_of(self._shard.snapshot(), self._name)
        label = Label(self._name, BROKER, "published statistics")
        if self._settings.form == "noisy":
            noisy = noisy_statistics([contents], self._settings.noise)
            digest = self._files.put(noisy.statistics.to_bytes()).digest
            return self._noted(digest, lambda c: noisy.record_in(c, self._ledger, label))
        tables = self._plain(contents)
        digest, release = self._files.put(tables.to_bytes()).digest, tables.unprotected_release()
        said = tables.statement()
        return self._noted(
            digest, lambda c: [self._ledger.release_in(c, release, said, **label._asdict())]
        )

    def send(self, broker: BrokerLink) -> bool:
        """Send what waits, if anything does; return whether it did."""
        with self._one_at_a_time:
            return self._sent(broker)

    def _sent(self, broker: BrokerLink) -> bool:
        waiting = self.state()
        if not waiting or waiting["arrived"]:
            return False
        broker.publish(self._files.read(waiting["digest"]))
        now = datetime.now(UTC).isoformat(timespec="microseconds")

        def work(connection: sa.Connection) -> None:
            for number in waiting["entries"]:
                note_delivery(connection, number, now)
            _STATE.put(connection, self._name, waiting | {"arrived": True})

        self._ledger.database.run(work)
        return True

    def _plain(self, contents: ServerContents) -> PublishedStatistics:
        if self._settings.form == "exact":
            return exact_statistics([contents])
        return threshold_statistics([contents], threshold=self._settings.threshold)

    def _noted(self, digest: str, record: Callable[[sa.Connection], list[Receipt]]) -> str:
        def work(connection: sa.Connection) -> str:
            entries = [receipt.number for receipt in record(connection)]
            waiting: Json = {"digest": digest, "arrived": False, "entries": entries}
            _STATE.put(connection, self._name, waiting)
            return digest

        return self._ledger.database.run(work)
