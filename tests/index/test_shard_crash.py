"""A writer that dies at any moment leaves the last commit, whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from cloister.core.errors import StoreError
from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import STRANGER, Rights
from cloister.index.analysis import TextAnalysis
from cloister.index.shard import IndexedDocument, Shard
from index import shard_writer
from index.shard_writer import opened, state_at, write_next


def contents(shard: Shard) -> dict[str, Counter[str]]:
    """Return what everybody may read: the terms of each document."""
    view = shard.view(STRANGER)
    found = {view.doc_id(int(number)): Counter[str]() for number in view.documents}
    for term in view.vocabulary():
        documents, counts = view.postings(term)
        for number, count in zip(documents.tolist(), counts.tolist(), strict=True):
            found[view.doc_id(number)][term] = count
    return found


def assert_whole(folder: Path, at_least: int, at_most: int) -> int:
    """Check that a folder holds exactly what one commit left, and can be written to."""
    with opened(folder) as shard:
        version = shard.version
        assert at_least <= version <= at_most
        terms = TextAnalysis().terms
        wanted = {name: Counter(terms(text)) for name, text in state_at(version).items()}
        assert contents(shard) == wanted
        write_next(shard)
        named = {state.stored.name for state in shard._last.known.segments}
        assert {path.name for path in folder.glob("segment-*")} == named
        assert not list((folder / ".incoming").iterdir())
        return version


def test_death_at_each_step_of_a_commit_leaves_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forksafe = {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, shard_writer.__file__, "die", str(tmp_path), "4", "0"]
    subprocess.run(command, check=True, env=os.environ | forksafe)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for n_before in (0, 4):  # the fifth commit merges all
        folders = [path for path in (tmp_path / str(n_before)).iterdir() if path.name.isdigit()]
        assert len(folders) > 12  # as many as a commit has steps
        found = [assert_whole(folder, n_before, n_before + 1) for folder in folders]
        assert {n_before, n_before + 1} == set(found)  # some died before, some after it held


def test_a_killed_process_leaves_the_last_commit(tmp_path: Path) -> None:
    chance = random.Random(7)
    last = 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, shard_writer.__file__, "forever", str(tmp_path / "shard")],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            last = int(child.stdout.readline())  # imports are done, it writes
            time.sleep(chance.uniform(0, 0.15))
        finally:
            child.send_signal(signal.SIGKILL)
            rest, _ = child.communicate()
        last = max([last, *(int(line) for line in rest.splitlines())])
        assert_whole(tmp_path / "shard", last, last + 1)
        last += 1


def test_a_commit_that_fails_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = Rights(public=True)
    with Shard.open(tmp_path, server_id=ServerId("s1")) as shard:
        shard.add([IndexedDocument(DocId("d1"), PodId("p"), "cough", everybody)])
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", _no_space)
            with pytest.raises(StoreError, match="No space left"):
                shard.commit()
        assert shard.version == 0
        assert not contents(shard)
        assert shard.commit() == 1
        assert contents(shard) == {"d1": {"cough": 1}}


def _no_space(descriptor: int) -> None:
    raise OSError(28, "No space left on device")
