"""What one node can get from another: answers for its own users, once for each question."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from cloister.core.ids import AgentId, ServerId
from cloister.core.rights import Reader
from cloister.pods.overlay.frames import AskFrame, signed_content
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.wire import Question, encode_question
from cloister.search.node import SummaryRequest
from cloister.services.node_issuer import NodeIssuer
from cloister.services.user_tokens import node_issuer_name
from services.attacked_federation import Attacked

ASKED = "clinic-c"
QUESTION = encode_question(Question(SummaryRequest(("cough",))))
ANN = Reader(AgentId("clinic-a:party-100"))


def _key(attacked: Attacked, node: str) -> Path:
    return attacked.folder.folder / node / "token.key"


def _credential(attacked: Attacked, node: str = "clinic-a", late_s: float = 0.0) -> Credential:
    clock = (lambda: time.time() - late_s) if late_s else time.time
    issuer = NodeIssuer(attacked.folder.roster.name, node, _key(attacked, node), clock=clock)
    return issuer.credential(ANN if node == "clinic-a" else Reader(AgentId(f"{node}:somebody")))


def _forged(attacked: Attacked, signer: str, called: str) -> Credential:
    """Let one node sign about another's user, under either name."""
    federation = attacked.folder.roster.name
    name = node_issuer_name(federation, called)
    holder = new_holder_key()
    token = TokenIssuer.load(_key(attacked, signer), name, federation).issue(ANN.agent_id, holder)
    return Credential(token, holder)


def _frame(credential: Credential, *, to: str = ASKED, about: bytes = QUESTION) -> bytes:
    proof = credential.prove(ServerId(to), signed_content(b"", about))
    return AskFrame(credential.token, proof.text, b"", QUESTION).to_bytes()


def _status(attacked: Attacked, holder: str, content: bytes) -> httpx.Response:
    with attacked.caller(ASKED, holder) as client:
        return client.post(
            "/v1/ask", content=content, headers={"content-type": "application/octet-stream"}
        )


def test_a_node_gets_an_answer_for_its_own_user_once(attacked: Attacked) -> None:
    content = _frame(_credential(attacked))
    assert _status(attacked, "clinic-a", content).status_code == 200
    assert _status(attacked, "clinic-a", content).status_code == 403  # replayed


CASES = [
    "another node's user, with the key and all",
    "signed by the asking node",
    "signed by the asking node in the other's name",
    "proof for another node",
    "proof about another question",
    "expired",
    "a token for users",
    "nothing that is a token",
]


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_for_the_asking_nodes_own_user_is_refused_alike(
    attacked: Attacked, case: str
) -> None:
    own = _credential(attacked)
    holder = new_holder_key()
    made = {
        CASES[0]: lambda: ("clinic-b", _frame(own)),
        CASES[1]: lambda: ("clinic-b", _frame(_forged(attacked, "clinic-b", "clinic-b"))),
        CASES[2]: lambda: ("clinic-b", _frame(_forged(attacked, "clinic-b", "clinic-a"))),
        CASES[3]: lambda: ("clinic-a", _frame(own, to="clinic-b")),
        CASES[4]: lambda: ("clinic-a", _frame(own, about=b"another")),
        CASES[5]: lambda: ("clinic-a", _frame(_credential(attacked, late_s=3_600.0))),
        CASES[6]: lambda: (
            "clinic-a",
            _frame(Credential(attacked.folder.token(ANN.agent_id), holder)),
        ),
        CASES[7]: lambda: ("clinic-a", _frame(Credential("a.b.c", holder))),
    }
    asking, content = made[case]()
    answer = _status(attacked, asking, content)
    assert (answer.status_code, answer.headers["x-refusal"]) == (403, "denied")
    assert answer.json()["error"] == "not allowed, or no such resource"
