"""What a node publishes of its documents' terms: made once, recorded, then sent until it arrived.

Node and broker agree on the form first: where the broker takes another form, nothing is made. The
tables, the ledger's record of them and the note that they wait are on the disk before anything is
sent. A node that is killed sends the same tables afterwards: noise is never drawn twice for one
release. New tables are made when an operator asks for them, since each version costs anew.

Where the broker is away, the node tries again, at first after `FIRST_WAIT_S`, then less and less
often, up to `LONGEST_WAIT_S`. A broker that refuses tables would refuse them again: then the
publication has failed. The ledger says so, and the release stays charged, since the broker may have
read it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from cloister.core.errors import CloisterError, Conflict, DataError, NotFound
from cloister.core.ids import ServerId
from cloister.index.shard import Shard
from cloister.privacy.ledger.entry import Label, Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.outbox import FailedRelease, note_delivery, note_failure
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
from cloister.web.logs import log_event

__all__ = ["Publisher"]

BROKER: Final = "broker"  # and through it all nodes
STATISTICS: Final = "published statistics"
FIRST_WAIT_S: Final = 5.0  # before tables are sent again to a broker that was away
LONGEST_WAIT_S: Final = 600.0
_STATE: Final = KeyedState("node-published")  # by node: digest, whether it arrived, why it failed


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
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        name: ServerId,
        shard: Shard,
        ledger: Ledger,
        files: Files,
        settings: PublishingSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._shard = shard
        self._ledger = ledger
        self._files = files
        self._settings = settings
        self._one_at_a_time = threading.Lock()  # a version must not overtake another
        self._clock = clock
        self._wait_s = FIRST_WAIT_S
        self._not_before_s = -math.inf
        ledger.database.migrate(KeyedState.schema)

    def state(self) -> dict[str, Any]:
        """Return the digest of the last tables and what became of them; maybe nothing.

        ``arrived`` says whether the broker has them, ``failed`` why it never will, if so.
        """
        found = self._ledger.database.run(lambda c: _STATE.get(c, self._name), read_only=True)
        return {} if found is None else dict(found.value)

    def require_form(self, broker: BrokerLink) -> None:
        """Raise `Conflict` where the broker takes another form; not where it does not answer."""
        try:
            form = broker.form()
        except NotFound:  # a broker of an earlier version, which judges the tables alone
            return
        except CloisterError as error:
            log_event("form_not_known", level=logging.WARNING, error=type(error).__name__)
            return
        if form != self._settings.form:
            raise Conflict(
                f"this node publishes {self._settings.form} tables, and the broker takes {form} "
                "ones; nothing was made, recorded or sent",
                where=self._name,
                remedy=f'write form = "{form}" under [publishing] in the service.toml of '
                f"{self._name}, and start it again",
            )

    def make(self) -> str:
        """Make new tables and record them, or raise `BudgetExceeded`; return their digest."""
        with self._one_at_a_time:
            self._wait_s, self._not_before_s = FIRST_WAIT_S, -math.inf
            return self._made()

    def _made(self) -> str:
        contents = contents_of(self._shard.snapshot(), self._name)
        label = Label(self._name, BROKER, STATISTICS)
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
        """Send what waits, if anything does and it is time; return whether it arrived.

        Raises where the broker is away; then this does nothing for a while.
        """
        with self._one_at_a_time:
            waiting = self.state()
            if not waiting or waiting["arrived"] or waiting.get("failed"):
                return False
            if self._clock() < self._not_before_s:
                return False
            try:
                return self._sent(broker, waiting)
            except CloisterError:
                self._not_before_s = self._clock() + self._wait_s
                self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
                raise

    def _sent(self, broker: BrokerLink, waiting: dict[str, Any]) -> bool:
        try:
            self.require_form(broker)
        except Conflict as error:
            return self._failed(waiting, f"not sent: {error.what.partition(';')[0]}")
        try:
            broker.publish(self._files.read(waiting["digest"]))
        except (DataError, Conflict) as error:
            return self._failed(waiting, f"sent, and refused by the broker: {error.what}")
        now = _now()

        def work(connection: sa.Connection) -> None:
            for number in waiting["entries"]:
                note_delivery(connection, number, now)
            _STATE.put(connection, self._name, waiting | {"arrived": True})

        self._ledger.database.run(work)
        return True

    def _failed(self, waiting: dict[str, Any], reason: str) -> bool:
        """Write down that these tables will never arrive, and why; return False."""
        log_event("publication_failed", level=logging.ERROR)
        now = _now()

        def work(connection: sa.Connection) -> None:
            for number in waiting["entries"]:
                note_failure(connection, FailedRelease(number, now, reason))
            _STATE.put(connection, self._name, waiting | {"failed": reason})

        self._ledger.database.run(work)
        return False

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
