"""Compiles what the demo runs, once, when all is set up: ``python -m cloister.app.demo.compiling``.

Kernels are compiled when they are first called and then lie on the disk. This calls them: it runs
the steps that need no services, and searches, draws and learns once as a node does at its start.
"""

from __future__ import annotations

import sys

from cloister.app.demo.clinic_life import ClinicLife
from cloister.app.demo.held_out import HeldOut
from cloister.app.demo.state import DemoState
from cloister.app.demo.story import SIMULATED
from cloister.services.node.node import opened_node
from cloister.services.service_file import NodeFile, read_service_file

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Call all kernels of the demo."""
    with DemoState(seed=1) as state:
        life = state.make_life()
        life.federation.fill()
        _warm_up(life)
        for step in SIMULATED:
            step.run(state)


def _warm_up(life: ClinicLife) -> None:
    """Do once what nodes do, and measure a ranker."""
    folder = life.federation.folder
    file = read_service_file(folder.file(life.federation.users[0].node))
    if isinstance(file, NodeFile):
        with opened_node(file) as node:
            node.warm_up()
            HeldOut(life.federation, life.needs).ndcg(node.serving.now.ranker)


if __name__ == "__main__":
    compile_kernels()
    sys.exit(0)
