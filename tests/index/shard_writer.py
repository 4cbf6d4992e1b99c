"""Changes a shard, one commit after the other, as a function of the commit's number alone.

Run as a program with ``forever`` it writes until it is killed, and prints each commit's number;
with ``die`` it makes one commit again and again, and each time dies one step later.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from cloister.core.ids import DocId, PodId, ServerId
from cloister.core.rights import Rights
from cloister.index.merge_policy import MergePolicy
from cloister.index.shard import IndexedDocument, Shard
from cloister.index.shard_settings import ShardSettings

SERVER = ServerId("s1")
EVERYBODY = Rights(public=True)


def opened(folder: Path) -> Shard:
    how = ShardSettings(merging=MergePolicy(per_tier=2), buffer_chars=30)
    return Shard.open(folder, server_id=SERVER, settings=how)


def text_of(version: int, number: int) -> str:
    return f"word{version} common{number} " * (number + 1)


def write_next(shard: Shard) -> int:
    """Make the commit that follows the last one: three documents added or changed, one deleted."""
    version = shard.version + 1
    shard.add(
        IndexedDocument(
            DocId(f"d{(version + n) % 7}"),
            PodId("p"),
            text_of(version, n),
            EVERYBODY,
            f"v{version}",
        )
        for n in range(3)
    )
    shard.delete([DocId(f"d{(version + 5) % 7}")])
    return shard.merge() if version % 5 == 0 else shard.commit()


def state_at(version: int) -> dict[str, str]:
    """Return the texts that a commit leaves."""
    texts: dict[str, str] = {}
    for past in range(1, version + 1):
        texts |= {f"d{(past + n) % 7}": text_of(past, n) for n in range(3)}
        texts.pop(f"d{(past + 5) % 7}", None)
    return texts


def die_at(point: int) -> None:
    """Let this process end, with nothing cleaned up, before so many steps that touch the disk."""
    left = count(point - 1, -1)

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if next(left) == 0:
                os._exit(9)
            return real(*args, **kwargs)

        return step

    os.fsync = deadly(lambda descriptor: None)
    for name in ("replace", "unlink", "mkdir"):
        setattr(Path, name, deadly(getattr(Path, name)))


def die_step_by_step(folder: Path, n_before: int) -> None:
    """Leave a folder for each step of a commit before which a process died."""
    with opened(folder / "before") as shard:
        for _ in range(n_before):
            write_next(shard)
    for point in count(1):
        shutil.copytree(folder / "before", folder / str(point))
        child = os.fork()
        if not child:
            die_at(point)
            with opened(folder / str(point)) as shard:
                write_next(shard)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 9:
            break


def write_forever(folder: Path) -> None:
    with opened(folder) as shard:
        while True:
            sys.stdout.write(f"{write_next(shard)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "die":
        for number in sys.argv[3:]:
            die_step_by_step(Path(sys.argv[2]) / number, int(number))
    else:
        write_forever(Path(sys.argv[2]))
