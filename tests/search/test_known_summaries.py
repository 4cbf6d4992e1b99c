from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloister.core.ids import ServerId
from cloister.index.reader_view import ReaderView
from cloister.search.asking import ask_in_turn
from cloister.search.known_summaries import KnownSummaries
from cloister.search.node import SummaryRequest
from cloister.search.shard_node import ShardNode
from search.small_world import ALICE, WORDS, Note, snapshot, worlds


class Server:
    """A server whose notes can be exchanged, and who remembers what it was asked."""

    def __init__(self, notes: list[Note]) -> None:
        self.requests: list[SummaryRequest] = []
        self._node = ShardNode(ServerId("s0"), lambda: self._view)
        self.server_id = self._node.server_id
        self.commit(notes)

    def commit(self, notes: list[Note]) -> None:
        self._view = ReaderView(snapshot(notes), ALICE)

    def summarise(self, request: SummaryRequest):
        self.requests.append(request)
        return self._node.summarise(request)

    def answer(self, query):
        return self._node.answer(query)


NOTES = [Note("d1", "p1", "s0", "asthma cough"), Note("d2", "p2", "s0", "asthma fever")]


def test_what_is_known_is_not_asked_for_again():
    server = Server(NOTES)
    known = KnownSummaries([server], ask_in_turn, 2)
    known.gather(["asthma", "cough"])
    known.gather(["cough", "fever", "asthma"])
    known.gather(["fever"])
    assert [request.terms for request in server.requests] == [("asthma", "cough"), ("fever",), ()]


def test_a_new_version_is_asked_for_everything():
    server = Server(NOTES)
    known = KnownSummaries([server], ask_in_turn, 2)
    known.gather(["asthma"])
    server.commit(NOTES[:1])
    (summary,), missing = known.gather(["asthma"])
    assert missing == ()
    assert summary.terms["asthma"].n_documents == 1
    assert [request.terms for request in server.requests] == [("asthma",), (), ("asthma",)]


steps = st.lists(
    st.tuples(
        st.one_of(st.none(), worlds(max_servers=1, max_notes=4)),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


@given(steps, st.integers(0, 2))
def test_what_is_kept_is_what_the_server_would_say_now(drawn, n_best):
    server = Server(NOTES)
    known = KnownSummaries([server], ask_in_turn, n_best)
    for notes, terms, with_pairs, all_terms in drawn:
        if notes is not None:
            server.commit(notes)
        (summary,), _ = known.gather(terms, with_pairs=with_pairs, all_terms=all_terms)
        fresh = server._node.summarise(SummaryRequest(tuple(terms), n_best, with_pairs, all_terms))
        assert {term: summary.terms[term] for term in terms if term in summary.terms} == {
            term: fresh.terms[term] for term in terms if term in summary.terms
        }
        assert all(
            fresh.terms[term].n_documents == 0 for term in terms if term not in summary.terms
        )
        assert (summary.version, summary.n_tokens) == (fresh.version, fresh.n_tokens)
        if with_pairs:
            assert summary[3:6] == fresh[3:6]
        if all_terms:
            assert all(
                summary.terms[term][:3] == found[:3]
                for term, found in fresh.terms.items()
                if found.n_documents
            )


def test_a_summary_that_leaves_terms_out_is_not_taken():
    server = Server(NOTES)

    def ask(nodes, request):
        answers, missing = ask_in_turn(nodes, request)
        return {name: one._replace(terms={}) for name, one in answers.items()}, missing

    assert KnownSummaries([server], ask, 0).gather(["asthma"]) == ([], ("s0",))
    assert KnownSummaries([server], ask, 0).gather([], all_terms=True) == ([], ("s0",))
