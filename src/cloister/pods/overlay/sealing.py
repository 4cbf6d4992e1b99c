"""Requests and answers sealed between searcher and node, on :mod:`cloister.privacy.sealed`.

A searcher draws a sealing identity for itself, whose name is the hash of its key: nobody has to
know it beforehand, and nobody can use the name with another key. Who the searcher is stands in the
token inside. Nodes have names and keys that searchers were given.

Against the broker and whoever reads its traffic: requests and answers are secret, and altered or
exchanged ones are refused. What the broker sees: the name of the searcher's sealing identity (one
for each run of a searcher), the node, times, and size classes. A node's identity key that was
stolen lets the thief pose as the node. Session keys live in memory; prekeys are destroyed a day
after they were last used, by default.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cloister.core.errors import AccessDenied, CloisterError
from cloister.core.ids import ServerId
from cloister.pods.overlay.tokens import refused
from cloister.privacy.identity import PUBLIC_KEY_BYTES, Directory, SigningIdentity
from cloister.privacy.sealed.prekeys import Prekeys, SignedPrekey
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.sender import Sender
from cloister.privacy.sealed.settings import SealedSettings

__all__ = ["NodeSeal", "OpenedRequest", "SearcherSeal"]

REQUEST_TOPIC: Final = "search-request"
ANSWER_TOPIC: Final = "search-answer"
_MAX_PEERS: Final = 1_024


class _Peer:
    """What a node keeps of one searcher."""

    __slots__ = ("lock", "name", "public", "receiver", "return_prekey", "sender")

    def __init__(self, public: bytes, receiver: Receiver, sender: Sender) -> None:
        self.public = public
        self.name = sealing_name(public)
        self.receiver = receiver
        self.sender = sender
        self.return_prekey: bytes | None = None
        self.lock = threading.Lock()


class OpenedRequest(NamedTuple):
    """A request that was opened; who sent it is not known before its token is verified."""

    peer: _Peer
    content: bytes


class NodeSeal:
    """The node's side; threads may share it.

    Parameters
    ----------
    server_id, identity
        The node's name and long-term key.
    prekey_folder
        Where prekeys are kept, so that requests under way survive a restart; one process at a time
        may use it. Without it they live in memory.
    """

    def __init__(
        self,
        server_id: ServerId,
        identity: SigningIdentity,
        *,
        prekey_folder: str | Path | None = None,
        settings: SealedSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server_id = server_id
        self._identity = identity
        self._settings = settings or SealedSettings()
        self._clock = clock
        self._prekeys = Prekeys(
            server_id, identity, folder=prekey_folder, settings=self._settings, clock=clock
        )
        self._lock = threading.Lock()
        self._peers: OrderedDict[bytes, _Peer] = OrderedDict()

    def prekey(self) -> bytes:
        """Return the signed prekey for searchers, a new one in time; old ones are destroyed."""
        current = self._prekeys.current().to_bytes()
        if self._prekeys.destroy_expired():
            with self._lock:
                self._peers.clear()  # and with them the session keys
        return current

    def open(self, message: bytes) -> OpenedRequest:
        """Open a request; raise `AccessDenied`, with no reason, where that is not possible.

        Nothing is kept of the sender until `seal` answers.
        """
        public, envelope = message[:PUBLIC_KEY_BYTES], message[PUBLIC_KEY_BYTES:]
        with self._lock:
            peer = self._peers.get(public)
        try:
            peer = peer or self._new_peer(public)
            opened = peer.receiver.open_without_replay_check(envelope)
        except CloisterError:
            raise refused() from None
        if opened.topic != REQUEST_TOPIC:
            raise refused()
        return OpenedRequest(peer, opened.content)

    def seal(self, request: OpenedRequest, return_prekey: bytes, content: bytes) -> bytes:
        """Seal the answer for the searcher of a request, whose token was verified."""
        peer = request.peer
        with peer.lock:
            if peer.return_prekey != return_prekey:
                # The sender knows this searcher alone: the prekey of another is refused.
                peer.sender.learn(SignedPrekey.from_bytes(return_prekey))
                peer.return_prekey = return_prekey
        sealed = peer.sender.seal(peer.name, ANSWER_TOPIC, content)
        self._keep(peer)
        return sealed

    def _new_peer(self, public: bytes) -> _Peer:
        name = sealing_name(public)
        directory = Directory({name: public})
        receiver = Receiver(self._prekeys, directory, settings=self._settings, clock=self._clock)
        sender = Sender(
            self.server_id, self._identity, directory, settings=self._settings, clock=self._clock
        )
        return _Peer(public, receiver, sender)

    def _keep(self, peer: _Peer) -> None:
        with self._lock:
            self._peers[peer.public] = peer
            self._peers.move_to_end(peer.public)
            while len(self._peers) > _MAX_PEERS:
                self._peers.popitem(last=False)


class SearcherSeal:
    """The searcher's side; threads may share it.

    Parameters
    ----------
    nodes
        The nodes' public keys by server id.
    """

    def __init__(
        self,
        nodes: Directory,
        *,
        settings: SealedSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        settings = settings or SealedSettings()
        identity = SigningIdentity.generate()
        self.name = sealing_name(identity.public)
        self._public = identity.public
        self._clock = clock
        self._learned_until_s: dict[ServerId, float] = {}
        self._prekeys = Prekeys(self.name, identity, settings=settings, clock=clock)
        self._sender = Sender(self.name, identity, nodes, settings=settings, clock=clock)
        self._receiver = Receiver(self._prekeys, nodes, settings=settings, clock=clock)

    def return_prekey(self) -> bytes:
        """Return the prekey that answers are sealed for."""
        current = self._prekeys.current().to_bytes()
        self._prekeys.destroy_expired()
        return current

    def learn(self, server_id: ServerId, prekey: bytes) -> None:
        """Take a node's prekey; raise unless that node signed it and it is valid now."""
        signed = SignedPrekey.from_bytes(prekey)
        if signed.party_id != server_id:
            raise AccessDenied("the prekey of another node", where=server_id)
        self._sender.learn(signed)
        self._learned_until_s[server_id] = signed.valid_until_s

    def knows(self, server_id: ServerId) -> bool:
        """Say whether a request to a node can be sealed, or a prekey is needed first."""
        return self._clock() < self._learned_until_s.get(server_id, 0.0)

    def seal(self, server_id: ServerId, content: bytes) -> bytes:
        """Seal a request to a node whose prekey is known."""
        return self._public + self._sender.seal(server_id, REQUEST_TOPIC, content)

    def open(self, server_id: ServerId, envelope: bytes) -> bytes:
        """Open an answer of a node; raise unless it comes from just that node."""
        message = self._receiver.open_without_replay_check(envelope)
        if message.sender != server_id or message.topic != ANSWER_TOPIC:
            raise AccessDenied("not an answer of this node", where=server_id)
        return message.content


def sealing_name(public: bytes) -> str:
    """Return the name that belongs to a sealing key."""
    return "searcher:" + hashlib.sha256(b"cloister sealing name 1" + public).hexdigest()[:40]
