"""Kernels are compiled also where nothing can be kept, and give the same bits wherever they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloister.core.kernel import inline_kernel, kernel, parallel_kernel

TINY = """
import numba
import numpy as np
from cloister.core.kernel import inline_kernel, kernel, parallel_kernel

def plain(x):
    return x + 1

try:
    numba.njit(cache=True)(plain)
except RuntimeError as error:
    print(error)

@inline_kernel
def twice(x):
    return 2 * x

@kernel
def add_one(x):
    return twice(x) + 1

@parallel_kernel
def fill(out):
    for i in numba.prange(len(out)):
        out[i] = add_one(i)

out = np.zeros(3, np.int64)
fill(out)
print(out.tolist())
"""


def test_kernels_run_where_no_folder_can_be_written(tmp_path: Path) -> None:
    # A file where a folder is wanted stops everybody, also the superuser.
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "__pycache__").write_text("in the way")
    nowhere = str(tmp_path / "__pycache__" / "home")
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "LOCALAPPDATA": nowhere}
    outcome = subprocess.run(
        [sys.executable, str(tmp_path / "tiny.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    complaint, values = outcome.stdout.splitlines()
    assert "cannot cache function" in complaint  # so it was put to the test
    assert values == "[1, 3, 5]"


@pytest.mark.parametrize("compile_it", [kernel, inline_kernel, parallel_kernel])
def test_other_errors_are_not_hidden(compile_it: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**options: object) -> None:
        raise RuntimeError("the compiler is broken")

    monkeypatch.setattr("numba.njit", broken)
    with pytest.raises(RuntimeError, match="the compiler is broken"):
        compile_it(np.sum)  # type: ignore[operator]


def test_machine_code_grows_old_when_a_kernel_of_another_file_changes(tmp_path: Path) -> None:
    (tmp_path / "below.py").write_text(
        "from cloister.core.kernel import kernel\n\n\n@kernel\ndef one():\n    return 1\n"
    )
    (tmp_path / "above.py").write_text(
        "from below import one\nfrom cloister.core.kernel import kernel\n\n\n"
        "@kernel\ndef two():\n    return one() + 1\n\n\n"
        "print(two(), sum(two.stats.cache_hits.values()))\n"
    )

    def run() -> list[str]:
        outcome = subprocess.run(
            [sys.executable, str(tmp_path / "above.py")],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return outcome.stdout.split()

    assert run() == ["2", "0"]  # compiled
    assert run() == ["2", "1"]  # from the disk
    (tmp_path / "below.py").write_text(
        "from cloister.core.kernel import kernel\n\n\n@kernel\ndef one():\n    return 100\n"
    )
    assert run()[0] == "101"


SUMS = """
import sys
import numba
import numpy as np
from cloister.core.kernel import kernel, parallel_kernel
from cloister.rank.plackett_luce import mass_of_rest

@kernel
def masses(scores, page, rooms, out):
    for i in range(len(out)):
        out[i] = mass_of_rest(scores[i], scores.shape[1], page, rooms[i])[1]

@parallel_kernel
def masses_on_threads(scores, page, rooms, out):
    for i in numba.prange(len(out)):
        out[i] = mass_of_rest(scores[i], scores.shape[1], page, rooms[i])[1]

scores = np.random.default_rng(0).standard_normal((200, 90), dtype=np.float32)
page, rooms, out = np.zeros(1, np.int64), np.empty((200, 96), np.float32), np.zeros((2, 200))
numba.set_num_threads(min(int(sys.argv[1]), numba.config.NUMBA_NUM_THREADS))
if "called before" in sys.argv:
    mass_of_rest(scores[0], 90, page, rooms[0])
masses(scores, page, rooms, out[0])
masses_on_threads(scores, page, rooms, out[1])
print(out[0].tobytes().hex(), sum(masses.stats.cache_hits.values()))
print(out[1].tobytes().hex(), sum(masses_on_threads.stats.cache_hits.values()))
"""


def test_bits_depend_neither_on_who_compiles_nor_on_what_was_called_before(tmp_path: Path) -> None:
    # A kernel holds copies of those that it calls, in which sums can be ordered otherwise.
    (tmp_path / "sums.py").write_text(SUMS)

    def run(*arguments: str) -> list[list[str]]:
        outcome = subprocess.run(
            [sys.executable, str(tmp_path / "sums.py"), *arguments],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return [line.split() for line in outcome.stdout.splitlines()]

    plain, parallel = run("1")
    assert plain[1] == parallel[1] == "0"  # compiled
    from_disk = [[plain[0], "1"], [parallel[0], "1"]]
    assert run("1") == from_disk
    assert run("2") == from_disk
    assert run("1", "called before") == from_disk
