"""A node is killed (-9) at each stage of a round, and the training goes on without anybody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from services.faults.training import Training, made_training, running_training
from services.processes import wait_until


class Case(NamedTuple):
    """Where a node dies, whether that round counts it, and whether it had released something."""

    node: str
    point: str
    is_counted: bool
    n_uncounted: int


CASES = (
    Case("clinic-a", "before advertise_keys", False, 0),
    Case("clinic-b", "inside advertise_keys", False, 0),
    Case("clinic-c", "after advertise_keys", False, 0),
    Case("clinic-a", "before share_keys", False, 0),
    Case("clinic-b", "after share_keys", False, 0),
    Case("clinic-c", "before mask_input", False, 0),
    Case("clinic-a", "inside mask_input", False, 0),
    Case("clinic-b", "after mask_input", False, 1),  # recorded, and it may have left
    Case("clinic-c", "before sign_survivors", True, 0),
    Case("clinic-a", "after sign_survivors", True, 0),
    Case("clinic-b", "before reveal_shares", True, 0),
    Case("clinic-c", "after reveal_shares", True, 0),
)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    folder = made_training(tmp_path_factory.mktemp("killed-nodes") / "f")
    with running_training(folder) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.node} {case.point}")
def test_a_node_that_is_killed_costs_its_own_update_at_most(training: Training, case: Case) -> None:
    training.wait_all_nodes()
    before = training.n_rounds()
    training.die_at(case.node, case.point)
    training.wait_rounds(2)  # without it
    training.processes.start(case.node)
    training.wait_all_nodes()
    rounds = training.check(before)
    missed = [one.n_rounds - 1 for one in rounds[before + 1 :] if case.node not in one.sites]
    died_in = training.died_in(case.node, case.point)
    assert (died_in in missed) != case.is_counted
    assert missed == list(range(missed[0], missed[-1] + 1))  # and it was back for good
    assert training.uncounted(case.node, before) == case.n_uncounted


def test_a_node_that_is_started_again_in_mid_session_takes_no_further_part_in_it(
    training: Training,
) -> None:
    training.wait_all_nodes()
    with training.held_at("clinic-a", "before share_keys"):
        number = training.n_rounds()
        wait_until(lambda: training.n_answers("clinic-b") == 2)  # keys and shares
        training.processes.kill("clinic-b")  # what it needs to go on was in memory
        training.processes.start("clinic-b")
    training.wait_all_nodes()
    rounds = training.check(number)
    assert rounds[number + 1].sites == ("clinic-a", "clinic-c")
    assert "%s: %s was refused: %s" in training.processes.log("clinic-b")
