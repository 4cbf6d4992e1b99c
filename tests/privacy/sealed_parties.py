"""Two parties, a clock that stands still until it is moved, and a database: shared by the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.sealed.prekeys import Prekeys
from cloister.privacy.sealed.receiver import Receiver
from cloister.privacy.sealed.sender import Sender
from cloister.privacy.sealed.settings import SealedSettings
from cloister.store.database import Database

START_S = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = START_S

    def __call__(self) -> float:
        return self.now_s


class Party:
    """One party, which sends and receives."""

    def __init__(
        self, party_id: str, directory: Directory, clock: Clock, folder: Path | None, **fields: Any
    ) -> None:
        self.party_id = party_id
        self.identity = SigningIdentity.generate()
        self.directory = directory
        self.clock = clock
        self.folder = folder
        self.settings = SealedSettings(**fields)
        directory.add(party_id, self.identity.public)
        self.restart()

    def restart(self) -> None:
        """Begin again with what is on the disk."""
        both: dict[str, Any] = {"settings": self.settings, "clock": self.clock}
        self.prekeys = Prekeys(self.party_id, self.identity, folder=self.folder, **both)
        self.sender = Sender(self.party_id, self.identity, self.directory, **both)
        self.receiver = Receiver(self.prekeys, self.directory, **both)

    def knows(self, other: Party) -> None:
        self.sender.learn(other.prekeys.current())


class Pair:
    """Ann and Bob, who know each other."""

    def __init__(self, folder: Path | None = None, **fields: Any) -> None:
        self.clock = Clock()
        self.directory = Directory()
        self.ann = Party("ann", self.directory, self.clock, None, **fields)
        bob_keys = folder and folder / "bob-keys"
        self.bob = Party("bob", self.directory, self.clock, bob_keys, **fields)
        self.ann.knows(self.bob)
        self.bob.knows(self.ann)

    def sealed(self, content: bytes = b"content", topic: str = "search") -> bytes:
        return self.ann.sender.seal("bob", topic, content)

    def opened(self, envelope: bytes) -> bytes:
        return self.bob.receiver.open_without_replay_check(envelope).content


def open_database(address: str | Path) -> Database:
    database = Database.open(address)
    database.migrate(Receiver.schema)
    return database
