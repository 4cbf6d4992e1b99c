"""``cloister certs`` as an operator uses it, with OpenSSL as the judge."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Outcome
from app.typer_call import run_app
from cloister.app.certs_commands import app
from cloister.privacy.certificates.authority import Authority
from cloister.privacy.private_file import write_private_file


def call(*arguments: object) -> Outcome:
    return run_app(app, *arguments)


def done(*arguments: object) -> dict[str, Any]:
    outcome = call(*arguments, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    done("init", "--authority", tmp_path / "ca", "--federation", "clinics")
    return tmp_path / "ca"


def openssl_says(ca: Path, certificate: str | Path) -> str:
    trust = ["-CAfile", str(ca / "authority.pem"), "-CRLfile", str(ca / "revoked.pem")]
    command = ["openssl", "verify", *trust, "-crl_check", str(certificate)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return "OK" if checked.returncode == 0 else checked.stderr


def test_an_authority_issues_renews_and_revokes(ca: Path, tmp_path: Path) -> None:
    home = tmp_path / "clinic-a"
    hosts = ["--host", "localhost", "--host", "127.0.0.1"]
    made = done("issue", "node/clinic-a", "--authority", ca, "--out", home, *hosts)
    assert made["uri"] == "cloister://clinics/node/clinic-a"
    assert made["hosts"] == ["localhost", "127.0.0.1"]
    assert Path(made["key"]).stat().st_mode & 0o777 == 0o600
    assert openssl_says(ca, made["certificate"]) == "OK"

    target = home / "node-clinic-a.pem"
    renewed = done("renew", "node/clinic-a", "--authority", ca, "--out", target, "--days", 7)
    assert renewed["serial"] != made["serial"]
    assert openssl_says(ca, target) == "OK"

    revoked = done("revoke", made["serial"], "--authority", ca)
    assert [one["serial"] for one in revoked["revoked"]] == [made["serial"]]
    assert openssl_says(ca, target) == "OK"
    done("revoke", "node/clinic-a", "--authority", ca)
    assert "revoked" in openssl_says(ca, target)

    listed = done("list", "--authority", ca)
    assert [one["state"] for one in listed["certificates"]] == ["revoked", "revoked"]
    assert listed["federation"] == "clinics"


def test_a_nodes_key_never_leaves_it(ca: Path, tmp_path: Path) -> None:
    home, who = tmp_path / "clinic-b", "node/clinic-b"
    asked = done("request", who, "--federation", "clinics", "--out", home, "--host", "b.example")
    out = tmp_path / "signed.pem"
    place = ["--authority", ca, "--out", out]
    refused = call("sign", asked["request"], who, *place, "--json")
    assert (refused.code, "b.example" in refused.json["error"]) == (1, True)
    wrong = ["--host", "b.example", "--fingerprint", "00" * 32]
    assert (
        "not sign" in call("sign", asked["request"], who, *place, *wrong, "--json").json["remedy"]
    )
    assert not out.exists()
    right = ["--host", "b.example", "--fingerprint", asked["fingerprint"].upper()]
    signed = done("sign", asked["request"], who, *place, *right)
    assert signed["certificate"] == str(out)
    assert openssl_says(ca, out) == "OK"
    listed = done("list", "--authority", ca)["certificates"]
    assert [one["who"] for one in listed] == [who]
    assert "key" not in signed


def test_an_authority_with_a_passphrase_signs_with_it_only(tmp_path: Path) -> None:
    passphrase = tmp_path / "passphrase"
    write_private_file(passphrase, b"correct horse battery staple\n")
    ca, secret = tmp_path / "ca", ["--passphrase-file", passphrase]
    done("init", "--authority", ca, "--federation", "clinics", *secret)
    asked = ["issue", "operator/olga", "--authority", ca, "--out", tmp_path / "olga"]
    assert "passphrase" in call(*asked, "--json").json["error"]
    assert openssl_says(ca, done(*asked, *secret)["certificate"]) == "OK"
    assert done("crl", "--authority", ca, *secret)["revoked_list_ends"] > "2026"


@pytest.mark.parametrize(
    "arguments",
    [
        ["issue", "clinic-a", "--out", "x"],
        ["issue", "king/clinic-a", "--out", "x"],
        ["issue", "node/Clinic A", "--out", "x"],
        ["issue", "node/a", "--out", "x", "--host", "*"],
        ["renew", "node/nobody", "--out", "x"],
        ["revoke", "node/nobody"],
        ["sign", "no-such-file", "node/a", "--out", "x"],
    ],
    ids=lambda one: " ".join(one[:2]),
)
def test_what_cannot_be_done_is_said_with_its_remedy(
    arguments: list[str], ca: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = call(*arguments, "--authority", ca, "--json")
    assert outcome.code == 2
    assert set(outcome.json) == {"error", "remedy"}
    assert outcome.err.startswith("error: ")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_no_authority_is_told(tmp_path: Path) -> None:
    outcome = call("list", "--authority", tmp_path, "--json")
    assert "certs init" in outcome.json["remedy"]
    assert call("issue", "node/a", "--out", tmp_path).code == 2  # no authority named


def test_people_are_told_what_to_give_to_whom(ca: Path, tmp_path: Path) -> None:
    shown = call("issue", "node/a", "--authority", ca, "--out", tmp_path / "a").out
    assert "nobody else may have it" in shown
    text = call("list", "--authority", ca).out
    assert "node/a" in text
    assert "give to every service" in text
    assert (
        "read this out"
        in call("request", "node/b", "--federation", "clinics", "--out", tmp_path / "b").out
    )
    assert "revoked: node/a" in call("revoke", "node/a", "--authority", ca).out
    assert "before" in call("crl", "--authority", ca).out
    other = call("init", "--authority", tmp_path / "other", "--federation", "firms")
    assert "give to everybody" in other.out
    assert "can be everybody" in other.err


@pytest.mark.parametrize("target", ["ca/authority.key", "ca/issued.json", "ca/authority.pem",
                                    "a/node-a.key", "a/both.pem", "a"])  # fmt: skip
def test_only_a_certificate_of_a_service_is_ever_replaced(
    target: str, ca: Path, tmp_path: Path
) -> None:
    home = tmp_path / "a"
    made = done("issue", "node/a", "--authority", ca, "--out", home)
    both = Path(made["certificate"]).read_bytes() + Path(made["key"]).read_bytes()
    write_private_file(home / "both.pem", both)
    done("request", "node/b", "--federation", "clinics", "--out", tmp_path / "b")
    there = tmp_path / target
    before = there.read_bytes() if there.is_file() else None
    place = ["--authority", ca, "--out", there, "--json"]
    for command in (["renew", "node/a"], ["sign", tmp_path / "b" / "node-b.csr", "node/b"]):
        outcome = call(*command, *place)
        assert (outcome.code, outcome.json["remedy"]) == (2, "choose another file")
    assert (there.read_bytes() if there.is_file() else None) == before
    assert len(done("list", "--authority", ca)["certificates"]) == 1  # refused before signing


def test_a_certificate_is_revoked_by_the_first_digits_of_its_number(
    ca: Path, tmp_path: Path
) -> None:
    serials = [
        done("issue", f"officer/{name}", "--authority", ca, "--out", tmp_path)["serial"]
        for name in ("petra", "paul")
    ]
    shown = call("list", "--authority", ca).out
    assert all(serial[:16] in shown for serial in serials)
    assert "no such" in call("revoke", "f" * 8, "--authority", ca, "--json").json["error"]
    assert "8" in call("revoke", serials[0][:7], "--authority", ca, "--json").json["remedy"]
    revoked = done("revoke", serials[0][:8].upper(), "--authority", ca)["revoked"]
    assert [one["serial"] for one in revoked] == serials[:1]


def test_what_is_over_is_said_loudly(tmp_path: Path) -> None:
    past = Authority.create(tmp_path / "ca", "clinics", clock=lambda: time.time() - 100 * 86_400)
    past.issue("node", "a", folder=tmp_path)
    said = call("list", "--authority", tmp_path / "ca").out
    assert said.count("OVER") == 2  # the certificate and the list
    assert "cloister certs crl" in said
    listed = done("list", "--authority", tmp_path / "ca")
    assert (listed["revoked_list_over"], listed["certificates"][0]["state"]) == (True, "over")
    done("crl", "--authority", tmp_path / "ca")
    assert not done("list", "--authority", tmp_path / "ca")["revoked_list_over"]
    assert call("list", "--authority", tmp_path / "ca").out.count("OVER") == 1


def test_a_list_that_a_killed_command_did_not_write_is_told(ca: Path, tmp_path: Path) -> None:
    made = done("issue", "officer/eve", "--authority", ca, "--out", tmp_path)
    old = (ca / "revoked.pem").read_bytes()
    done("revoke", "officer/eve", "--authority", ca)
    new = (ca / "revoked.pem").read_bytes()
    (ca / "revoked.pem").write_bytes(old)  # as if it had been killed before it wrote the list
    assert openssl_says(ca, made["certificate"]) == "OK"
    said = call("list", "--authority", ca).out
    assert "does not hold" in said
    assert "cloister certs crl" in said
    assert done("list", "--authority", ca)["revoked_list_behind"]
    done("crl", "--authority", ca)
    assert not done("list", "--authority", ca)["revoked_list_behind"]
    assert "revoked" in openssl_says(ca, made["certificate"])
    assert new != old
