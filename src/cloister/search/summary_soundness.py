"""Whether what a server says of itself can be true.

A server that lies within these limits is not found out.
"""

from __future__ import annotations

from typing import Final

from cloister.core.ids import ServerId
from cloister.search.node import ServerSummary, SummaryRequest, TermSummary

__all__ = ["is_sound"]

MAX_NUMBER: Final = 2**63  # what a server says is put into arrays


def is_sound(summary: ServerSummary, server_id: ServerId, request: SummaryRequest) -> bool:
    """Say whether a summary is that server's answer to the request and its numbers can be true."""
    sizes = (summary.version, summary.n_tokens, *summary.documents, *summary.pods, summary.n_terms)
    return (
        summary.server_id == server_id
        and all(term in summary.terms for term in request.terms)
        and all(0 <= n < MAX_NUMBER for n in sizes)
        and all(_sound_term(found, summary) for found in summary.terms.values())
        and (not request.all_terms or _is_complete(summary))
    )


def _is_complete(summary: ServerSummary) -> bool:
    return sum(one.n_occurrences for one in summary.terms.values()) == summary.n_tokens


def _sound_term(found: TermSummary, summary: ServerSummary) -> bool:
    """Say whether what is told of a term can be true."""
    in_lists = 0
    for document, n_occurrences, length in found.best:
        if not (0 <= document < MAX_NUMBER and 1 <= n_occurrences <= length < MAX_NUMBER):
            return False
        in_lists += n_occurrences
    return (
        len(found.best) <= found.n_documents <= summary.documents.n_entities
        and 0 <= found.n_pods <= summary.pods.n_entities
        and max(found.n_documents, in_lists) <= found.n_occurrences <= summary.n_tokens
    )
