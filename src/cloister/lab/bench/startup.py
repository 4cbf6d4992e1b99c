"""How long ``cloister --help`` takes, from the shell's point of view."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Final

from cloister.lab.bench import Advance, Figures, timed

__all__ = ["run"]

REPEATS: Final = 15


def run(advance: Advance) -> Figures:
    """Start the command fifteen times, and Python alone for comparison."""
    help_code = "import sys; sys.argv = ['cloister', '--help']; " \
                "from cloister.app.command_line import main; main()"  # fmt: skip
    commands = {"help": [sys.executable, "-c", help_code], "python": [sys.executable, "-c", ""]}
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for repeat in range(REPEATS + 1):
        for name, command in commands.items():
            with timed() as timing:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if repeat:  # the first one warms the disk cache
                walls[name].append(timing.wall_s)
        advance(repeat + 1, REPEATS + 1)
    return {
        "help_median_wall_s": statistics.median(walls["help"]),
        "help_slowest_wall_s": max(walls["help"]),
        "python_alone_median_wall_s": statistics.median(walls["python"]),
    }
