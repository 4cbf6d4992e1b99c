"""Reading a LETOR file: ours against scikit-learn's ``load_svmlight_file``."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from cloister.core.random import stream
from cloister.data.cache import SETTLED_S
from cloister.data.letor import LetorSettings, parse_letor, read_letor
from cloister.data.worlds.features import FeaturesSettings, FeaturesWorld
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["make_file", "run"]

FILE_MB: Final = 200
REPEATS: Final = 3
N_LONG_ROWS: Final = 10_000


def run(advance: Advance, file_mb: int = FILE_MB) -> Figures:
    """Make a file like MSLR-WEB's, read it by both, then open it again from the cache."""
    from sklearn.datasets import load_svmlight_file

    steps = file_mb + REPEATS + 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bench.txt")
        make_file(path, file_mb, lambda mb: advance(mb, steps))
        parse_letor(b"1 qid:1 1:0.5\n")  # compile, or load what was compiled
        ours = []
        for repeat in range(REPEATS):
            with timed() as timing:
                data = read_letor(path, LetorSettings(precision=64), cache=False)
            ours.append(timing)
            advance(file_mb + repeat + 1, steps)
        with timed() as peer:
            features, labels, _ = load_svmlight_file(str(path), query_id=True)
        same = bool(np.array_equal(features.toarray(), data.features))
        same &= bool(np.array_equal(labels, data.labels))
        cpu_s = statistics.median(timing.cpu_s for timing in ours)
        reopened_s, after_touch_s = _reopen(path, Path(folder, "cache"))
        long = _long_numbers(Path(folder, "long.txt"))
        advance(steps, steps)
        size_mb = path.stat().st_size / 1e6
    return {
        "file_mb": size_mb,
        "rows": data.n_rows,
        "features": data.n_features,
        "cloister_cpu_s": cpu_s,
        "cloister_wall_s": statistics.median(timing.wall_s for timing in ours),
        "sklearn_cpu_s": peer.cpu_s,
        "sklearn_wall_s": peer.wall_s,
        "times_faster_cpu": peer.cpu_s / cpu_s,
        "cloister_mb_per_cpu_s": size_mb / cpu_s,
        "cached_reopen_wall_s": reopened_s,
        "cached_reopen_after_touch_wall_s": after_touch_s,
        "same_values": same,
    } | long


def make_file(path: Path, file_mb: int, written: Callable[[int], None]) -> None:
    """Write rows of a features world with six decimals, as MSLR-WEB has them, up to a size."""
    world = FeaturesWorld(
        FeaturesSettings(queries=100_000, documents=125, features=136, spread=0.3)
    )
    size, number = 0, 0
    with path.open("w") as file:
        while size < file_mb * 1_000_000:
            block = world.block(number)
            number += 1
            form = "%d qid:%s " + " ".join(f"{i}:%.6f" for i in range(1, 137)) + "\n"
            for query in range(block.n_queries):
                rows = block.rows(query)
                values = block.features[rows].tolist()
                name = block.query_ids[query]
                for label, row in zip(block.labels[rows].tolist(), values, strict=True):
                    size += file.write(form % (label, name.split("-")[1], *row))
                written(min(size // 1_000_000, file_mb))
                if size >= file_mb * 1_000_000:
                    break


def _long_numbers(path: Path) -> Figures:
    """Compare on numbers of 15 to 17 digits with exponents, as Python writes doubles."""
    from sklearn.datasets import load_svmlight_file

    rng = stream(1, "bench letor", "long numbers")
    with path.open("w") as file:
        for row in range(N_LONG_ROWS):
            values = (10.0 ** rng.uniform(-12, 2, 136)).tolist()
            cells = " ".join(f"{i}:{value!r}" for i, value in enumerate(values, 1))
            file.write(f"0 qid:{row // 100 + 1} {cells}\n")
    with timed() as ours:
        data = read_letor(path, LetorSettings(precision=64), cache=False)
    with timed() as peer:
        features, _, _ = load_svmlight_file(str(path), query_id=True)
    return {
        "long_numbers_file_mb": path.stat().st_size / 1e6,
        "long_numbers_cloister_cpu_s": ours.cpu_s,
        "long_numbers_sklearn_cpu_s": peer.cpu_s,
        "long_numbers_times_faster_cpu": peer.cpu_s / ours.cpu_s,
        "long_numbers_same_values": bool(np.array_equal(features.toarray(), data.features)),
    }


def _reopen(path: Path, cache: Path) -> tuple[float, float]:
    """Time a cached reopening, and one that must check the content again."""
    before = os.environ.get("CLOISTER_CACHE")
    os.environ["CLOISTER_CACHE"] = str(cache)
    try:
        read_letor(path)
        time.sleep(SETTLED_S + 0.5)  # a file that was changed just now is always read again
        read_letor(path)
        with timed() as reopened:
            read_letor(path)
        path.touch()
        with timed() as touched:
            read_letor(path)
    finally:
        if before is None:
            del os.environ["CLOISTER_CACHE"]
        else:
            os.environ["CLOISTER_CACHE"] = before
    return reopened.wall_s, touched.wall_s
