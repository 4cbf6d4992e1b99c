"""Any release, read from its canonical JSON."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from cloister.core.errors import DataError, SettingsError
from cloister.privacy.release import BoundedRelease, Release, UnprotectedRelease
from cloister.privacy.releases.gaussian import DiscreteGaussianRelease, GaussianRelease
from cloister.privacy.releases.laplace import DiscreteLaplaceRelease, LaplaceRelease
from cloister.privacy.releases.noisy_tables import NoisyTablesRelease
from cloister.privacy.releases.randomised_response import RandomisedResponseRelease
from cloister.privacy.releases.tree import TreeRelease

__all__ = ["AnyRelease", "read_release"]

AnyRelease = Annotated[
    GaussianRelease
    | DiscreteGaussianRelease
    | NoisyTablesRelease
    | LaplaceRelease
    | DiscreteLaplaceRelease
    | RandomisedResponseRelease
    | TreeRelease
    | BoundedRelease
    | UnprotectedRelease,
    Field(discriminator="mechanism"),
]
_reader: Final[TypeAdapter[Any]] = TypeAdapter(AnyRelease)


def read_release(text: str, *, where: str = "release") -> Release:
    """Read a release from its canonical JSON.

    Examples
    --------
    >>> one = LaplaceRelease(level="token", scale=2.0, sensitivity=1)
    >>> read_release(one.canonical()) == one
    True
    """
    try:
        release: Release = _reader.validate_json(text)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise DataError(f"not a release: {reason}", where=where) from None
    except SettingsError as error:
        raise DataError(f"not a release: {error.message}", where=where) from None
    return release
