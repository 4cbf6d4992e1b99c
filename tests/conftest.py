"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Kernels compile at their first call: a time limit for one example would measure the compiler.
settings.register_profile("cloister", deadline=None)
settings.load_profile("cloister")

# A thread of a kernel that waits shall sleep. It spins otherwise, and where the tests' processes
# share the cores, it takes the time of the thread that it waits for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests out of the user's cache."""
    monkeypatch.setenv("CLOISTER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Find a real collection, or skip the test and say why."""

    def find(name: str) -> Path:
        root = Path(os.environ.get("CLOISTER_DATA", _BESIDE))
        if not (root / name).exists():
            pytest.skip(f"no real data: {name} is neither in $CLOISTER_DATA nor in ../shared/data")
        return root / name

    return find
