"""What the tests of the authority run in other processes: ``python authority_child.py FOLDER OUT``.

One process loads the code and then forks a child for each death: child n dies before the n-th time
that it opens, links, renames or removes a file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cloister.privacy.certificates.authority import Authority

FILE_EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir"}
DIED = 7


def die_before(step: int) -> None:
    n_seen = 0

    def watch(event: str, _arguments: object) -> None:
        nonlocal n_seen
        if event in FILE_EVENTS:
            n_seen += 1
            if n_seen == step:
                os._exit(DIED)

    sys.addaudithook(watch)


def work(folder: Path, out: Path) -> None:
    """Issue, then revoke another one: every kind of change."""
    authority = Authority.open(folder)
    authority.issue("node", "clinic-b", folder=out, hosts=["localhost"])
    authority.revoke("node/clinic-a")


def main(folder: Path, out: Path) -> int:
    """Let children die at every step until one comes through; return how many died."""
    for step in range(1, 500):
        child = os.fork()
        if child == 0:
            die_before(step)
            place = out / str(step)
            place.mkdir(parents=True)
            work(folder, place)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            return step - 1
        if code != DIED:
            raise SystemExit(f"step {step}: a child ended with {code}")
    raise SystemExit("no child came through")


if __name__ == "__main__":
    Authority.open(sys.argv[1]).issue("node", "warm", folder=Path(sys.argv[2], "warm"))
    print(main(Path(sys.argv[1]), Path(sys.argv[2])))  # noqa: T201
