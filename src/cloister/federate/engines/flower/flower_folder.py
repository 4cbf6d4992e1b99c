"""The folder of one party on one machine: the coordinator's, with the SuperLink, or a site's."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field

from cloister.core.errors import NotFound
from cloister.core.settings import Settings

__all__ = ["FlowerFile", "FlowerFolder", "Invitation", "Role"]

Role = Literal["coordinator", "site"]

_FILE: Final = "flower.toml"


class Invitation(Settings):
    """What a site must know of the coordinator: all of it is public, and must come unaltered.

    Parameters
    ----------
    address
        Host and port of the SuperLink.
    coordinator_key
        The coordinator's public signing key.
    ca
        The certificate that vouches for the SuperLink, in PEM.
    """

    address: str
    coordinator_key: str = Field(pattern="^[0-9a-f]{64}$")
    ca: str


class FlowerFile(Settings):
    """``flower.toml``.

    Parameters
    ----------
    role
        Whose folder it is.
    file
        The site's or coordinator's own file, as `SiteFile` and `CoordinatorFile` read it.
    address
        Host and port of the SuperLink.
    coordinator_key
        The coordinator's public signing key.
    """

    role: Role
    file: Path
    address: str
    coordinator_key: str = Field(pattern="^[0-9a-f]{64}$")

    def to_toml(self) -> str:
        """Return the file's content."""
        fields = self.model_dump(mode="json")
        return "".join(f"{name} = {_quoted(str(value))}\n" for name, value in fields.items())


class FlowerFolder(NamedTuple):
    """Where things lie.

    Parameters
    ----------
    path
        The folder.
    """

    path: Path

    @property
    def settings(self) -> FlowerFile:
        """What ``flower.toml`` says."""
        if not self.settings_file.exists():
            raise NotFound(
                "no Flower folder", where=str(self.path), remedy="run `cloister flower provision`"
            )
        return FlowerFile.from_toml(self.settings_file)

    @property
    def settings_file(self) -> Path:
        """Role, address and the coordinator's key."""
        return self.path / _FILE

    @property
    def party_file(self) -> Path:
        """The site's or coordinator's own file."""
        return self.path / self.settings.file

    @property
    def ca(self) -> Path:
        """The certificate that vouches for the SuperLink."""
        return self.path / "ca.crt"

    @property
    def ca_key(self) -> Path:
        """Its key, at the coordinator."""
        return self.path / "ca.key"

    @property
    def certificate(self) -> Path:
        """The SuperLink's certificate."""
        return self.path / "superlink.crt"

    @property
    def certificate_key(self) -> Path:
        """The SuperLink's key."""
        return self.path / "superlink.key"

    @property
    def coordinator_key(self) -> Path:
        """The coordinator's private signing key."""
        return self.path / "coordinator.key"

    @property
    def secret(self) -> Path:
        """What Flower's process and ours share."""
        return self.path / "runtime.secret"

    @property
    def node_key(self) -> Path:
        """The SuperNode's private key."""
        return self.path / "supernode.key"

    @property
    def invitation(self) -> Path:
        """What sites get."""
        return self.path / "invitation.json"

    @property
    def supernodes(self) -> Path:
        """The public keys of SuperNodes, one file a site."""
        return self.path / "supernodes"

    @property
    def state(self) -> Path:
        """The SuperLink's database."""
        return self.path / "superlink.db"

    @property
    def running(self) -> Path:
        """Processes and their logs."""
        return self.path / "running"


def _quoted(text: str) -> str:
    """Write a text as TOML has it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
