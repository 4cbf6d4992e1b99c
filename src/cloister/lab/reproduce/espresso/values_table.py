"""All means of a table as a file, for whoever wants to draw or check them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from cloister.lab.espresso.agreement import at
from cloister.lab.reproduce.espresso.paper_tables import COLUMNS
from cloister.lab.reproduce.espresso.setting import SERVERS
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.quantity import figure
from cloister.lab.reproduce.study import Study

__all__ = ["values_csv"]


def values_csv(parts: Sequence[Study], systems: Sequence[str], evidence: Evidence) -> bytes:
    """Return means over repetitions: a line for each part, system and number of servers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "system", "servers", *COLUMNS])
    for part in parts:
        for system in systems:
            for n in SERVERS:
                means = [_mean(evidence, part.name, at(system, n), name) for name in COLUMNS]
                if not np.isnan(means).all():
                    writer.writerow([part.name, system, n, *(f"{mean:.4f}" for mean in means)])
    return text.getvalue().encode()


def _mean(evidence: Evidence, part: str, system: str, name: str) -> float:
    values = list(evidence.sample(part, system, figure(name)).values())
    return float(np.mean(values)) if values else float("nan")
