"""nDCG@10 by people's judgements, with a collection's own queries: what the paper does not show.

Only documents that the user may read count as what could be found. Queries for which the user may
read no relevant document are left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from pydantic import Field

from cloister.core.random import stream
from cloister.core.rights import Reader
from cloister.lab.espresso.agreement import published_statistics
from cloister.lab.espresso.federation import (
    Federation,
    build_federation,
    federation_folder,
    open_federation,
)
from cloister.lab.espresso.federation_contents import (
    ANALYSIS,
    FederationSettings,
    collection,
    human_grades,
)
from cloister.lab.espresso.mean_ndcg import mean_ndcg
from cloister.lab.reproduce.study import Figures, StudySettings
from cloister.lab.simulation.run import Advance
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher
from cloister.search.shard_node import ShardNode

__all__ = ["CENTRAL", "CUTOFF", "JUDGED", "JudgedSettings", "measure"]

CUTOFF: Final = 10
CENTRAL: Final = "centralised BM25"
BEST_IMPACT: Final = "best impact"
JUDGED: Final = (CENTRAL, "BM25 user", "BM25 global", BEST_IMPACT)
LIST_LENGTH: Final = 3  # as in the selectors' trial


class JudgedSettings(StudySettings):
    """One trial.

    Parameters
    ----------
    federation, access
        A collection with judgements, and what the user may read, in per cent.
    n_queries
        Judged queries, drawn at random by the seed; all where there are fewer.
    n_servers, n_pods
        Asked at most, and pods of each.
    """

    federation: FederationSettings
    access: int
    n_queries: int = Field(default=100, ge=1)
    n_servers: int = Field(default=5, ge=1)
    n_pods: int = Field(default=5, ge=1)


def measure(settings: JudgedSettings, advance: Advance) -> Figures:
    """Return nDCG@10 of each system, and how many queries it is a mean over."""
    folder = federation_folder(settings.federation)
    build_federation(settings.federation, folder, workers=1)
    federation = open_federation(settings.federation, folder)
    reader = federation.readers[settings.access]
    queries, grades = _judged(federation, reader, settings)
    figures: Figures = {}
    for done, (name, searcher) in enumerate(_searchers(federation, reader, settings).items(), 1):
        rankings = [
            [one.doc_id for one in searcher.search(query, k=CUTOFF).results] for query in queries
        ]
        figures[name] = {
            "ndcg@10": mean_ndcg(rankings, grades, CUTOFF),
            "n_queries": float(len(queries)),
        }
        advance(done, len(JUDGED))
    federation.close()
    return figures


def _judged(
    federation: Federation, reader: Reader, settings: JudgedSettings
) -> tuple[list[str], list[dict[str, int]]]:
    """Return queries with something to find, and the grades of what may be read."""
    readable = {
        view.doc_id(number)
        for view in (shard.view(reader) for shard in federation.shards)
        for number in view.documents.tolist()
    }
    texts = {one.query_id: one.text for one in collection(settings.federation).queries}
    kept = {
        query_id: {doc_id: grade for doc_id, grade in found.items() if doc_id in readable}
        for query_id, found in human_grades(settings.federation).items()
    }
    names = sorted(name for name, found in kept.items() if found and name in texts)
    rng = stream(settings.seed, "espresso", "judged queries")
    n = min(settings.n_queries, len(names))
    drawn = [names[i] for i in np.sort(rng.choice(len(names), n, replace=False)).tolist()]
    return [texts[name] for name in drawn], [kept[name] for name in drawn]


def _searchers(
    federation: Federation, reader: Reader, settings: JudgedSettings
) -> dict[str, Searcher]:
    nodes = [
        ShardNode(shard.server_id, lambda shard=shard: shard.view(reader))  # type: ignore[misc]
        for shard in federation.shards
    ]
    entity = SearchSettings(
        selection="entity", n_servers=settings.n_servers, n_pods=settings.n_pods
    )
    best = entity.model_copy(update={"selection": "best-impact", "n_best": LIST_LENGTH})
    everywhere = entity.model_copy(update={"statistics": "global"})
    published = published_statistics(federation)
    return {
        CENTRAL: Searcher(nodes, ANALYSIS, SearchSettings(selection="all")),
        "BM25 user": Searcher(nodes, ANALYSIS, entity),
        "BM25 global": Searcher(nodes, ANALYSIS, everywhere, published=published),
        BEST_IMPACT: Searcher(nodes, ANALYSIS, best),
    }
