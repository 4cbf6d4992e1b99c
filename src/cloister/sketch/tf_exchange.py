"""Term-frequency queries between parties, sealed end to end through a relay.

The relay sees who writes to whom, when, and sizes rounded up; neither columns nor counters nor the
topic. An answer's size tells it about how many documents were asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cloister.core.errors import CloisterError, DataError
from cloister.privacy.sealed.prekeys import SignedPrekey
from cloister.privacy.sealed.receiver import Message, Receiver
from cloister.privacy.sealed.refusals import MessageRefused
from cloister.privacy.sealed.relay import Relay
from cloister.privacy.sealed.sender import Sender
from cloister.sketch.tf_messages import ID_BYTES, TfAnswer, TfQuery
from cloister.sketch.tf_query import DocumentOwner, Estimates, Querier
from cloister.store.database import Database

__all__ = ["Post", "SealedOwner", "SealedQuerier", "Reply"]

QUERY: Final = "tf-query"
ANSWER: Final = "tf-answer"
REFUSAL: Final = "tf-refusal"


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

    def send(self, recipient: str, topic: str, content: bytes) -> None:
        """Seal for a recipient, with the prekey that it published last."""
        self._sender.learn(SignedPrekey.from_bytes(self._relay.prekey(recipient)))
        self._relay.send(recipient, self._sender.seal(recipient, topic, content))

    def receive(self) -> list[Message]:
        """Open what waits; what is altered, replayed or for somebody else is dropped."""
        messages = []
        for delivery in self._relay.receive(self.party_id):
            try:
                with self._database.transaction() as connection:
                    messages.append(self._receiver.open(connection, delivery.envelope))
            except MessageRefused:
                pass
            self._relay.acknowledge(self.party_id, delivery.delivery_id)
        return messages


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

        A refusal names its kind and nothing else.
        """
        n_answered = 0
        for message in self._post.receive():
            if message.topic == QUERY:
                n_answered += self._answer(message)
        return n_answered

    def _answer(self, message: Message) -> bool:
        try:
            answer = self._owner.answer(message.content, querier=message.sender)
        except CloisterError as error:
            query_id = message.content[5 : 5 + ID_BYTES].ljust(ID_BYTES, b"\0")
            reason = type(error).__name__.encode()
            self._post.send(message.sender, REFUSAL, query_id + reason)
            return False
        self._post.send(message.sender, ANSWER, answer)
        self._owner.delivered(message.content, querier=message.sender)
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
        replies = (self._reply(message) for message in self._post.receive())
        return [reply for reply in replies if reply is not None]

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
