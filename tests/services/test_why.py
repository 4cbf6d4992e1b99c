"""Why a result is on its page: parts that add up at each level, and nothing of what is hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader, Rights
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.page_drawing import ServedRanker, TriedRanker
from cloister.index.entity_weights import SparseModel
from cloister.index.shard import IndexedDocument, Shard
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.search_server import SearchServer
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.search.explanation import added_up
from cloister.search.node import ScoreRest, SearchNode, TermPart
from cloister.search.page_features import PAGE_FEATURES
from cloister.search.shard_node import ShardNode
from cloister.services.node.messages import LevelWhy, ResultWhy
from cloister.services.node.user_search import FoundPage, PageKeeping, Reach, UserSearch
from cloister.services.service_file import NodeSearchSettings
from cloister.store.database import Database

HOME, OTHER = ServerId("clinic-a"), ServerId("clinic-b")
ANN = Reader(AgentId("clinic-a:ann"))
HERS = Rights(agents=frozenset({ANN.agent_id}))
HIDDEN = Rights(owner=AgentId("clinic-b:bob"))
LINEAR = RankerSettings(n_features=len(PAGE_FEATURES))
NEURAL = RankerSettings(kind="mlp", n_features=len(PAGE_FEATURES), hidden=4)
QUERY = "cough fever"
SEED = 3


class Paper(NamedTuple):
    server: ServerId
    pod: str
    name: str
    text: str
    rights: Rights = HERS


PAPERS = [
    Paper(HOME, "p0", "d0", "a dry cough at night, and fever"),
    Paper(HOME, "p0", "d1", "cough"),
    Paper(HOME, "p1", "d2", "fever fever and a long walk along the river with a dog"),
    Paper(OTHER, "q0", "d3", "cough and cough and cough again, with some rash"),
    Paper(OTHER, "q1", "d4", "fever in the morning"),
    Paper(OTHER, "q1", "d5", "no complaint"),
]
SECRETS = [
    Paper(HOME, "p0", "c0", "cough fever cough fever", HIDDEN),
    Paper(HOME, "p9", "z0", "cough " * 40, HIDDEN),
    Paper(OTHER, "a0", "d30", "fever " * 9 + "rash", HIDDEN),
]


def ranker(settings: RankerSettings = LINEAR, seed: int = 1) -> Ranker:
    rng = np.random.default_rng(seed)
    return Ranker(settings, rng.standard_normal(settings.n_parameters).astype(np.float32))


@contextmanager
def world(folder: Path, papers: Sequence[Paper]) -> Iterator[InProcessOverlay]:
    """Give two servers that hold some papers."""
    with ExitStack() as stack:
        servers = []
        for name in (HOME, OTHER):
            shard = stack.enter_context(Shard.open(folder / name, server_id=name))
            mine = {DocId(one.name): one for one in papers if one.server == name}
            shard.add(
                IndexedDocument(DocId(one.name), PodId(one.pod), one.text, one.rights)
                for one in mine.values()
            )
            shard.commit()

            def opened(
                reader: Reader,
                name: ServerId = name,
                shard: Shard = shard,
                mine: dict[DocId, Paper] = mine,
            ) -> SearchNode:
                return ShardNode(name, lambda: shard.view(reader), lambda doc: mine[doc].text)

            servers.append(SearchServer(name, opened))
        yield stack.enter_context(InProcessOverlay(servers))


def searched(
    folder: Path,
    papers: Sequence[Paper] = PAPERS,
    served: ServedRanker | None = None,
    *,
    explain: bool = True,
    page_length: int = 10,
) -> FoundPage:
    """Search as Ann, with dice that fall the same in each world."""
    credential = Credential("token", new_holder_key())
    serving = served or ServedRanker("0" * 64, ranker())
    with world(folder, papers) as own, Database.open(folder / "state.db") as database:
        search = UserSearch(
            Reach(HOME, own, None, lambda reader: credential, None),
            PageKeeping(lambda: serving, ClickLog(database)),
            NodeSearchSettings(page_length=page_length),
            lambda: np.random.default_rng(SEED),
        )
        return search.search(ANN, QUERY, with_explanations=explain)


def put_together(level: LevelWhy | None) -> float:
    """Add up what a level says, as `added_up` does for documents."""
    assert level is not None
    parts = [
        TermPart(one.term, one.weight, one.n_occurrences, one.frequency, one.n_entities)
        for one in level.parts
    ]
    model: SparseModel = "bm25"
    assert level.model == model
    norms = level.query_norm, level.entity_norm
    return added_up(parts, ScoreRest(model, level.constant, *norms))


def by_document(page: FoundPage) -> dict[str, ResultWhy]:
    assert len(page.whys) == len(page.shown) > 0
    return {one.hit.doc_id: why for one, why in zip(page.shown, page.whys, strict=True)}


def test_parts_add_up_to_the_score_at_each_level(tmp_path: Path) -> None:
    page = searched(tmp_path)
    assert {one.hit.doc_id for one in page.shown} == {"d0", "d1", "d2", "d3", "d4"}
    for one, why in zip(page.shown, page.whys, strict=True):
        for level in (why.server, why.pod, why.document):
            assert level is not None
            assert put_together(level) == level.score > 0
            assert {part.term for part in level.parts} == {"cough", "fever"}
        assert why.document is not None
        assert why.document.score == one.score


def test_places_are_those_of_servers_of_pods_on_their_server_and_of_the_merged_list(
    tmp_path: Path,
) -> None:
    whys = by_document(searched(tmp_path))
    servers = {why.server.rank: why.server for why in whys.values() if why.server}
    assert sorted(servers) == [1, 2]
    assert servers[1].score > servers[2].score
    assert {one.n_ranked for one in servers.values()} == {2}
    for pods, n_pods in (({"d0", "d2"}, 2), ({"d3", "d4"}, 2)):
        ranked = [why.pod for name, why in whys.items() if name in pods and why.pod]
        first, second = sorted(ranked, key=lambda one: one.rank)
        assert (first.rank, second.rank, first.n_ranked) == (1, 2, n_pods)
        assert first.score >= second.score
    assert whys["d0"].pod == whys["d1"].pod
    assert {name: why.pod.length for name, why in whys.items() if why.pod}["d4"] > 1
    merged = sorted(
        (why.document.rank, -why.document.score) for why in whys.values() if why.document
    )
    assert [rank for rank, _ in merged] == [1, 2, 3, 4, 5]
    assert [loss for _, loss in merged] == sorted(loss for _, loss in merged)


def test_features_of_a_linear_ranker_add_up_to_its_score_and_give_the_place(
    tmp_path: Path,
) -> None:
    whys = list(by_document(searched(tmp_path)).values())
    for why in whys:
        names = [one.feature for one in why.ranker.features]
        assert names == list(PAGE_FEATURES)
        total = sum(one.value * one.weight for one in why.ranker.features)
        assert total == pytest.approx(why.ranker.score, abs=1e-5)
        assert why.ranker.how == "drawn"
    weights = [one.weight for one in whys[0].ranker.features]
    assert weights == ranker().parameters.tolist()
    in_order = sorted(whys, key=lambda why: why.ranker.place_by_score)
    assert [why.ranker.place_by_score for why in in_order] == [1, 2, 3, 4, 5]
    scores = [why.ranker.score for why in in_order]
    assert scores == sorted(scores, reverse=True)


def test_a_place_by_score_counts_documents_that_the_page_does_not_show(tmp_path: Path) -> None:
    whole = by_document(searched(tmp_path / "whole"))
    short = by_document(searched(tmp_path / "short", page_length=2))
    assert len(short) == 2
    for name, why in short.items():
        assert why.ranker.place_by_score == whole[name].ranker.place_by_score
        assert why.document == whole[name].document


def test_a_neural_ranker_has_a_score_and_no_features(tmp_path: Path) -> None:
    served = ServedRanker("0" * 64, ranker(NEURAL))
    for why in searched(tmp_path, served=served).whys:
        assert why.ranker.features == []
        assert why.ranker.place_by_score >= 1


def test_a_page_of_a_trial_says_that_it_is_interleaved_and_scores_by_what_serves(
    tmp_path: Path,
) -> None:
    tried = TriedRanker("f" * 32, ranker(seed=2), 1.0)
    served = ServedRanker("0" * 64, ranker(), tried)
    page = searched(tmp_path / "trial", served=served)
    assert {why.ranker.how for why in page.whys} == {"interleaved"}
    plain = by_document(searched(tmp_path / "plain"))
    for name, why in by_document(page).items():
        assert why.ranker.score == plain[name].ranker.score
        assert why.ranker.features == plain[name].ranker.features


def test_why_is_there_only_where_it_is_asked_for_and_changes_nothing_else(tmp_path: Path) -> None:
    found = searched(tmp_path / "asked")
    plain = searched(tmp_path / "plain", explain=False)
    assert plain.whys == ()
    assert all(one.hit.pod is None for one in plain.shown)
    assert [one.hit.doc_id for one in plain.shown] == [one.hit.doc_id for one in found.shown]
    assert plain.missing == found.missing


def test_what_is_hidden_changes_no_byte_of_an_explained_page(tmp_path: Path) -> None:
    said = []
    for number, papers in enumerate((PAPERS, [*SECRETS, *PAPERS], [*PAPERS, *SECRETS])):
        page = searched(tmp_path / str(number), papers)
        whys = [why.model_dump_json() for why in page.whys]
        said.append((page._replace(page_id="", whys=()), whys))
    assert said[0][0].shown
    assert said[0] == said[1] == said[2]


def test_what_is_granted_does_show(tmp_path: Path) -> None:
    """Else the comparison above would not see whether hidden documents are counted."""
    granted = [one._replace(rights=HERS) for one in SECRETS]
    before, after = searched(tmp_path / "a"), searched(tmp_path / "b", [*PAPERS, *granted])
    one, other = by_document(before), by_document(after)
    for name in one:
        assert one[name].server != other[name].server
        assert one[name].pod != other[name].pod
        assert one[name].document != other[name].document
