"""schemathesis over the descriptions of node, broker and coordinator, served by real processes.

Each caller that has routes is taken in turn, so that requests come past admission. A second pass
takes the routes that are for others. No dependency is away here, so not even a 503 is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import Status, events, from_schema

from cloister.web.messages import BINARY
from services.attacked_federation import Attacked, tell

N_EXAMPLES = 30  # for each route, beside what the coverage phase derives from the schema
CALLERS = [
    ("clinic-a", "user"),
    ("clinic-a", "node"),
    ("clinic-a", "coordinator"),
    ("clinic-a", "operator"),
    ("clinic-a", "officer"),
    ("broker", "node"),
    ("broker", "operator"),
    ("broker", "officer"),
    ("coordinator", "node"),
    ("coordinator", "operator"),
    ("coordinator", "officer"),
]
HOLDERS = {
    "node": "clinic-b",
    "coordinator": "coordinator",
    "operator": "operator",
    "officer": "officer",
}
# Which answers lead to which requests: schemathesis follows them.
LINKS: dict[tuple[str, str], list[tuple[str, dict[str, str]]]] = {
    ("/v1/search", "post"): [("/v1/pages/{page_id}/clicks", {"page_id": "/page_id"})],
    ("/v1/serving", "get"): [("/v1/rankers/{digest}", {"digest": "/serving"})],
    ("/v1/rounds", "get"): [("/v1/rounds/{n_rounds}/ranker", {"n_rounds": "/n_rounds"})],
    ("/v1/trials", "post"): [
        ("/v1/rankers/{digest}", {"digest": "/trial/candidate"}),
        ("/v1/rankers/{digest}", {"digest": "/serving"}),
    ],
}


class Found(NamedTuple):
    """What came of a run."""

    n_requests: int
    statuses: Counter[int]
    failures: list[str]
    phases: set[str]


def _description(attacked: Attacked, service: str, role: str) -> dict[str, Any]:
    holder = HOLDERS.get(role, "")
    token = "" if holder else attacked.folder.token("clinic-a:party-100")
    with attacked.caller(service, holder, token) as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def _cut(document: dict[str, Any], role: str, *, own: bool) -> dict[str, Any]:
    """Leave the routes of a role, or those of others."""
    paths: dict[str, Any] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (role in operation.get("x-roles", [role])) == own:
                paths.setdefault(path, {})[method] = operation
    return {**document, "paths": paths}


def _linked(document: dict[str, Any]) -> dict[str, Any]:
    paths = document["paths"]
    for (path, method), targets in LINKS.items():
        links = {
            f"link{number}": {
                "operationRef": f"#/paths/{target.replace('~', '~0').replace('/', '~1')}/{verb}",
                "parameters": {n: f"$response.body#{at}" for n, at in parameters.items()},
            }
            for number, (target, parameters) in enumerate(targets)
            for verb in paths.get(target, {})
        }
        if links and method in paths.get(path, {}):
            paths[path][method]["responses"]["200"]["links"] = links
    return document


def _shared(document: dict[str, Any], cut: dict[str, Any]) -> list[str]:
    """Return the paths of which some methods are left, and others are not."""
    whole = document["paths"]
    return [path for path, methods in cut["paths"].items() if methods.keys() != whole[path].keys()]


def _config(
    attacked: Attacked,
    service: str,
    role: str,
    document: dict[str, Any],
    own: bool,
    shared: Sequence[str],
) -> Any:
    """Return the settings; what is left out of the checks, and why, is here and nowhere else."""
    by_token = role not in HOLDERS
    config: dict[str, Any] = {
        "base-url": attacked.folder.url(service),
        "tls-verify": str(attacked.authority),
        "request-timeout": 20,
        "continue-on-failure": True,
        "generation": {
            "max-examples": N_EXAMPLES if own else N_EXAMPLES // 2,
            "database": "none",
            "no-shrink": True,
            "deterministic": True,
        },
        "phases": {"coverage": {"enabled": own}},
        "checks": {
            # A certificate belongs to the connection: schemathesis cannot leave it out.
            "ignored_auth": {"enabled": by_token and own},
            # What is for others only is 404 for every method, valid data or not.
            "unsupported_method": {"enabled": own},
            "positive_data_acceptance": {"enabled": own},
        },
    }
    octets = [
        path
        for path, operations in document["paths"].items()
        for one in operations.values()
        if BINARY in one.get("requestBody", {}).get("content", {})
    ]
    rules: list[dict[str, Any]] = []
    if octets:  # "any bytes" is all that a schema can say; frames are checked within
        rule = {"include-path": octets, "checks": {"positive_data_acceptance": {"enabled": False}}}
        rules.append(rule)
    if shared:  # a method that is for others only is 404, not 405
        rules.append({"include-path": shared, "checks": {"unsupported_method": {"enabled": False}}})
    if rules:
        config["operations"] = rules
    if by_token:
        token = attacked.folder.token("clinic-a:party-100")
        config["headers"] = {"Authorization": f"Bearer {token}"}
    else:
        files = attacked.folder.tls(HOLDERS[role])
        config["request-cert"], config["request-cert-key"] = str(files.certificate), str(files.key)
    return SchemathesisConfig.from_dict(config)


def _run(attacked: Attacked, service: str, role: str, *, own: bool) -> Found:
    whole = _description(attacked, service, role)
    document = _linked(_cut(whole, role, own=own))
    config = _config(attacked, service, role, document, own, _shared(whole, document))
    schema = schemathesis.openapi.from_dict(document, config=config)
    statuses: Counter[int] = Counter()
    failures, phases = [], set()
    for event in from_schema(schema).execute():
        if isinstance(event, (events.NonFatalError, events.FatalError)):
            failures.append(repr(vars(event)))
        elif isinstance(event, events.PhaseFinished) and event.status is not Status.SKIP:
            phases.add(event.phase.name.value)
        elif isinstance(event, events.ScenarioFinished):
            for exchange in event.recorder.interactions.values():
                statuses[exchange.response.status_code if exchange.response else 0] += 1
            failures += [
                f"{event.recorder.label}: {check.name}: {check.failure_info}"
                for checks in event.recorder.checks.values()
                for check in checks
                if check.status is not Status.SUCCESS
            ]
    return Found(sum(statuses.values()), statuses, failures, phases)


@pytest.mark.parametrize(("service", "role"), CALLERS)
def test_every_answer_is_as_the_description_says_and_none_is_a_failure(
    attacked: Attacked, service: str, role: str
) -> None:
    found = _run(attacked, service, role, own=True)
    tell(f"{found.n_requests} requests")
    assert found.failures == []
    assert found.n_requests > 40
    assert found.statuses[200] + found.statuses[204] > 0
    assert not [status for status in found.statuses if status >= 500 or status == 0]
    assert {"coverage", "fuzzing"} <= found.phases
    if (service, role) in {("clinic-a", "user"), ("coordinator", "operator")}:
        assert "stateful" in found.phases


@pytest.mark.parametrize(("service", "role"), CALLERS)
def test_routes_of_others_are_not_there_whatever_is_sent(
    attacked: Attacked, service: str, role: str
) -> None:
    found = _run(attacked, service, role, own=False)
    tell(f"{found.n_requests} requests")
    assert found.failures == []
    assert found.n_requests >= 10
    assert set(found.statuses) == {404}
