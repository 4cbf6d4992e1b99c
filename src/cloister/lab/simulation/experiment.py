"""Experiments: many runs described at once, in a TOML file or on the command line.

A file has a table ``[base]`` with settings that all runs share, a table ``[vary]`` of lists (every
combination is run), tables ``[[variant]]`` with a name and settings for systems to be compared,
and ``folds`` and ``seeds``. A file without any of these holds the settings of a single run.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from cloister.core.errors import SettingsError
from cloister.core.file_errors import refused_remedy, wrong_place
from cloister.core.settings import Settings
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["Experiment", "overridden", "read_experiment"]

_OWN_LISTS: Final = {"fold": "folds", "seed": "seeds"}


class Experiment(Settings):
    """A grid of runs.

    Parameters
    ----------
    name
        For titles.
    base
        Settings that all runs share, by the names of
        :class:`~cloister.lab.simulation.settings.SimulationSettings`.
    vary
        Lists of values by setting; every combination is run. A variant that sets one of these
        itself keeps its own value.
    variant
        Systems to be compared: each a ``name`` and the settings that make it.
    folds
        Numbers from 1, or ``"all"``; that of the base unless given.
    seeds
        A list, or how many from the base's seed on; that of the base unless given.
    baseline
        The system that others are compared with; the first unless given.
    panel
        The setting that divides tables and learning curves into parts.

    Examples
    --------
    >>> Experiment(base={"data": "world:features"}, vary={"ranker": ["linear", "mlp"]}, seeds=5)
    Experiment(...)
    >>> Experiment(base={"data": "world:features", "client": 3})
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: base.client: unknown setting (given: 3); known: ...
    """

    name: str = ""
    base: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    variant: tuple[dict[str, Any], ...] = ()
    folds: tuple[int, ...] | Literal["all"] = ()
    seeds: tuple[int, ...] | int = ()
    baseline: str = ""
    panel: str = "click_model"

    @property
    def is_single(self) -> bool:
        """Whether it describes one run and no grid."""
        return not (self.vary or self.variant or self.folds or self.seeds != ())

    @field_validator("folds", mode="before")
    @classmethod
    def _folds_are_numbers(cls, folds: object) -> object:
        if folds != "all" and not _are_whole(folds, least=1):
            raise SettingsError(
                f"wrong (given: {folds!r})", where="folds", remedy='write [1, 2] or "all"'
            )
        return folds

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds_are_numbers(cls, seeds: object) -> object:
        if not (_are_whole(seeds, least=0) or _are_whole([seeds], least=1)):
            raise SettingsError(
                f"wrong (given: {seeds!r})",
                where="seeds",
                remedy="write a list such as [1, 2, 3], or how many seeds there are to be",
            )
        return seeds

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        _require_known("base", self.base)
        _require_known("vary", self.vary)
        for field, values in self.vary.items():
            if field in _OWN_LISTS:
                raise _belongs_elsewhere("vary", field)
            if not values:
                raise SettingsError("an empty list", where=f"vary.{field}")
        self._check_variants()
        if self.panel not in SimulationSettings.model_fields or self.panel in _OWN_LISTS:
            raise _unknown("panel", self.panel)
        return self

    def _check_variants(self) -> None:
        names: list[str] = []
        for position, variant in enumerate(self.variant, 1):
            name = variant.get("name")
            if not isinstance(name, str) or not name:
                raise SettingsError("a variant needs a name", where=f"variant {position}")
            if name in names:
                raise SettingsError("given to two variants", where=f"variant {name}")
            names.append(name)
            _require_known(f"variant {name}", _settings_of(variant))
            for field in _OWN_LISTS:
                if field in variant:
                    raise _belongs_elsewhere(f"variant {name}", field)


def _settings_of(variant: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in variant.items() if field != "name"}


def _are_whole(values: object, *, least: int) -> bool:
    return isinstance(values, list | tuple) and all(
        isinstance(value, int) and not isinstance(value, bool) and value >= least
        for value in values
    )


def _require_known(where: str, fields: Iterable[str]) -> None:
    for field in fields:
        if field not in SimulationSettings.model_fields:
            value = fields[field] if isinstance(fields, Mapping) else ""
            raise _unknown(f"{where}.{field}", value)


def _unknown(where: str, value: object) -> SettingsError:
    known = ", ".join(SimulationSettings.model_fields)
    return SettingsError(f"unknown setting (given: {value})", where=where, remedy=f"known: {known}")


def _belongs_elsewhere(where: str, field: str) -> SettingsError:
    return SettingsError(
        "cannot be set here", where=f"{where}.{field}", remedy=f"use {_OWN_LISTS[field]}"
    )


def read_experiment(path: str | Path) -> Experiment:
    """Read an experiment from TOML, or from the JSON of an experiment or of a run that was kept.

    Raises
    ------
    NotFound
        There is no such file.
    SettingsError
        It cannot be read, or holds an unknown name or a wrong value.
    """
    path = Path(path)
    fields = _parsed(path)
    if "settings" in fields and "summary" in fields:  # what was kept of a run
        fields = fields["settings"]
    is_whole = bool(set(fields) & set(Experiment.model_fields))
    try:
        return Experiment(**fields) if is_whole else Experiment(base=fields)
    except SettingsError as error:
        where = error.where if is_whole else error.where.removeprefix("base.")
        raise SettingsError(error.what, where=f"{path}: {where}", remedy=error.remedy) from None


def _parsed(path: Path) -> dict[str, Any]:
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        fields = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong_place(error, path) or SettingsError(
            f"cannot be read: {error.strerror}", where=str(path), remedy=refused_remedy(error)
        ) from None
    except ValueError as error:  # of either format, or of UTF-8
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise SettingsError(
            f"not a {kind} file: {error}", where=str(path), remedy="correct the file"
        ) from None
    if not isinstance(fields, dict):
        raise SettingsError("not a table of settings", where=str(path))
    return fields


def overridden(experiment: Experiment, fields: Mapping[str, Any]) -> Experiment:
    """Return an experiment in which these settings hold for every run.

    Examples
    --------
    >>> grid = Experiment(base={"data": "a"}, vary={"clients": [10, 20]}, seeds=3)
    >>> changed = overridden(grid, {"clients": 50, "seed": 7})
    >>> changed.base, changed.vary, changed.seeds
    ({'data': 'a', 'clients': 50, 'seed': 7}, {}, 3)
    """
    _require_known("given", fields)
    for variant in experiment.variant:
        for field in fields:
            if field in variant:
                raise SettingsError(
                    f"the variant {variant['name']!r} has its own value", where=field,
                    remedy="change the file, or leave this setting to it",
                )  # fmt: skip
    changed = experiment.model_dump()
    changed["base"] |= dict(fields)
    changed["vary"] = {name: vals for name, vals in experiment.vary.items() if name not in fields}
    for field, own in _OWN_LISTS.items():
        if field in fields and not isinstance(changed[own], int):
            changed[own] = ()  # one fold, or one seed, in the place of a list
    return Experiment(**changed)
