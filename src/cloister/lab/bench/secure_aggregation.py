"""Secure aggregation: processor time a client and at the server, with a tenth dropping out.

All clients run, one after the other, in this process; the server adds up vectors as they come. A
tenth of the clients falls silent after sharing keys, which costs the server most: it must open
their mask keys and rebuild every mask that they had with survivors. The time given for a client is
that of one who stays. Every message is written as bytes by one side and read by the other; both are
in the figures, the network is not. The sum is compared with the exact one. The limits add up the
operations that the protocol cannot do without, each measured by itself on the same machine.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.lab.bench import Advance, Figures, peak_memory_mb
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.secure_aggregation import FixedPoint, Session, Stage, run_round
from cloister.privacy.secure_aggregation.keys import MASK, KeyPair
from cloister.privacy.secure_aggregation.masks import MaskStream

__all__ = ["run"]

SIZES: Final = ((100, 136), (1_000, 100_000))  # clients x values
DROPOUTS: Final = 0.1
COLLUDERS: Final = 0.05
BEFORE_DROPOUTS: Final = ("advertise keys", "share keys")  # stages of all clients
REPEATS: Final = {100: 5, 1_000: 1}  # the fastest counts: other programs can only slow a run down


def run(advance: Advance) -> Figures:
    """Measure both sizes, and the limits."""
    n_steps = sum(n * REPEATS[n] for n, _ in SIZES)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        advance(min(done, n_steps), n_steps)

    figures = _limits()
    for n_clients, n_values in SIZES:
        rounds = [_Measured(n_clients, n_values, step) for _ in range(REPEATS[n_clients])]
        best = min(rounds, key=lambda measured: measured.total_s)
        figures |= best.figures(figures)
    advance(n_steps, n_steps)
    return figures | {"peak_memory_mb": peak_memory_mb()}


class _Measured:
    """One round, measured by side and stage."""

    def __init__(self, n_clients: int, n_values: int, step: Callable[[], None]) -> None:
        self.size = (n_clients, n_values)
        self.cpu_s: dict[tuple[str, str], float] = defaultdict(float)
        n_dropouts = int(DROPOUTS * n_clients)
        self.n_survivors = n_clients - n_dropouts
        names = [f"client-{number:05d}" for number in range(n_clients)]
        self.session = Session.new(
            names,
            n_values=n_values,
            fixed_point=FixedPoint(bound=1.0, scale_bits=40),
            min_survivors=self.n_survivors,
            n_colluders=int(COLLUDERS * n_clients),
        )
        dropped = stream(1, "bench dropouts", n_clients).permutation(names)[:n_dropouts].tolist()
        exact = np.zeros(n_values, np.uint64)

        def input_of(name: str, n_sharers: int) -> NDArray[np.float64]:
            vector = stream(2, "bench input", name).uniform(-1.0, 1.0, n_values)
            np.add(exact, self.session.fixed_point.encode(vector), out=exact)
            return vector

        found = run_round(
            self.session,
            {name: SigningIdentity.generate() for name in names},
            input_of,
            dropouts=dict.fromkeys(dropped, Stage.MASK_INPUT),
            clock=self._clock,
            advance=step,
        )
        if len(found.client_ids) != self.n_survivors or not np.array_equal(found.total, exact):
            raise DataError("the sum is wrong", where="bench secure-aggregation")

    @property
    def total_s(self) -> float:
        """All processor time of the round."""
        return sum(self.cpu_s.values())

    def figures(self, limits: Figures) -> Figures:
        """Return milliseconds of a client that stays, and seconds at the server, by stage."""
        n_clients, n_values = self.size
        prefix = f"{n_clients}x{n_values}"
        plan = self.session.plan(n_clients)
        client_ms = {
            stage: 1e3 * seconds / (n_clients if stage in BEFORE_DROPOUTS else self.n_survivors)
            for (side, stage), seconds in self.cpu_s.items()
            if side == "client"
        }
        server_s = {
            stage: seconds for (side, stage), seconds in self.cpu_s.items() if side == "server"
        }
        client_limit = _client_limit_ms(plan.n_holders, plan.threshold, n_values, limits)
        server_limit = _server_limit_s(n_clients, plan.n_holders, n_values, limits)
        return {
            f"{prefix}_holders": plan.n_holders,
            f"{prefix}_threshold": plan.threshold,
            f"{prefix}_client_cpu_ms": sum(client_ms.values()),
            f"{prefix}_client_limit_cpu_ms": client_limit,
            f"{prefix}_server_cpu_s": sum(server_s.values()),
            f"{prefix}_server_limit_cpu_s": server_limit,
            f"{prefix}_sum_exact": True,
            **{f"{prefix}_client_{_key(s)}_cpu_ms": value for s, value in client_ms.items()},
            **{f"{prefix}_server_{_key(s)}_cpu_s": value for s, value in server_s.items()},
        }

    @contextmanager
    def _clock(self, side: str, stage: str) -> Iterator[None]:
        begin = time.process_time()
        yield
        self.cpu_s[side, stage] += time.process_time() - begin


def _key(stage: str) -> str:
    return stage.replace(" ", "_")


def _client_limit_ms(n_holders: int, threshold: int, n_values: int, limits: Figures) -> float:
    """Add up what a client must at least do: two agreements and a mask a neighbour, signatures."""
    n_peers = n_holders - 1
    agreements_us = (2 * n_peers + 2) * limits["x25519_agreement_us"]
    signatures_us = (n_peers + threshold - 1) * limits["ed25519_verification_us"]
    masks_us = n_holders * n_values * 8 / limits["aes_256_ctr_mb_per_s"]
    return float(agreements_us + signatures_us + masks_us) / 1e3


def _server_limit_s(n_clients: int, n_holders: int, n_values: int, limits: Figures) -> float:
    """Add up what the server must at least do, with a tenth of all pairs half gone."""
    n_dropped = int(DROPOUTS * n_clients)
    n_pairs = n_dropped * n_holders * (1 - DROPOUTS)
    masks_us = (n_pairs + n_clients - n_dropped) * n_values * 8 / limits["aes_256_ctr_mb_per_s"]
    signatures_us = (2 * n_clients - n_dropped) * limits["ed25519_verification_us"]
    return float(masks_us + signatures_us + n_pairs * limits["x25519_agreement_us"]) / 1e6


def _limits() -> Figures:
    """Measure the operations that the protocol is made of, each by itself."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    pair, peer, identity = KeyPair.generate(), KeyPair.generate(), SigningIdentity.generate()
    directory = Directory({"a": identity.public})
    signature = identity.sign(b"bench", b"message")
    zeros, room = bytes(8 * 32_768), bytearray(8 * 32_768 + 15)
    cipher = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()
    vector, masks = np.zeros(100_000, np.uint64), MaskStream(100_000)
    ctr_s = _fastest_s(lambda: cipher.update_into(zeros, room), 50)
    mask_s = _fastest_s(lambda: masks.add(vector, bytes(32)), 20)
    agree_s = _fastest_s(lambda: pair.agree(peer.public, MASK, bytes(32), 0, 1), 50)
    verify_s = _fastest_s(lambda: directory.verify("a", b"bench", b"message", signature), 50)
    return {
        "aes_256_ctr_mb_per_s": len(zeros) / ctr_s / 1e6,
        "mask_of_100000_values_us": mask_s * 1e6,
        "x25519_agreement_us": agree_s * 1e6,
        "ed25519_verification_us": verify_s * 1e6,
    }


def _fastest_s(work: Callable[[], object], n_calls: int, repeats: int = 10) -> float:
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(n_calls):
            work()
        times.append((time.process_time() - begin) / n_calls)
    return min(times)
