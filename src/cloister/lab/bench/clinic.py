"""The clinic world at the paper's size: how fast pods stream, and that memory does not grow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.lab.bench import Advance, Figures, peak_memory_mb, timed

__all__ = ["run", "stream_documents"]

PAPER: Final = ClinicSettings(servers=50, pods=9_500)  # ESPRESSO, table 2
N_SOME: Final = 10_000
REPORT_EVERY: Final = 1_000


def run(advance: Advance) -> Figures:
    """Make all 475,000 records in a fresh process; compare its memory with that of a short run."""
    short = _in_fresh_process(N_SOME, lambda done: None)
    whole = _in_fresh_process(PAPER.n_pods, lambda done: advance(done, PAPER.n_pods))
    world = ClinicWorld(PAPER)
    world.grades(world.queries[0], 0, 1)  # compile, or load what was compiled
    with timed() as rights:
        for _ in world.pods(0, N_SOME):
            pass
    with timed() as grades:
        world.grades(world.queries[0], 0, PAPER.n_pods)
    return {
        "documents": whole["documents"],
        "gb": whole["bytes"] / 1e9,
        "cpu_s": whole["cpu_s"],
        "documents_per_core_s": whole["documents"] / whole["cpu_s"],
        "mb_per_core_s": whole["bytes"] / 1e6 / whole["cpu_s"],
        "mean_document_bytes": whole["bytes"] / whole["documents"],
        "peak_memory_mb": whole["peak_mb"],
        "peak_memory_mb_of_10000_documents": short["peak_mb"],
        "pods_with_rights_per_core_s": N_SOME / rights.cpu_s,
        "grades_per_core_s": PAPER.n_pods / grades.cpu_s,
    }


def stream_documents(n_documents: int) -> None:
    """Make records and throw them away; print how far it is, and the figures at the end."""
    n_bytes = 0
    with timed() as timing:
        for number, document in enumerate(ClinicWorld(PAPER).documents(0, n_documents), 1):
            n_bytes += len(document.text)
            if number % REPORT_EVERY == 0:
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
    peak_mb = peak_memory_mb()
    figures = {"documents": n_documents, "bytes": n_bytes, "cpu_s": timing.cpu_s}
    sys.stdout.write(json.dumps(figures | {"peak_mb": peak_mb}) + "\n")


def _in_fresh_process(n_documents: int, report: Callable[[int], None]) -> dict[str, Any]:
    code = (
        f"from cloister.lab.bench.clinic import stream_documents; stream_documents({n_documents})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        figures: dict[str, Any] = {}
        for line in child.stdout or ():
            if line.startswith("{"):
                figures = json.loads(line)
            else:
                report(int(line))
    return figures
