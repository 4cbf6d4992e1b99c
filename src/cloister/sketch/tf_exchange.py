"""Term-frequency queries between parties, sealed end to end through a relay.

The relay sees who writes to whom, when, and sizes rounded up; neither columns nor counters nor the
topic. A query's size tells it about how many terms and listed documents were asked for, an answer's
size about how many terms times documents.

An envelope is forgotten after its answer was sent. A crash before that brings the query again; what
was paid for is waiting in the ledger then, and is sent, not noised anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cloister.core.errors import CloisterError, DataError
from cloister.privacy.sealed.prekeys import SignedPrekey
from cloister.privacy.sealed.receiver import Message, Receiver
from cloister.privacy.sealed.refusals import MessageRefused
from cloister.privacy.sealed.relay import Delivery, Relay
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.document_owner import DocumentOwner
from cloister.sketch.tf_messages import ID_BYTES, TfAnswer, TfQuery
from cloister.sketch.tf_query import Estimates, Querier
from cloister.store.database import Database

__all__ = ["Post", "SealedOwner", "SealedQuerier", "Reply"]

QUERY: Final = "tf-query"
ANSWER: Final = "tf-answer"
REFUSAL: Final = "tf-refusal"
MOST_ATTEMPTS: Final = 10  # to answer a query whose sender cannot be reached


class Post:
    """One party's way to the relay: seals what goes, opens what comes, each message once.

    Parameters
    ----------
    sender, receiver
        Of this party.
    relay
        Who carries envelopes.
    database
        Where messages that were opened are noted; `Receiver.schema` must be there.
    """

    def __init__(
        self, sender: Sender, receiver: Receiver, relay: Relay, database: Database
    ) -> None:
        self.party_id = receiver.party_id
        self._sender = sender
        self._receiver = receiver
        self._relay = relay
        self._database = database
        self._attempts: dict[int, int] = {}  # that failed, by delivery

    def send(self, recipient: str, topic: str, content: bytes) -> None:
        """Seal for a recipient, with the prekey that it published last."""
        self._sender.learn(SignedPrekey.from_bytes(self._relay.prekey(recipient)))
        self._relay.send(recipient, self._sender.seal(recipient, topic, content))

    def process(self, handle: Callable[[Message], bool]) -> None:
        """Hand over what waits, message by message; each counts as seen once it was handled.

        What is altered, replayed or for somebody else is dropped.

        Parameters
        ----------
        handle
            Does what a message asks for. It returns whether that is done: if not, or if it raises,
            the relay brings the message again, up to `MOST_ATTEMPTS` times. After a crash it may
            get a message twice.
        """
        tried: set[int] = set()
        while new := [d for d in self._relay.receive(self.party_id) if d.delivery_id not in tried]:
            for delivery in new:
                tried.add(delivery.delivery_id)
                if self._done(delivery, handle):
                    self._attempts.pop(delivery.delivery_id, None)
                    self._relay.acknowledge(self.party_id, delivery.delivery_id)

    def _done(self, delivery: Delivery, handle: Callable[[Message], bool]) -> bool:
        """Handle an envelope; return whether it may be forgotten."""
        try:
            message = self._opened(delivery.envelope, seen=False)
        except MessageRefused:
            return True
        if not handle(message):
            n_attempts = self._attempts.get(delivery.delivery_id, 0) + 1
            self._attempts[delivery.delivery_id] = n_attempts
            if n_attempts < MOST_ATTEMPTS:
                return False
        with suppress(MessageRefused):  # another process had it meanwhile, or its key has expired
            self._opened(delivery.envelope, seen=True)
        return True

    def _opened(self, envelope: bytes, *, seen: bool) -> Message:
        """Open an envelope that was not seen before, and note it as seen if so asked.

        It is not one transaction with what `handle` does: that has transactions of its own, which
        must be committed before anything is sent.
        """
        with self._database.transaction() as connection, connection.begin_nested() as savepoint:
            message = self._receiver.open(connection, envelope)
            if not seen:
                savepoint.rollback()
        return message


class SealedOwner:
    """Lets an owner answer what the relay brings.

    Parameters
    ----------
    owner
        Who answers.
    post
        Its way to the relay.
    """

    def __init__(self, owner: DocumentOwner, post: Post) -> None:
        self._owner = owner
        self._post = post

    def serve(self) -> int:
        """Answer or refuse all queries that wait; return how many were answered.

        Answers that were recorded and could not be sent before are sent first. A refusal names
        its kind and nothing else. Nobody's query suffers from another's that fails.
        """
        self._send_again()
        n_answered = 0

        def handle(message: Message) -> bool:
            nonlocal n_answered
            if message.topic != QUERY:
                return True
            try:
                answer = self._owner.answer(message.content, querier=message.sender)
            except CloisterError as error:
                self._refuse(message, error)
                return True
            sent = self._sent(message.sender, ANSWER, answer)
            if sent:
                with suppress(CloisterError):  # it stays in the outbox, and is sent once more
                    self._owner.delivered(message.content, querier=message.sender)
            n_answered += sent
            return sent

        self._post.process(handle)
        return n_answered

    def _send_again(self) -> None:
        """Send what the ledger has recorded and nobody has got."""
        for unsent in self._owner.unsent():
            if self._sent(unsent.querier, ANSWER, unsent.answer):
                self._owner.arrived(unsent)

    def _refuse(self, message: Message, error: CloisterError) -> None:
        """Tell a querier that it gets nothing; where that fails it may ask again."""
        query_id = message.content[5 : 5 + ID_BYTES].ljust(ID_BYTES, b"\0")
        self._sent(message.sender, REFUSAL, query_id + type(error).__name__.encode())

    def _sent(self, recipient: str, topic: str, content: bytes) -> bool:
        try:
            self._post.send(recipient, topic, content)
        except CloisterError:
            return False
        return True


class Reply(NamedTuple):
    """What came back for a query: estimates, or the kind of refusal."""

    owner: str
    query: TfQuery
    estimates: Estimates | None
    refusal: str


class SealedQuerier:
    """Sends a querier's queries to owners, and collects the answers.

    Parameters
    ----------
    querier
        Who asks.
    post
        Its way to the relay.
    """

    def __init__(self, querier: Querier, post: Post) -> None:
        self._querier = querier
        self._post = post
        self._waiting: dict[tuple[str, bytes], TfQuery] = {}

    def ask(
        self,
        owner: str,
        terms: Sequence[str],
        documents: Sequence[int] | None = None,
        *,
        open_rows: bool = False,
    ) -> TfQuery:
        """Send a query to an owner; `collect` finds the answer."""
        query = self._querier.ask(terms, documents, open_rows=open_rows)
        self._waiting[owner, query.query_id] = query
        self._post.send(owner, QUERY, query.to_bytes())
        return query

    def collect(self) -> list[Reply]:
        """Return what came back; an answer that nobody waits for, or from another, is dropped."""
        replies: list[Reply] = []

        def handle(message: Message) -> bool:
            reply = self._reply(message)
            if reply is not None:
                replies.append(reply)
            return True

        self._post.process(handle)
        return replies

    def _reply(self, message: Message) -> Reply | None:
        if message.topic == REFUSAL:
            query_id, reason = message.content[:ID_BYTES], message.content[ID_BYTES:]
            query = self._waiting.pop((message.sender, query_id), None)
            named = reason.decode("ascii", "replace")
            return None if query is None else Reply(message.sender, query, None, named)
        if message.topic != ANSWER:
            return None
        try:
            answer = TfAnswer.from_bytes(message.content)
            query = self._waiting.get((message.sender, answer.query_id))
            if query is None:
                return None
            estimates = self._querier.estimate(answer)
        except DataError:
            return None
        del self._waiting[message.sender, answer.query_id]
        return Reply(message.sender, query, estimates, "")
