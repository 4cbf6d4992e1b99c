"""Startup kits: what is in them, what they allow, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cloister.core.errors import NotFound, SettingsError
from cloister.federate.engines.nvflare.job_folder import SITE_CLASSES, write_job
from cloister.federate.engines.nvflare.kit_keeper import kept_command
from cloister.federate.engines.nvflare.kit_processes import kit_process, start_kit, stop_kit
from cloister.federate.engines.nvflare.kits import (
    KitProject,
    Kits,
    find_kits,
    kits_with_processes,
    link_files,
    make_kits,
    read_kit,
)
from federate.engines.nvflare.made_nvflare import free_port

SITES = ("clinic-a", "clinic-b")


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Kits:
    return make_kits(tmp_path_factory.mktemp("made") / "kits", KitProject(sites=SITES, port=9))


def test_each_participant_has_a_certificate_of_its_own_by_one_authority(kits: Kits) -> None:
    files = {
        "localhost": kits.server / "startup" / "server.crt",
        "operator@cloister.local": kits.operator / "startup" / "client.crt",
        **{name: kit / "startup" / "client.crt" for name, kit in kits.sites.items()},
    }
    root = x509.load_pem_x509_certificate((kits.server / "startup" / "rootCA.pem").read_bytes())
    for name, file in files.items():
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        [own] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        assert own.value == name
        certificate.verify_directly_issued_by(root)


def test_private_keys_are_for_their_owner_alone(kits: Kits) -> None:
    folder = kits.server.parent
    keys = list(folder.glob("*/startup/*.key"))
    assert len(keys) == 4
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)
    for part in (folder, folder / "authority", kits.server, *kits.sites.values()):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def test_connections_are_mutual_tls_and_jobs_are_signed(kits: Kits) -> None:
    server = _json(kits.server / "startup" / "fed_server.json")
    sites = [_json(kit / "startup" / "fed_client.json") for kit in kits.sites.values()]
    assert server["servers"][0]["connection_security"] == "mtls"
    assert all(site["client"]["connection_security"] == "mtls" for site in sites)
    inside = [_json(k / "local" / "comm_config.json") for k in (kits.server, *kits.sites.values())]
    assert {c["internal"]["resources"]["connection_security"] for c in inside} == {"mtls"}
    assert all(config["require_signed_jobs"] for config in (server, *sites))


def test_a_site_runs_two_classes_and_sends_no_log(kits: Kits) -> None:
    resources = _json(kits.sites["clinic-a"] / "local" / "resources.json")
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert tuple(resources["class_allow_list"]) == SITE_CLASSES
    assert resources["allow_log_streaming"] is False
    assert "log" not in json.dumps([part["id"] for part in resources["components"]])


@pytest.mark.parametrize(
    ("right", "at_site", "at_server"),
    [
        ("submit_job", True, True),
        ("app_command", False, True),
        ("byoc", False, False),
        ("shell_commands", False, False),
        ("operate", False, False),
        ("download_job", False, False),
    ],
)
def test_what_the_operator_may_do(kits: Kits, right: str, at_site: bool, at_server: bool) -> None:
    assert _allowed(kits.sites["clinic-a"], right) is at_site
    assert _allowed(kits.server, right) is at_server


def test_jobs_and_snapshots_stay_in_the_servers_kit(kits: Kits) -> None:
    text = (kits.server / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in text
    assert str(kits.server / "jobs") in text


def test_kits_are_found_again_and_know_whose_they_are(kits: Kits) -> None:
    folder = kits.server.parent
    assert find_kits(folder) == kits
    assert read_kit(kits.sites["clinic-b"]).name == "clinic-b"
    wanted = [kits.server, *kits.sites.values()]
    assert kits_with_processes([folder]) == kits_with_processes(reversed(wanted)) == wanted
    command = kept_command(kits.sites["clinic-b"], read_kit(kits.sites["clinic-b"]))
    assert "uid=clinic-b" in command


def test_what_is_no_kit_or_has_no_process_is_refused(kits: Kits, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="something already"):
        make_kits(kits.server.parent, KitProject(sites=SITES, port=9))
    with pytest.raises(SettingsError, match="no process"):
        kits_with_processes([kits.operator])
    with pytest.raises(SettingsError, match="no process"):
        kept_command(kits.operator, read_kit(kits.operator))
    with pytest.raises(NotFound):
        find_kits(tmp_path)
    with pytest.raises(NotFound):
        read_kit(tmp_path)
    with pytest.raises(NotFound, match=r"coordinator\.toml"):
        link_files(kits, tmp_path)
    with pytest.raises(SettingsError, match="different names"):
        KitProject(sites=("clinic-a", "clinic-a"), port=9)


def test_a_stale_number_of_a_process_is_no_process(kits: Kits) -> None:
    (kits.server / "keeper.pid").write_text("1\n")
    (kits.server / "process.pid").write_text("not a number\n")
    assert kit_process(kits.server) == (None, None)
    assert stop_kit(kits.server) is False


def test_a_process_without_its_keeper_is_ended_before_another_is_started(tmp_path: Path) -> None:
    project = KitProject(sites=("clinic-a",), port=free_port())
    kit = make_kits(tmp_path / "kits", project).sites["clinic-a"]
    keeper = start_kit(kit)
    try:
        orphan = kit_process(kit).process
        assert orphan is not None
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
        assert kit_process(kit) == (None, orphan)
        start_kit(kit)
        assert kit_process(kit).process not in (None, orphan)
        assert not psutil.pid_exists(orphan) or psutil.Process(orphan).status() == "zombie"
    finally:
        assert stop_kit(kit)
    assert kit_process(kit) == (None, None)


def test_a_job_brings_no_program(tmp_path: Path) -> None:
    job = write_job(tmp_path, "pilot", min_sites=2)
    assert sorted(str(path.relative_to(job)) for path in job.rglob("*") if path.is_file()) == [
        "app/config/config_fed_client.json",
        "app/config/config_fed_server.json",
        "meta.json",
    ]
    assert _json(job / "meta.json")["min_clients"] == 2


def _allowed(kit: Path, right: str) -> bool:
    """Ask NVFlare's own authorizer, with a kit's policy."""
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person

    authorizer = Authorizer(site_org=read_kit(kit).org)
    error = authorizer.load_policy(_json(kit / "local" / "authorization.json"))
    assert not error
    operator = Person("operator@cloister.local", "coordinator", "lead")
    allowed, _ = authorizer.authorize(AuthzContext(right, operator, submitter=operator))
    return bool(allowed)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
