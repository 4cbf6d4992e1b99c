"""Does what a reader finds depend on anything that the reader may not read? Many random checks.

Random servers with documents, pods, groups and rights; each check takes a random reader and a
random query and compares an index on disk with a literal oracle that was given the readable
documents and nothing else: N, df, lengths, every document and every score, at document and pod
level, with user statistics. Between checks rights and documents change.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.random import stream
from cloister.core.rights import Reader, Rights
from cloister.index.entity_weights import ModelSettings
from cloister.index.shard import IndexedDocument, Shard
from cloister.lab.bench import Advance, Figures, timed

__all__ = ["check_rights", "run"]

N_CHECKS: Final = 100_000
CHECKS_A_WORLD: Final = 1_000
CHECKS_A_CHANGE: Final = 50
N_DOCUMENTS: Final = 24
VOCABULARY: Final = tuple(f"word{number}" for number in range(12))
AGENTS: Final = tuple(f"agent-{number}" for number in range(6))
GROUPS: Final = ("ward-a", "ward-b")
READERS: Final = (
    Reader(AgentId("")),
    *(Reader(AgentId(name)) for name in AGENTS),
    Reader(AgentId("agent-0"), frozenset({GroupId("ward-a")})),
    Reader(AgentId("nurse"), frozenset({GroupId("ward-a"), GroupId("ward-b")})),
)
K1, B = 1.2, 0.75
NEAR: Final = 1e-12


class _Kept(NamedTuple):
    """A document as the oracle has it."""

    pod: str
    words: tuple[str, ...]
    rights: Rights


def run(advance: Advance) -> Figures:
    """Do all checks."""
    with timed() as timing:
        differences = check_rights(N_CHECKS, advance)
    return {
        "checks": N_CHECKS,
        "differences": differences,
        "checks_per_cpu_s": N_CHECKS / timing.cpu_s,
    }


def check_rights(n_checks: int, advance: Advance, *, seed: int = 1) -> int:
    """Return in how many checks the index and the oracle differ."""
    n_worlds = -(-n_checks // CHECKS_A_WORLD)
    differences = 0
    for world in range(n_worlds):
        rng = stream(seed, "search-rights", world)
        size = min(CHECKS_A_WORLD, n_checks - world * CHECKS_A_WORLD)
        with tempfile.TemporaryDirectory() as folder:
            differences += _check_world(Path(folder), size, rng)
        advance(world + 1, n_worlds)
    return differences


def _check_world(folder: Path, n_checks: int, rng: np.random.Generator) -> int:
    kept: dict[str, _Kept] = {}
    differences = 0
    with Shard.open(folder / "shard", server_id=ServerId("s")) as shard:
        _add(shard, kept, N_DOCUMENTS, rng)
        for check in range(n_checks):
            if check and check % CHECKS_A_CHANGE == 0:
                _change(shard, kept, rng)
            reader = READERS[rng.integers(len(READERS))]
            query = tuple(rng.choice(VOCABULARY, rng.integers(1, 4)))
            differences += not _agrees(shard, kept, reader, query)
    return differences


def _add(shard: Shard, kept: dict[str, _Kept], n: int, rng: np.random.Generator) -> None:
    for _ in range(n):
        name = f"doc-{rng.integers(2 * N_DOCUMENTS):02}"
        words = tuple(rng.choice(VOCABULARY, rng.integers(0, 9)))
        kept[name] = _Kept(f"pod-{rng.integers(5)}", words, _random_rights(rng))
        one = kept[name]
        shard.add([IndexedDocument(DocId(name), PodId(one.pod), " ".join(words), one.rights)])
    shard.commit()


def _change(shard: Shard, kept: dict[str, _Kept], rng: np.random.Generator) -> None:
    """Add or change a document, delete one, and give another other rights."""
    _add(shard, kept, 1, rng)
    gone = str(rng.choice(sorted(kept)))
    del kept[gone]
    shard.delete([DocId(gone)])
    shard.commit()
    if kept:
        name = str(rng.choice(sorted(kept)))
        kept[name] = kept[name]._replace(rights=_random_rights(rng))
        shard.set_rights({DocId(name): kept[name].rights})


def _random_rights(rng: np.random.Generator) -> Rights:
    rights = Rights(owner=AgentId(str(rng.choice(AGENTS))), public=bool(rng.random() < 0.1))
    rights = rights.grant(*rng.choice(AGENTS, rng.integers(0, 3)).tolist())
    return rights.grant_group(*rng.choice(GROUPS, rng.integers(0, 2)).tolist())


def _agrees(shard: Shard, kept: dict[str, _Kept], reader: Reader, query: Sequence[str]) -> bool:
    view = shard.view(reader)
    readable = {name: one for name, one in kept.items() if one.rights.allow(reader)}
    pods: dict[str, list[str]] = {}
    for one in readable.values():
        pods.setdefault(one.pod, []).extend(one.words)
    documents = {name: list(one.words) for name, one in readable.items()}
    return _same(view, "document", documents, query) and _same(view, "pod", pods, query)


def _same(view: Any, level: str, entities: dict[str, list[str]], query: Sequence[str]) -> bool:
    """Compare statistics and the whole ranking of one level."""
    found = view.level(level)
    lengths = sum(map(len, entities.values()))
    if found.n_entities != len(entities) or float(found.lengths.sum()) != lengths:
        return False
    df = [sum(term in words for words in entities.values()) for term in query]
    if found.frequencies(query).tolist() != df:
        return False
    ranked = found.best(query, len(entities) + 1, ModelSettings(k1=K1, b=B))
    name_of = view.doc_id if level == "document" else _pod_namer(view)
    ours = {name_of(n): s for n, s in zip(ranked.entities.tolist(), ranked.scores, strict=True)}
    expected = _bm25(entities, query)
    return ours.keys() == expected.keys() and all(
        math.isclose(ours[name], expected[name], rel_tol=NEAR) for name in ours
    )


def _pod_namer(view: Any) -> Any:
    return lambda number: view.snapshot.pod_ids[number]


def _bm25(entities: dict[str, list[str]], query: Sequence[str]) -> dict[str, float]:
    """Equations 5 to 8, word for word, with the IDF that is never negative."""
    n = len(entities)
    mean = sum(map(len, entities.values())) / n if n else 0.0
    scores = {}
    for name, words in entities.items():
        if not any(term in words for term in query):
            continue
        score = 0.0
        for term in query:
            df = sum(term in one for one in entities.values())
            idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
            count = words.count(term)
            score += idf * count * (K1 + 1) / (count + K1 * (1 - B + B * len(words) / mean))
        scores[name] = score
    return scores
