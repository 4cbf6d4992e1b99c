"""Which runs belong together: one system's runs differ in fold and seed only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final, Protocol, TypeVar

from cloister.core.errors import SettingsError
from cloister.data.worlds.address import is_world
from cloister.lab.simulation.settings import SimulationSettings

__all__ = ["NamedRun", "Panels", "by_panel_and_system", "find_baseline", "varying_settings"]

_REPEATS: Final = ("fold", "seed")


class NamedRun(Protocol):
    """A run, planned or kept: its settings, and the name of its variant if it has one."""

    @property
    def settings(self) -> SimulationSettings:
        """What decides it."""

    @property
    def system(self) -> str:
        """The name of its variant."""


Run = TypeVar("Run", bound=NamedRun)
Panels = dict[str, dict[str, list[Run]]]


def by_panel_and_system(runs: Sequence[Run], panel: str = "click_model") -> Panels[Run]:
    """Group runs by the value of one setting, and within that by system.

    A system is named by its variant and by those settings that vary among the runs of that name;
    where neither tells anything, by its method.

    Examples
    --------
    >>> from cloister.lab.simulation.experiment import Experiment
    >>> from cloister.lab.simulation.grid import planned_runs
    >>> runs = planned_runs(Experiment(base={"data": "world:features"}, seeds=3,
    ...                                vary={"ranker": ["linear", "mlp"]}))
    >>> for value, systems in by_panel_and_system(runs).items():
    ...     print(value, {name: len(group) for name, group in systems.items()})
    perfect {'ranker linear': 3, 'ranker mlp': 3}
    """
    names = _system_names(runs, panel)
    panels: Panels[Run] = {}
    for run, name in zip(runs, names, strict=True):
        value = shown(panel, getattr(run.settings, panel))
        panels.setdefault(value, {}).setdefault(name, []).append(run)
    return panels


def find_baseline(panels: Panels[Run], baseline: str = "") -> str:
    """Return the system that others are compared with: the first unless named."""
    names = list(dict.fromkeys(name for systems in panels.values() for name in systems))
    if not baseline:
        return names[0]
    if baseline not in names:
        raise SettingsError(
            f"no system {baseline!r}", where="baseline", remedy=f"there are: {'; '.join(names)}"
        )
    return baseline


def varying_settings(runs: Sequence[NamedRun]) -> list[str]:
    """Return the names of the settings that are not the same in all runs."""
    return [
        field
        for field in SimulationSettings.model_fields
        if len({getattr(run.settings, field) for run in runs}) > 1
    ]


def _system_names(runs: Sequence[NamedRun], panel: str) -> list[str]:
    groups: dict[str, list[NamedRun]] = {}
    for run in runs:
        groups.setdefault(run.system, []).append(run)
    telling = {
        name: [field for field in varying_settings(group) if field not in (*_REPEATS, panel)]
        for name, group in groups.items()
    }
    return [_system_name(run, telling[run.system]) for run in runs]


def _system_name(run: NamedRun, fields: Sequence[str]) -> str:
    """Join the variant's name, or else the method, and the values that tell it from others."""
    settings = run.settings
    values = [f"{_words(f)} {shown(f, getattr(settings, f))}" for f in fields if f != "method"]
    if run.system:
        method = [settings.method] if "method" in fields else []
        values = [run.system, *method, *values]
    elif "method" in fields or not values:
        values = [settings.method, *values]
    return ", ".join(values)


def _words(field: str) -> str:
    return field.replace("_", " ")


def shown(field: str, value: Any) -> str:
    """Write the value of a setting in few characters."""
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    if field in ("data", "test") and value and not is_world(value):
        return PurePath(value).name
    return "unset" if value is None or value == "" else str(value)
