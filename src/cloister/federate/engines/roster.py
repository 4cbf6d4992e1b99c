"""Who takes part in a federation, and by what agreement: one file, the same for all.

It holds public keys and addresses, and no secret. Whoever writes it vouches for its keys: members
compare `FederationRoster.digest` by another way before they take part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.core.file_errors import explained
from cloister.core.settings import Settings
from cloister.federate.engines.agreement import FederationAgreement
from cloister.federate.engines.site_call import SiteId
from cloister.privacy.certificates.certificate_name import checked_part
from cloister.privacy.identity import Directory

__all__ = ["FederationRoster", "Member", "Place"]


def _checked_name(name: str) -> str:
    try:
        return checked_part(name)
    except SettingsError as error:
        raise ValueError(error.what) from None


class Member(Settings):
    """One node.

    Parameters
    ----------
    name
        Of the site and the server.
    signing_key
        Its public key for secure aggregation, 64 hexadecimal digits.
    url
        Where it answers; empty where an engine carries everything.
    token_keys
        The public keys of its issuer of tokens, a JSON Web Key Set: it is believed about its own
        users.
    """

    name: str
    signing_key: str = Field(pattern="^[0-9a-f]{64}$")
    url: str = ""
    token_keys: dict[str, JsonValue] = Field(default_factory=dict)

    _usable = field_validator("name")(_checked_name)


class Place(Settings):
    """Where a service answers."""

    name: str
    url: str

    _usable = field_validator("name")(_checked_name)


class FederationRoster(Settings):
    """Who takes part, and by what agreement.

    Parameters
    ----------
    name
        Of the federation, as certificates and tokens name it.
    agreement
        By which the members train.
    members
        The nodes.
    coordinator, broker
        Where they answer, where they are services of their own.

    Examples
    --------
    >>> from cloister.rank.ranker import RankerSettings
    >>> roster = FederationRoster(
    ...     name="clinics",
    ...     agreement=FederationAgreement(name="pilot", ranker=RankerSettings(n_features=4)),
    ...     members=(Member(name="clinic-a", signing_key="d7" * 32),))
    >>> FederationRoster.model_validate_json(roster.to_json()) == roster
    True
    """

    name: str
    agreement: FederationAgreement
    members: tuple[Member, ...] = Field(min_length=1)
    coordinator: Place | None = None
    broker: Place | None = None

    _usable = field_validator("name")(_checked_name)

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [member.name for member in self.members]
        if len(set(names)) != len(names):
            raise ValueError("a member is listed twice")
        return self

    @classmethod
    def from_json(cls, path: str | Path) -> Self:
        """Read the file."""
        with explained(Path(path)):
            content = Path(path).read_bytes()
        try:
            return cls.model_validate_json(content)
        except (ValidationError, SettingsError) as error:
            raise DataError(f"not a roster: {_first_line(error)}", where=str(path)) from None

    def to_json(self) -> bytes:
        """Return the file's content."""
        return (self.model_dump_json(indent=1) + "\n").encode()

    @property
    def site_ids(self) -> tuple[SiteId, ...]:
        """The nodes' names, in order."""
        return tuple(sorted(SiteId(member.name) for member in self.members))

    def member(self, name: str) -> Member:
        """Return a member; raise `NotFound` where nobody has that name."""
        for member in self.members:
            if member.name == name:
                return member
        raise NotFound("no such member", where=name, remedy="see the federation's roster")

    def directory(self) -> Directory:
        """Return the nodes' public signing keys."""
        return Directory({one.name: bytes.fromhex(one.signing_key) for one in self.members})


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return error.message if isinstance(error, SettingsError) else str(error)
