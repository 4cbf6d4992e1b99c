"""Small servers, an issuer and readers, for the tests of the overlay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cloister.core.ids import AgentId, DocId, GroupId, PodId, ServerId
from cloister.core.rights import STRANGER, Reader, Rights
from cloister.index.entity_weights import ModelSettings
from cloister.index.postings import Postings
from cloister.index.reader_view import ReaderView
from cloister.index.snapshot import Segment, Snapshot
from cloister.index.term_counts import count_terms
from cloister.pods.overlay.proofs import Credential, new_holder_key
from cloister.pods.overlay.token_issuer import TokenIssuer
from cloister.pods.overlay.tokens import TrustedIssuer
from cloister.pods.search_server import RequestLimits, SearchServer
from cloister.search.node import SubQuery, SummaryRequest, TableRequest
from cloister.search.selector_table import SelectorTable
from cloister.search.shard_node import ShardNode

FEDERATION = "clinics"
ISSUER = "https://id.example/"
ALICE = AgentId("https://id.example/alice")
BOB = AgentId("https://id.example/bob")
NURSES = GroupId("https://id.example/groups/nurses")
RIGHTS = (
    Rights(owner=ALICE),
    Rights(owner=BOB),
    Rights(public=True),
    Rights(groups=frozenset({NURSES})),
)
TEXTS = (
    ("cough and fever in the night", 0),
    ("fever fever after travel", 1),
    ("cough medicine for everybody", 2),
    ("huntington disease in the family", 1),
    ("fever chart of the ward", 3),
)


class SmallIndex:
    """An index in memory whose rights can be changed."""

    def __init__(self, texts: Sequence[tuple[str, int]] = TEXTS, *, name: str = "a") -> None:
        self.postings = Postings.build(count_terms([text for text, _ in texts]))
        n = len(texts)
        self.snapshot = Snapshot(
            1,
            (
                Segment(
                    self.postings,
                    [DocId(f"{name}/{i}") for i in range(n)],
                    np.arange(n, dtype=np.int32),
                    np.ones(n, np.bool_),
                    np.array([rights for _, rights in texts], np.int32),
                ),
            ),
            tuple(PodId(f"{name}/pod{i}") for i in range(n)),
            RIGHTS,
        )
        self._views: dict[Reader, ReaderView] = {}

    def set_rights(self, document: int, rights: int) -> None:
        (segment,) = self.snapshot.segments
        changed = segment.rights.copy()
        changed[document] = rights
        version = self.snapshot.version + 1
        self.snapshot = self.snapshot._replace(
            version=version, segments=(segment._replace(rights=changed),)
        )
        self._views.clear()

    def view(self, reader: Reader) -> ReaderView:
        view = self._views.get(reader)
        if view is None:
            view = self._views[reader] = ReaderView(self.snapshot, reader)
        return view

    def version(self, reader: Reader) -> int:
        return self.view(reader).version


def small_server(
    server_id: str, index: SmallIndex | None = None, *, limits: RequestLimits | None = None
) -> SearchServer:
    name = ServerId(server_id)
    held = index or SmallIndex(name=server_id)

    def open_node(reader: Reader) -> ShardNode:
        return ShardNode(name, lambda: held.view(reader))

    return SearchServer(name, open_node, version=held.version, limits=limits)


def compile_kernels() -> None:
    """Ask once, so that no time limit measures the compiler."""
    server = small_server("warm")
    server.ask(STRANGER, SubQuery(("fever", "cough"), ModelSettings(), 10))
    server.ask(STRANGER, SummaryRequest(("fever",), n_best=1, with_pairs=True, all_terms=True))
    SelectorTable.from_bytes(server.ask(STRANGER, TableRequest()).content).summary(["fever"])


def trusted(issuer: TokenIssuer) -> TrustedIssuer:
    return TrustedIssuer(
        issuer=issuer.issuer,
        keys=issuer.public_keys(),
        audience=FEDERATION,
        agent_prefixes=(ISSUER,),
        group_prefixes=(ISSUER,),
    )


def new_issuer(key_id: str = "key-1", **options: object) -> TokenIssuer:
    return TokenIssuer(ISSUER, FEDERATION, key_id, **options)  # type: ignore[arg-type]


def credential(issuer: TokenIssuer, agent: AgentId = ALICE, **options: object) -> Credential:
    holder = new_holder_key()
    return Credential(issuer.issue(agent, holder, **options), holder)  # type: ignore[arg-type]
