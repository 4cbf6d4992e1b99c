"""The clinic world: how fast pods stream, and that memory does not grow with them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["peak_memory_mb", "run", "stream_pods"]

N_PODS: Final = 10_000
PAPER_PODS: Final = 475_000  # 50 servers of 9,500 pods


def run(advance: Advance) -> Figures:
    """Make 10,000 records on one core; compare peak memory at two sizes."""
    world = ClinicWorld(ClinicSettings(servers=50, pods=9_500))
    next(world.documents())
    with timed() as timing:
        n_bytes = 0
        for number, document in enumerate(world.documents(0, N_PODS), 1):
            n_bytes += len(document.text)
            if number % 100 == 0:
                advance(number, N_PODS)
    with timed() as rights:
        for _ in world.pods(0, N_PODS):
            pass
    with timed() as grades:
        world.grades(world.queries[0], 0, N_PODS)
    rate = N_PODS / timing.cpu_s
    return {
        "documents_per_core_s": rate,
        "mb_per_core_s": n_bytes / 1e6 / timing.cpu_s,
        "mean_document_bytes": n_bytes / N_PODS,
        "pods_with_rights_per_core_s": N_PODS / rights.cpu_s,
        "grades_per_core_s": N_PODS / grades.cpu_s,
        "estimated_minutes_for_475000_pods": PAPER_PODS / rate / 60,
        "peak_memory_mb_after_1000_pods": peak_memory_mb(1_000),
        "peak_memory_mb_after_10000_pods": peak_memory_mb(N_PODS),
    }


def stream_pods(n_pods: int) -> None:
    """Make records and throw them away."""
    for _ in ClinicWorld(ClinicSettings(servers=50, pods=9_500)).documents(0, n_pods):
        pass


def peak_memory_mb(n_pods: int) -> float:
    """Return the peak memory of a fresh process that streams some pods."""
    code = (
        "import resource; from cloister.lab.bench.clinic import stream_pods; "
        f"stream_pods({int(n_pods)}); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ
    )
    return int(done.stdout) / 1024
