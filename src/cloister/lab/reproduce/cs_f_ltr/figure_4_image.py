"""Figure 4 as a picture: a column for each parameter; cover rate, time and space below another."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import numpy as np

import cloister
from cloister.lab.reproduce.cs_f_ltr.rtk_trial import (
    MENDED,
    NAIVE,
    PRINTED,
    SWEEPS,
    VARIANTS,
    system_at,
)
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.quantity import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["sweep_png"]

STYLES: Final = {
    PRINTED: ("#d55e00", "--", "s"),
    MENDED: ("#0072b2", "-", "o"),
    NAIVE: ("#555555", ":", "^"),
}
ROWS: Final = (("cover_rate", "cover rate", 1.0), ("ms", "ms a query", 1.0), ("bytes", "MB", 1e-6))
DPI: Final = 150


def sweep_png(evidence: Evidence, part: str, title: str) -> bytes:
    """Draw means over repetitions; bars reach from the least to the most."""
    from matplotlib.figure import Figure  # 0.7 s; no pyplot: it keeps global state

    drawn = Figure(figsize=(12.5, 6.6), layout="constrained")
    axes = drawn.subplots(len(ROWS), len(SWEEPS), sharex="col", sharey="row", squeeze=False)
    for row, (name, label, scale) in enumerate(ROWS):
        axes[row, 0].set_ylabel(label)
        for column, parameter in enumerate(SWEEPS):
            _draw(axes[row, column], evidence, part, name, parameter, scale)
    for column, parameter in enumerate(SWEEPS):
        axes[-1, column].set_xlabel(parameter)
    for line in axes[1:].ravel():
        line.set_yscale("log")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    drawn.suptitle(title, fontsize=11)
    stream = io.BytesIO()
    about = {"Software": f"Cloister {cloister.__version__}"}
    drawn.savefig(stream, format="png", dpi=DPI, metadata=about)
    return stream.getvalue()


def _draw(
    axes: Axes, evidence: Evidence, part: str, name: str, parameter: str, scale: float
) -> None:
    values = SWEEPS[parameter]
    for variant in VARIANTS:
        colour, dash, marker = STYLES[variant]
        found = [
            np.array(list(evidence.sample(part, system, figure(name)).values())) * scale
            for system in (system_at(variant, parameter, value) for value in values)
        ]
        means = np.array([one.mean() for one in found])
        reach = np.array(
            [
                means - np.array([one.min() for one in found]),
                np.array([one.max() for one in found]) - means,
            ]
        )
        places = np.arange(len(values))
        axes.errorbar(
            places, means, yerr=np.maximum(reach, 0.0), color=colour, linestyle=dash, marker=marker,
            markersize=4, linewidth=1.3, capsize=2, label=variant,
        )  # fmt: skip
        axes.set_xticks(places, [f"{value:g}" for value in values])
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
