"""The coordinator is killed (-9) around each stage of a round, and goes on when it is started."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from services.faults.training import NODES, Training, made_training, running_training

POINTS = (
    "calling advertise_keys",  # the attempt is written down, nobody was told
    "called advertise_keys",
    "called share_keys",
    "called mask_input",  # all masked inputs are here, and lost
    "called sign_survivors",
    "calling reveal_shares",
    "called reveal_shares",  # the sum could be formed
    "committing",
    "committed",
)
RELEASED = POINTS.index("called mask_input")


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    folder = made_training(tmp_path_factory.mktemp("killed-coordinator") / "f")
    with running_training(folder) as found:
        yield found


@pytest.mark.parametrize("point", POINTS)
def test_a_coordinator_that_is_killed_begins_its_round_again_and_counts_nobody_twice(
    training: Training, point: str
) -> None:
    training.wait_all_nodes()
    training.die_at("coordinator", point)
    dead = training.rounds()
    training.processes.start("coordinator")
    training.wait_all_nodes()
    rounds = training.check(len(dead) - 2)
    assert len(rounds) > len(dead)
    for then, now in zip(dead, rounds, strict=False):  # what was on the disk is there still
        np.testing.assert_array_equal(now.model, then.model)
    died_in = len(dead) - 1  # the round under way, or the next one if it was committed
    for node in NODES:
        n_attempts = sum(
            f", round {died_in + 1}, " in purpose for purpose in training.purposes(node)
        )
        is_again = RELEASED <= POINTS.index(point) < POINTS.index("committed")
        assert n_attempts == (2 if is_again else 1)  # each attempt is a release of its own


def test_a_coordinator_that_is_started_again_in_mid_session_begins_a_new_one(
    training: Training,
) -> None:
    training.wait_all_nodes()
    with training.held_at("clinic-a", "before mask_input"):
        number = training.n_rounds()
        training.processes.kill("coordinator")
        training.processes.start("coordinator")
        training.wait_round(number + 1)  # the round begins again, while a call of the old session
    training.wait_all_nodes()  # still waits at a node: it comes too late
    training.check(number)
    released = [one for one in training.purposes("clinic-a") if f", round {number + 1}, " in one]
    assert released == [f"pilot, round {number + 1}, attempt 2"]
