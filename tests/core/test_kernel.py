"""Kernels are compiled also where their machine code cannot be kept."""

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
