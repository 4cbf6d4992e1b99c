"""Sites and coordinators from their files, and what is refused."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from cloister.app.federation_commands import app
from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.data.clicks import click_model
from cloister.data.partitions import iid
from cloister.data.source import load_fold
from cloister.federate.engines.coordinator_file import opened_federation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.roster import FederationRoster
from cloister.federate.engines.site_file import opened_site
from cloister.federate.fpdgd import FPDGD
from cloister.federate.population import Population
from cloister.privacy.identity import SigningIdentity
from cloister.rank.ranker import Ranker
from federate.engines.made_files import N_CLIENTS, SEED, WORLD, agreement, write_federation


def trained(folder: Path, n_rounds: int) -> np.ndarray:
    """Open everything, train, close everything."""
    with ExitStack() as stack:
        files = {path.stem: path for path in folder.glob("clinic-*.toml")}
        sites = {name: stack.enter_context(opened_site(path)) for name, path in files.items()}
        engine = InProcessEngine({site.site_id: site for site in sites.values()})
        federation = stack.enter_context(opened_federation(folder / "coordinator.toml", engine))
        for _ in range(n_rounds):
            federation.step()
        return federation.model


def test_a_federation_from_files_trains_what_a_simulation_trains_and_goes_on_when_opened_again(
    tmp_path: Path,
) -> None:
    write_federation(tmp_path)
    train = load_fold(WORLD).train
    learner = FPDGD(
        Population(iid(train, N_CLIENTS), click_model("perfect", 5)),
        Ranker.initial(agreement().ranker),
        seed=SEED,
    )
    for _ in range(3):
        learner.step()
    trained(tmp_path, 2)
    model = trained(tmp_path, 1)
    np.testing.assert_allclose(model, learner.ranker.parameters, rtol=0, atol=1e-5)


def test_updates_are_kept_for_unlearning_where_the_file_says_so(tmp_path: Path) -> None:
    agreed = agreement(secure_aggregation=False)
    write_federation(tmp_path, agreed, keep_every=1)
    trained(tmp_path, 2)
    with opened_federation(tmp_path / "coordinator.toml", InProcessEngine({})) as federation:
        kept = federation.kept_updates
        assert kept is not None
        assert [len(one.clients) for one in kept.kept_rounds()] == [3, 3]


def test_a_key_that_is_not_the_rosters_is_refused(tmp_path: Path) -> None:
    sites = write_federation(tmp_path)
    (tmp_path / "clinic-a.key").unlink()
    SigningIdentity.generate().save(tmp_path / "clinic-a.key")
    with pytest.raises(SettingsError, match="another public key"), opened_site(sites["clinic-a"]):
        pass


def test_a_site_that_is_no_member_is_refused(tmp_path: Path) -> None:
    path = write_federation(tmp_path)["clinic-a"]
    path.write_text(path.read_text().replace('"clinic-a"', '"clinic-x"', 1))
    with pytest.raises(NotFound, match="no such member"), opened_site(path):
        pass


@pytest.mark.parametrize(
    "broken",
    [b"", b"{", b'{"name": "x"}', b"\xff", b'{"name": "A b", "agreement": {}, "members": []}'],
)
def test_what_is_no_roster_is_refused(tmp_path: Path, broken: bytes) -> None:
    (tmp_path / "roster.json").write_bytes(broken)
    with pytest.raises(DataError, match="not a roster"):
        FederationRoster.from_json(tmp_path / "roster.json")


def test_an_operator_excludes_and_readmits_sites_by_the_coordinators_file(tmp_path: Path) -> None:
    write_federation(tmp_path, agreement())
    file = str(tmp_path / "coordinator.toml")

    def asked(*words: str) -> Result:
        return CliRunner().invoke(app, [*words])

    assert asked("exclude", file, "clinic-a").exit_code == 0
    assert "named: clinic-a" in asked("status", file).output
    assert asked("readmit", file, "clinic-a").exit_code == 0
    assert "clinic-a" not in asked("status", file).output
    assert asked("resume", file).exit_code == 0
    for wrong in ("exclude", "readmit"):
        refused = asked(wrong, file, "nobody")
        assert (refused.exit_code, "nobody" in refused.output) == (2, True)
    assert asked("pause", file).exit_code == 2
