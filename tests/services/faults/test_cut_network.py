"""A node in a network namespace of its own: the link to it is cut and mended, slow and fast again.

Two namespaces are joined by a pair of virtual Ethernet devices; their addresses exist nowhere else.
The kernel at hand has no ``netem``, so a relay in front of the node delays what passes.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from cloister.privacy.ledger.ledger import Ledger
from cloister.services.federation_folder import COORDINATOR, FederationFolder
from cloister.store.database import Database
from services.faults.training import EVERY_S, NODES, Training, made_training
from services.processes import Processes, wait_until

NEAR, FAR = "10.231.77.1", "10.231.77.2"
AWAY = "clinic-c"
TIMEOUT_S = 3.0
SCHEDULE = f"\n[schedule]\nround_every_s = {EVERY_S}\ntimeout_s = {TIMEOUT_S}\n"
RELAY = Path(__file__).with_name("delaying_relay.py")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="network namespaces need root and the program ip",
)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


class Link:
    """Two namespaces and the link between them."""

    def __init__(self) -> None:
        name = secrets.token_hex(3)
        self.near, self.far = f"cloister-near-{name}", f"cloister-far-{name}"

    def __enter__(self) -> Link:
        try:
            for space in (self.near, self.far):
                ip("netns", "add", space)
                ip("-n", space, "link", "set", "lo", "up")
            ip(
                "-n",
                self.near,
                "link",
                "add",
                "v0",
                "type",
                "veth",
                "peer",
                "v1",
                "netns",
                self.far,
            )
            for space, device, address in ((self.near, "v0", NEAR), (self.far, "v1", FAR)):
                ip("-n", space, "address", "add", f"{address}/30", "dev", device)
                ip("-n", space, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            pytest.skip(f"no network namespaces here: {error.stderr.decode()[:200]}")
        return self

    def __exit__(self, *error: object) -> None:
        for space in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    @contextmanager
    def cut(self) -> Iterator[None]:
        ip("-n", self.far, "link", "set", "v1", "down")
        try:
            yield
        finally:
            ip("-n", self.far, "link", "set", "v1", "up")


class DistantTraining(Training):
    """A training that cannot be asked from here: its database says how it stands."""

    def __init__(
        self, folder: FederationFolder, processes: Processes, link: Link, delay: Path
    ) -> None:
        super().__init__(folder, processes)
        self.link = link
        self._delay = delay

    def n_rounds(self) -> int:
        return len(self.rounds()) - 1

    def counted_last(self) -> tuple[str, ...]:
        return self.rounds()[-1].sites

    def wait_for(self, *, back: bool) -> None:
        """Wait until the distant node is counted, or not any more."""
        wait_until(lambda: (AWAY in self.counted_last()) == back, 40)

    def slow(self, seconds: float) -> None:
        self._delay.with_suffix(".new").write_text(str(seconds), encoding="utf-8")
        self._delay.with_suffix(".new").rename(self._delay)

    def pauses_s(self, first: int) -> list[float]:
        """Return how long each round from ``first`` on came after the one before."""
        with Database.open(self.state(COORDINATOR)) as database:
            entries = Ledger(database).entries()
        times = [datetime.fromisoformat(one.recorded_at) for one in entries]
        pauses = [(later - before).total_seconds() for before, later in pairwise(times)]
        return pauses[first - 1 :]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DistantTraining]:
    place = tmp_path_factory.mktemp("cut-network")
    delay = place / "delay"
    folder = made_training(
        place / "f", settings={COORDINATOR: SCHEDULE}, host=NEAR, hosts={AWAY: FAR}
    )
    file = folder.file(AWAY)  # it listens behind the relay
    file.write_text(file.read_text().replace(f'host = "{FAR}"', 'host = "127.0.0.1"'))
    port = folder.url(AWAY).rpartition(":")[2]
    with Link() as link:
        inside = dict.fromkeys((COORDINATOR, *NODES), ("ip", "netns", "exec", link.near))
        inside[AWAY] = ("ip", "netns", "exec", link.far)
        relay = [*inside[AWAY], sys.executable, str(RELAY), FAR, "127.0.0.1", port, str(delay)]
        with (
            Processes(folder, faulty=True, prefix=inside) as processes,
            subprocess.Popen(relay, stdout=subprocess.PIPE) as passing,
        ):
            found = DistantTraining(folder, processes, link, delay)
            found.slow(0.0)
            processes.launch(AWAY)
            processes.start(COORDINATOR, *NODES[:2])
            found.wait_for(back=True)
            yield found
            for service in (COORDINATOR, *NODES):
                processes.kill(service)
            passing.kill()


def test_a_link_that_is_cut_in_mid_round_costs_one_timeout(training: DistantTraining) -> None:
    with ExitStack() as cut:
        with training.held_at(AWAY, "before mask_input"):
            before = training.n_rounds()  # the round under way has all three nodes in it
            cut.enter_context(training.link.cut())
        training.wait_round(before + 6)
        pauses = training.pauses_s(before)
    without = [one for one in training.rounds()[before + 1 :] if AWAY not in one.sites]
    assert len(without) >= 6
    assert pauses[0] >= TIMEOUT_S * 0.9  # it was waited for once,
    assert max(pauses[1:6]) < TIMEOUT_S  # and then left alone
    training.wait_for(back=True)
    training.check(before)
    assert training.uncounted(AWAY, before) <= 1  # it masked an input that could not leave


def test_a_slow_link_is_waited_for_and_one_that_is_too_slow_is_not(
    training: DistantTraining,
) -> None:
    before = training.n_rounds()
    training.slow(0.1)
    training.wait_round(before + 3)
    assert AWAY in training.counted_last()
    training.slow(2 * TIMEOUT_S)
    training.wait_for(back=False)
    since = training.n_rounds()
    training.wait_round(since + 4)
    assert max(training.pauses_s(since + 1)[:3]) < TIMEOUT_S
    training.slow(0.0)
    training.wait_for(back=True)
    training.check(before)
