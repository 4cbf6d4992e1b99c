"""Users search the real federation through their home nodes: nothing unreadable shows.

Each user's answers are compared with two others: what `Rights.allow` says over the world's
documents, and a federation in which the documents that this user may not read do not exist. In the
latter, snippets, scores, explanations and the numbers in them must be the same, byte for byte,
since every one of them could tell of a document that is hidden. Pages are drawn at random, so the
order is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cloister.app.granting import change_rights
from cloister.core.ids import AgentId, DocId, GroupId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.federate.online.page_table import ShownPage
from cloister.federate.online.ranker_files import ranker_from_bytes
from cloister.index.analysis import TextAnalysis
from cloister.pods.folder_pod import FolderPod
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.sync import sync
from cloister.rank.ranker import Ranker
from cloister.search.explanation import explain
from cloister.search.page_features import page_features
from cloister.search.search_outcome import SearchOutcome
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.services.node.messages import ResultWhy, SearchAnswer
from cloister.services.node.why import page_whys
from cloister.services.sample_clinics import SampleUser
from services.attacked_federation import Attacked, tell
from services.processes import NODES, user_client

N_CANDIDATES = 50  # of the nodes' settings; all documents of this world fit
N_QUERIES = 8


class Record(NamedTuple):
    """A document of the world, where it lies and who may read it."""

    pod_id: str
    node: str
    doc_id: DocId
    text: str
    rights: Rights


class Shown(NamedTuple):
    """All that a user sees of one document."""

    title: str
    pod: str
    server: str
    snippet: str
    score: float
    explanation: tuple[str, ...]
    why: str  # as JSON, without whether the page was drawn or interleaved


def _records(attacked: Attacked) -> list[Record]:
    clinics = attacked.clinics
    n_pods = clinics.world.settings.pods
    found = []
    for number, node in enumerate(NODES):
        span = number * n_pods, (number + 1) * n_pods
        with PodRegistry(attacked.folder.home(node)) as registry:
            etags = {
                pod_id: registry.shard(ServerId(node)).etags(pod_id) for pod_id in registry.pods
            }
        for pod, document in zip(
            clinics.world.pods(*span), clinics.world.documents(*span), strict=True
        ):
            (doc_id,) = etags[pod.pod_id]
            record = Record(pod.pod_id, node, doc_id, document.text, clinics.rights(pod))
            found.append(record)
    return found


@pytest.fixture(scope="module")
def records(attacked: Attacked) -> dict[DocId, Record]:
    return {record.doc_id: record for record in _records(attacked)}


def _readers(attacked: Attacked) -> list[Reader]:
    """Return users of all nodes: staff with groups, owners, search parties, and a stranger."""
    found = []
    for node in NODES:
        users = attacked.clinics.users(node)
        staff = [user for user in users if user.role != "search party"]
        parties = [user for user in users if user.role == "search party"]
        found += [Reader(user.agent_id, user.groups) for user in (*staff[:3], *parties)]
    owners = ["clinic-b:patient-9", "clinic-c:patient-17"]
    return found + [Reader(AgentId(name)) for name in (*owners, "clinic-b:stranger")]


def _queries(attacked: Attacked, records: Mapping[DocId, Record]) -> list[str]:
    queries = [query.text for query in attacked.clinics.world.queries[: N_QUERIES - 2]]
    words = next(iter(records.values())).text.split()
    return [*queries, " ".join(words[5:9]), "patient"]


@contextmanager
def _world_of(reader: Reader, records: Mapping[DocId, Record], folder: Path) -> Iterator[Searcher]:
    """Give a search over servers that hold what a reader may read, and nothing else."""
    with ExitStack() as stack:
        servers = []
        for node in NODES:
            registry = stack.enter_context(PodRegistry(folder / node))
            (folder / node / "pods").mkdir(parents=True)
            for record in records.values():
                if record.node == node and record.rights.allow(reader):
                    _put(registry, record, folder / node / "pods" / record.pod_id)
            servers.append(registry.search_server(ServerId(node)))
        overlay = stack.enter_context(InProcessOverlay(servers, timeout_s=20.0))
        nodes = overlay.nodes_for_trusted(reader)
        yield Searcher(nodes, TextAnalysis(), SearchSettings(selection="all"))


def _put(registry: PodRegistry, record: Record, place: Path) -> None:
    store = FolderPod.create(place, record.pod_id, record.rights.owner)
    store.write("record.txt", record.text, rights=record.rights)
    registry.add(
        RegisteredPod(
            pod_id=record.pod_id,
            owner=record.rights.owner,
            server_id=record.node,
            kind="folder",
            address=str(place),
        )
    )
    sync(store, registry.shard(ServerId(record.node)))


def _expected(searcher: Searcher, reader: Reader, ranker: Ranker, query: str) -> dict[str, Shown]:
    outcome = searcher.search(query, k=N_CANDIDATES, explain=True, explain_levels=True)
    assert outcome.missing == ()
    found = {}
    for one, why in zip(outcome.candidates, _whys(outcome, reader, ranker), strict=True):
        told = explain(one.hit)
        lines = () if told is None else tuple(told.text().splitlines())
        hit = one.hit
        found[hit.doc_id] = Shown(
            hit.title, hit.pod_id, one.server_id, hit.snippet, one.score, lines, _written(why)
        )
    return {str(name): shown for name, shown in found.items()}


def _whys(outcome: SearchOutcome, reader: Reader, ranker: Ranker) -> tuple[ResultWhy, ...]:
    """Return why each candidate would stand on a page that shows all of them in order."""
    home = ServerId(reader.agent_id.partition(":")[0])
    features = page_features(outcome.candidates, home=home)
    scores, places = ranker.score(features), np.arange(len(features))
    return page_whys(outcome, ShownPage(reader.agent_id, "", features, scores, places), ranker)


def _written(why: ResultWhy | None) -> str:
    return "" if why is None else why.model_dump_json(exclude={"ranker": {"how"}})


def _serving(attacked: Attacked) -> Ranker:
    """Return the ranker that nodes serve with, as the coordinator has it."""
    with attacked.caller("coordinator", "operator") as client:
        digest = client.get("/v1/serving").json()["serving"]
        return ranker_from_bytes(client.get(f"/v1/rankers/{digest}").content)


def _answer(attacked: Attacked, reader: Reader, query: str) -> SearchAnswer:
    user = SampleUser(reader.agent_id, reader.groups, "")
    with user_client(attacked.folder, user) as client:
        answer = client.search(query, explain=True)
    assert answer.missing_nodes == []
    return answer


def _shown(answer: SearchAnswer) -> dict[str, Shown]:
    assert [one.rank for one in answer.results] == list(range(1, len(answer.results) + 1))
    return {
        one.doc_id: Shown(
            one.title,
            one.pod,
            one.server,
            one.snippet,
            one.score,
            tuple(one.explanation),
            _written(one.why),
        )
        for one in answer.results
    }


def _matching(records: Mapping[DocId, Record], reader: Reader, query: str) -> set[str]:
    """Return what the reader may read and has a term of the query, by nothing but the texts."""
    analysis = TextAnalysis()
    terms = set(analysis.terms(query))
    return {
        str(record.doc_id)
        for record in records.values()
        if record.rights.allow(reader) and terms & set(analysis.terms(record.text))
    }


def _compare(
    attacked: Attacked,
    records: Mapping[DocId, Record],
    reader: Reader,
    queries: list[str],
    folder: Path,
) -> int:
    """Compare all answers to a reader; return how many documents were shown."""
    n_shown, ranker = 0, _serving(attacked)
    with _world_of(reader, records, folder) as searcher:
        for query in queries:
            answer = _answer(attacked, reader, query)
            shown = _shown(answer)
            assert set(shown) == _matching(records, reader, query), (reader, query)
            assert shown == _expected(searcher, reader, ranker, query), (reader, query)
            assert bool(answer.page_id) == bool(shown)
            assert (answer.n_found, answer.may_be_more) == (len(shown), False)
            _unnamed(answer, records, reader)
            n_shown += len(shown)
    return n_shown


def _unnamed(answer: SearchAnswer, records: Mapping[DocId, Record], reader: Reader) -> None:
    """See that no hidden document, pod or owner is named anywhere in the whole answer."""
    text = answer.model_dump_json()
    for record in records.values():
        if not record.rights.allow(reader):
            assert f'"{record.doc_id}"' not in text
            assert f'"{record.pod_id}"' not in text


def test_each_user_sees_what_rights_say_and_nothing_of_the_rest(
    attacked: Attacked, records: dict[DocId, Record], tmp_path: Path
) -> None:
    queries, readers = _queries(attacked, records), _readers(attacked)
    seen = {
        reader.agent_id: _compare(attacked, records, reader, queries, tmp_path / str(number))
        for number, reader in enumerate(readers)
    }
    n_readable = {
        reader.agent_id: sum(one.rights.allow(reader) for one in records.values())
        for reader in readers
    }
    tell(f"{len(readers)} users, {len(queries)} queries each, {sum(seen.values())} lines compared")
    assert len(set(n_readable.values())) >= 4  # users differ in what they may read
    assert seen["clinic-a:party-100"] > 0
    assert seen["clinic-b:stranger"] == 0


@pytest.mark.parametrize("by_group", [False, True], ids=["to an agent", "to a group"])
def test_a_right_that_is_given_and_taken_holds_at_the_next_search(
    attacked: Attacked, records: dict[DocId, Record], tmp_path: Path, by_group: bool
) -> None:
    group = GroupId("clinic-a:visitors")
    reader = Reader(AgentId("clinic-a:guest"), frozenset({group}) if by_group else frozenset())
    agents, groups = ([], [group]) if by_group else ([reader.agent_id], [])
    chosen = [next(one for one in records.values() if one.node == node) for node in NODES]
    queries = _queries(attacked, records)
    assert _compare(attacked, records, reader, queries, tmp_path / "before") == 0
    for give in (True, False):
        for record in chosen:
            with PodRegistry(attacked.folder.home(record.node)) as registry:
                change_rights(registry, [record.doc_id], agents, groups, public=False, give=give)
        now = dict(records)
        if give:
            now |= {
                one.doc_id: one._replace(rights=one.rights.grant(*agents).grant_group(*groups))
                for one in chosen
            }
        n_shown = _compare(attacked, now, reader, queries, tmp_path / f"given-{give}")
        assert (n_shown > 0) == give


def test_what_is_shared_with_everybody_shows_to_everybody_until_it_is_taken_back(
    attacked: Attacked, records: dict[DocId, Record], tmp_path: Path
) -> None:
    record = next(one for one in records.values() if one.node == "clinic-c")
    reader = Reader(AgentId("clinic-b:stranger"))
    query = " ".join(record.text.split()[:6])
    for give in (True, False):
        with PodRegistry(attacked.folder.home(record.node)) as registry:
            change_rights(registry, [record.doc_id], [], [], public=True, give=give)
        now = dict(records)
        if give:
            rights = Rights(record.rights.owner, public=True)
            now[record.doc_id] = record._replace(rights=rights)
        n_shown = _compare(attacked, now, reader, [query], tmp_path / f"public-{give}")
        assert n_shown == (1 if give else 0)


def test_results_say_why_only_where_they_are_asked_to(attacked: Attacked) -> None:
    user = SampleUser(AgentId("clinic-a:party-100"), frozenset(), "")
    query = attacked.clinics.world.queries[0].text
    with user_client(attacked.folder, user) as client:
        plain, explained = client.search(query), client.search(query, explain=True)
    attacked.planted.update({plain.page_id, explained.page_id})
    assert plain.results
    assert all(one.why is None and one.explanation == [] for one in plain.results)
    shown = {one.doc_id for one in plain.results}
    assert shown == {one.doc_id for one in explained.results}
    for one in explained.results:
        assert one.why is not None
        assert one.explanation
        levels = (one.why.server, one.why.pod, one.why.document)
        for level in levels:
            assert level is not None
            assert math.fsum(part.weight for part in level.parts) == pytest.approx(level.score)
        assert one.why.ranker.features


def test_scores_depend_on_what_the_user_may_read(
    attacked: Attacked, records: dict[DocId, Record]
) -> None:
    """Else the comparison above would not see whether hidden documents are counted."""
    differ = 0
    for query in _queries(attacked, records):
        more, fewer = (
            _shown(_answer(attacked, Reader(AgentId(f"clinic-a:party-{percent}")), query))
            for percent in (100, 50)
        )
        differ += sum(more[name].score != fewer[name].score for name in more.keys() & fewer.keys())
    assert differ > 0
