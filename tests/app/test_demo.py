"""The demo's story, as far as it needs no services; tests/browser runs all of it."""

from __future__ import annotations

from typing import Any

from cloister.app.demo.clinic_federation import ACCESS, NODES, PATIENTS, PRIVACY, STAFF
from cloister.app.demo.clinic_users import ClinicNeeds
from cloister.app.demo.state import DemoState, run_step
from cloister.app.demo.story import SIMULATED, STEPS
from cloister.services.sample_clinics import SampleClinics


def told(seed: int) -> list[dict[str, Any]]:
    with DemoState(seed) as state:
        return [run_step(step, state)["figures"] for step in SIMULATED]


def test_the_story_goes_from_the_index_to_what_is_forgotten() -> None:
    names = "index services search learning trial ledger poisoning forgetting privacy pods sketches"
    assert [step.name for step in STEPS] == [*names.split(), "private_cloud"]


def test_simulated_steps_give_the_same_figures_for_the_same_seed_and_others_for_another() -> None:
    one, again, other = told(1), told(1), told(2)
    assert one == again
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))


def test_a_longer_record_serves_people_in_a_hurry_less_and_held_out_queries_are_not_asked() -> None:
    clinics = SampleClinics(list(NODES), pods=12, staff=STAFF, access=ACCESS)
    needs = ClinicNeeds(clinics.world)
    lengths = [len(document.text) for document in clinics.world.documents()]
    longest, shortest = (pick(range(len(lengths)), key=lengths.__getitem__) for pick in (max, min))
    for query in (*needs.asked[:5], *needs.held_out[:5]):
        grades, served = clinics.world.grades(query), needs.of(query)
        assert served[shortest] == grades[shortest]
        assert served[longest] == max(0, grades[longest] - 2)
        assert (served <= grades).all()
    assert not set(needs.asked) & set(needs.held_out)


def test_the_agreement_has_room_for_everybody_who_has_an_account() -> None:
    a_node = STAFF + len(ACCESS) // len(NODES) + PATIENTS
    assert PRIVACY.n_users == len(NODES) * a_node
