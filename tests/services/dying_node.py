"""A service that kills itself (-9) in the middle of a round, once a file in its folder says so.

It dies after its users' pages were taken for the round and before its masked sum has left.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from cloister.federate.engines.site import Site
from cloister.services.running import main

DIE = "die"


def _arm(folder: Path) -> None:
    whole = Site._vector

    def vector(self: Site, *args: Any) -> Any:
        found = whole(self, *args)
        if (folder / DIE).exists():
            (folder / DIE).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    Site._vector = vector  # type: ignore[method-assign]


if __name__ == "__main__":
    _arm(Path(sys.argv[1]).parent)
    sys.exit(main())
