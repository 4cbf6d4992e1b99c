"""Settings of the clinic world."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from cloister.core.settings import Settings

__all__ = ["ClinicSettings"]

N_ORGANISATIONS: Final = 5
MAX_PODS: Final = 10_000_000  # pods are numbered with seven digits


class ClinicSettings(Settings):
    """How large a clinic world is and what its texts look like.

    The sizes of the ESPRESSO paper (section 6, table 2) are ``servers=50&pods=9500``.

    Parameters
    ----------
    seed
        Everything in the world is a function of the settings, and of nothing else.
    organisations, servers, pods
        Organisations, servers in all (spread evenly over the organisations), pods a server. There
        are five organisations, or fewer where there are fewer servers or staff.
    staff
        People who work for the organisations; each belongs to one.
    access
        Access levels in per cent; there is one search party a level, which may read that share
        of all pods.
    queries
        Queries made for the world.
    document_bytes
        The least size of a document. The summary at its head and all acute illnesses are always
        written, which takes about 1,500 bytes even if this is 0.
    tail
        Sizes follow a Pareto law with this exponent, cut at 150 times the least size: 2.5 gives a
        mean of 1.67 times the least size, and 5 KB to 750 KB as in the paper.
    names
        Size of the vocabulary behind each kind of invented name (people, places, products).
    zipf
        Exponent of the Zipf law by which invented names are drawn.
    focus
        Share of patients whose principal problem comes from the specialty of their server, so
        that servers differ in what they hold.

    Examples
    --------
    >>> ClinicSettings.from_text("servers=5&pods=200&staff=20").n_pods
    1000
    >>> ClinicSettings(access=(0,))
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: access.0: Input should be greater than ...
    """

    seed: int = Field(default=1, ge=0, lt=2**63)
    organisations: int = Field(default=N_ORGANISATIONS, ge=1, le=999)
    servers: int = Field(default=10, ge=1, le=9_999)
    pods: int = Field(default=100, ge=1)
    staff: int = Field(default=250, ge=1, le=99_999)
    access: tuple[Annotated[int, Field(gt=0, le=100)], ...] = (5, 10, 25, 50, 100)
    queries: int = Field(default=30, ge=0, le=9_999)
    document_bytes: int = Field(default=5_000, ge=0, le=1_000_000)
    tail: float = Field(default=2.5, gt=1.0, le=100.0)
    names: int = Field(default=100_000, ge=1, le=200_000)
    zipf: float = Field(default=1.0, ge=0.0, le=3.0)
    focus: float = Field(default=0.25, ge=0.0, le=1.0)

    @model_validator(mode="before")
    @classmethod
    def _organisations_fit(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Choose the number of organisations where it was not given."""
        given = [str(fields.get(name, N_ORGANISATIONS)) for name in ("servers", "staff")]
        if "organisations" in fields or not all(text.isdecimal() for text in given):
            return fields
        fitting = min(N_ORGANISATIONS, *map(int, given))
        return {**fields, "organisations": max(fitting, 1)}

    @field_validator("access", mode="before")
    @classmethod
    def _one_level_is_a_list(cls, access: object) -> object:
        """Accept ``access=25``, which has no comma to make it a list."""
        return (access,) if isinstance(access, int | str) else access

    @field_validator("access")
    @classmethod
    def _levels_differ(cls, access: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(access)) < len(access):
            raise ValueError("access levels must differ from each other")
        return access

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.servers < self.organisations:
            raise ValueError("there must be at least as many servers as organisations")
        if self.staff < self.organisations:
            raise ValueError("there must be at least as many staff as organisations")
        if self.n_pods > MAX_PODS:
            raise ValueError(f"there can be at most {MAX_PODS} pods in all")
        return self

    @property
    def n_pods(self) -> int:
        """Pods in all."""
        return self.servers * self.pods
