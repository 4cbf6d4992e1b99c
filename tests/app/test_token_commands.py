"""``cloister token`` as an operator of a node uses it, and the node's verifier as the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.outcome import Outcome
from app.typer_call import run_app
from cloister.app.token_commands import app
from cloister.core.errors import AccessDenied
from cloister.core.ids import ServerId
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.services.user_tokens import UserTokens, UserTokenSettings


def call(*arguments: object, stdin: str = "") -> Outcome:
    return run_app(app, *arguments, stdin=stdin)


def done(*arguments: object, stdin: str = "") -> dict[str, Any]:
    outcome = call(*arguments, "--json", stdin=stdin)
    assert outcome.code == 0, outcome.err
    return outcome.json


class Home:
    """A node's key, and its verifier."""

    def __init__(self, folder: Path) -> None:
        self.key_file = folder / "token.key"
        self.keys = done("key", self.key_file)["keys"]
        self.who = ["--federation", "clinics", "--node", "clinic-a", "--key", self.key_file]

    def users(self, **settings: Any) -> UserTokens:
        chosen = UserTokenSettings(**settings)
        return UserTokens("clinics", "clinic-a", settings=chosen, own_keys=self.keys)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_token_names_a_user_of_the_node(home: Home) -> None:
    assert home.key_file.stat().st_mode & 0o777 == 0o600
    issued = done("issue", "ann", *home.who, "--group", "nurses", "--group", "clinic-a:night")
    assert issued["agent"] == "clinic-a:ann"
    assert issued["bound"] is False
    user = home.users().verify(issued["token"])
    assert user.reader.agent_id == "clinic-a:ann"
    assert user.reader.groups == {"clinic-a:nurses", "clinic-a:night"}
    full = done("issue", "clinic-a:ann", *home.who)
    assert home.users().verify(full["token"]).reader.agent_id == "clinic-a:ann"


def test_for_people_the_token_is_all_that_is_printed(home: Home) -> None:
    outcome = call("issue", "ann", *home.who)
    assert home.users().verify(outcome.out.strip()).reader.agent_id == "clinic-a:ann"
    assert "for whoever has it" in outcome.err


def test_a_token_for_longer_than_nodes_take_is_told_so(home: Home) -> None:
    assert "60 minutes" not in call("issue", "ann", *home.who, "--minutes", 60).err
    said = call("issue", "ann", *home.who, "--minutes", 61)
    assert (said.code, "max_lifetime_s" in said.err, "60 minutes" in said.err) == (0, True, True)


def test_a_token_in_a_file_is_for_its_owner_and_not_printed(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "ann.token"
    outcome = call("issue", "ann", *home.who, "--out", path, "--json")
    assert "token" not in outcome.json
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text().strip()
    assert home.users().verify(token).reader.agent_id == "clinic-a:ann"
    assert token not in outcome.out + outcome.err


def test_a_bound_token_needs_its_holder(home: Home, tmp_path: Path) -> None:
    holder = new_holder_key()
    (tmp_path / "holder.json").write_text(json.dumps(holder.as_dict(private=False)))
    issued = done("issue", "ann", *home.who, "--holder", tmp_path / "holder.json")
    assert issued["bound"] is True
    users = home.users()
    with pytest.raises(AccessDenied):
        users.verify(issued["token"])
    proof = Credential(issued["token"], holder).prove(ServerId("clinic-a"), b"what")
    user = users.verify(issued["token"], proof=proof.text, content=b"what")
    assert user.reader.agent_id == "clinic-a:ann"


def test_a_users_own_key_file_can_be_the_holder(home: Home, tmp_path: Path) -> None:
    own = done("key", tmp_path / "ann.key")["keys"]
    (tmp_path / "ann.json").write_text(json.dumps(own))
    by_set = done("issue", "ann", *home.who, "--holder", tmp_path / "ann.json")["token"]
    by_key = done("issue", "ann", *home.who, "--holder", tmp_path / "ann.key")["token"]
    claims = [done("show", "-", stdin=token)["claims"]["cnf"] for token in (by_set, by_key)]
    assert claims[0] == claims[1]


def test_show_tells_what_a_token_says_and_a_keys_public_half(home: Home, tmp_path: Path) -> None:
    token = done("issue", "ann", *home.who, "--minutes", 5)["token"]
    shown = done("show", "-", stdin=token + "\n")
    assert shown["claims"]["sub"] == "clinic-a:ann"
    assert shown["claims"]["aud"] == "cloister://clinics/node/clinic-a"
    assert shown["claims"]["exp"] - shown["claims"]["iat"] == pytest.approx(300)
    assert shown["state"] == "it holds"
    (tmp_path / "token").write_text(token)
    people = call("show", tmp_path / "token")
    assert "signature was not looked at" in people.err
    public = done("show", home.key_file)["keys"]["keys"][0]
    assert "d" not in public
    assert (public["x"], public["kid"]) == tuple(home.keys["keys"][0][n] for n in ("x", "kid"))
    assert '"d"' not in call("show", home.key_file).out


@pytest.mark.parametrize(
    "arguments",
    [
        ["issue", "clinic-b:ben"],
        ["issue", "ann b"],
        ["issue", ""],
        ["issue", "clinic-a:"],
        ["issue", "ann", "--group", "clinic-b:nurses"],
        ["issue", "ann", "--holder", "nowhere"],
    ],
    ids=str,
)
def test_a_token_for_somebody_elses_user_is_refused(arguments: list[str], home: Home) -> None:
    outcome = call(*arguments, *home.who, "--json")
    assert (outcome.code, set(outcome.json)) == (2, {"error", "remedy"})


@pytest.mark.parametrize(
    "content", ["", "a.b.c", "{}", '{"kty":"oct","k":"AAAA"}', "[", "{" * 5000]
)
def test_what_is_neither_a_token_nor_a_key_is_told(content: str) -> None:
    outcome = call("show", "-", "--json", stdin=content)
    assert (outcome.code, set(outcome.json)) == (1, {"error", "remedy"})


def test_a_key_file_is_not_overwritten_and_not_shared(home: Home) -> None:
    before = home.key_file.read_bytes()
    assert call("key", home.key_file, "--json").code == 2
    assert home.key_file.read_bytes() == before
    home.key_file.chmod(0o640)
    outcome = call("issue", "ann", *home.who, "--json")
    assert "others may read" in outcome.json["error"]
