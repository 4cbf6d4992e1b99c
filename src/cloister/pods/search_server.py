"""A server that answers searches: it verifies who asks, then asks the index as that reader.

Whatever carries a request, it passes here, next to the data. All that goes wrong gives the same
refusal: a wrong token, a malformed request and a failure inside look alike to whoever asks. Time is
not hidden: a request with a wrong token is refused sooner than others.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from pydantic import Field

from cloister.core.errors import DataError, SettingsError
from cloister.core.ids import MAX_ID_LENGTH, ServerId, checked_id
from cloister.core.rights import Reader
from cloister.core.settings import Settings
from cloister.pods.overlay.frames import AskFrame, ReplyFrame, ReplyKind
from cloister.pods.overlay.proofs import ProofVerifier
from cloister.pods.overlay.tokens import refused
from cloister.pods.overlay.wire import decode_question, encode_answer
from cloister.search.asking import ask_node
from cloister.search.node import (
    NodeAnswer,
    NodeRequest,
    SearchNode,
    SubQuery,
    TableRequest,
)
from cloister.search.table_settings import TableSettings

__all__ = ["RequestLimits", "SearchServer"]

_KEPT_READERS: Final = 256
_log: Final = logging.getLogger(__name__)


class RequestLimits(Settings):
    """What one request may ask for; more is refused.

    Parameters
    ----------
    n_terms, term_characters
        Terms of a query, and how long each may be.
    k
        Documents of an answer.
    n_best
        Documents named for each term of a summary or a table.
    all_terms
        Whether a summary of all that the reader may read is given; it is as long as their
        vocabulary.
    table_bytes
        How long a selector table may be asked for; 0 where none is given. Its lists keep to it:
        what it says of each term is always there, about 3 bytes a term.
    """

    n_terms: int = Field(default=256, ge=1)
    term_characters: int = Field(default=256, ge=1)
    k: int = Field(default=1_000, ge=1)
    n_best: int = Field(default=10_000, ge=0)
    all_terms: bool = True
    table_bytes: int = Field(default=2_000_000, ge=0)

    def check(self, request: NodeRequest) -> None:
        """Raise `DataError` where a request asks for too much, or for nothing sensible.

        Examples
        --------
        >>> from cloister.search.node import SummaryRequest
        >>> RequestLimits(n_terms=1).check(SummaryRequest(("cough", "fever")))
        Traceback (most recent call last):
        ...
        cloister.core.errors.DataError: request: too many terms, or too long ones; ask for less
        """
        if isinstance(request, TableRequest):
            self._check_table(request.settings)
            return
        terms = request.terms
        if len(terms) > self.n_terms or any(len(one) > self.term_characters for one in terms):
            raise _too_much("too many terms, or too long ones")
        if isinstance(request, SubQuery):
            if not 1 <= request.k <= self.k or (request.n_pods is not None and request.n_pods < 1):
                raise _too_much(f"1 to {self.k} documents of at least one pod may be asked for")
            if len(request.only) > self.k or any(len(one) > MAX_ID_LENGTH for one in request.only):
                raise _too_much(f"at most {self.k} documents may be asked for by name")
        elif not 0 <= request.n_best <= self.n_best or (request.all_terms and not self.all_terms):
            raise _too_much(f"0 to {self.n_best} documents of a term may be asked for")

    def _check_table(self, settings: TableSettings) -> None:
        if not self.table_bytes:
            raise _too_much("no tables are given here")
        if settings.max_bytes > self.table_bytes or settings.n_best > self.n_best:
            raise _too_much(
                f"tables of {self.table_bytes} bytes and {self.n_best} documents a term at most"
            )


class SearchServer:
    """One server of a federation; threads may share it.

    Parameters
    ----------
    server_id
        Its name.
    open_node
        Gives the server as one reader reaches it. What it gives is used again for later requests
        of that reader, so it must look at the current state, and the current rights, each time.
    version
        Gives the number that `open_node` would put into its answers to this reader now. With it, a
        searcher who has a summary or table of this version is told so instead of being sent it
        again.
    answers_by_version
        Whether that holds for documents too. Only where nothing but the index decides what an
        answer shows: not where each text is asked for at its pod.
    """

    def __init__(
        self,
        server_id: ServerId,
        open_node: Callable[[Reader], SearchNode],
        *,
        version: Callable[[Reader], int] | None = None,
        answers_by_version: bool = False,
        limits: RequestLimits | None = None,
    ) -> None:
        self.server_id = ServerId(checked_id(server_id))
        self._open_node = open_node
        self._version = version
        self._answers_by_version = answers_by_version
        self._limits = limits or RequestLimits()
        self._lock = threading.Lock()
        self._nodes: OrderedDict[Reader, SearchNode] = OrderedDict()

    def reply(self, ask: AskFrame, verifier: ProofVerifier) -> ReplyFrame:
        """Answer a request that came over a network; raise `AccessDenied`, with no reason."""
        asker = verifier.verify(ask.token, ask.proof, ask.signed_part())
        reader = asker.token.reader
        try:
            question = decode_question(ask.question)
            self._limits.check(question.request)
            if self._is_current(reader, question.request, question.known_version):
                return ReplyFrame(ReplyKind.UNCHANGED, asker.nonce)
            content = encode_answer(ask_node(self._node(reader), question.request))
        except Exception as error:  # the boundary: no failure tells the searcher anything
            _log.warning("%s: a request failed: %s", self.server_id, type(error).__name__)
            raise refused() from None
        return ReplyFrame(ReplyKind.ANSWER, asker.nonce, content)

    def ask(self, reader: Reader, request: NodeRequest) -> NodeAnswer:
        """Answer a reader whom the caller has verified; raise `AccessDenied`, with no reason."""
        try:
            self._limits.check(request)
            return ask_node(self._node(reader), request)
        except DataError:
            raise
        except Exception as error:
            _log.warning("%s: a request failed: %s", self.server_id, type(error).__name__)
            raise refused() from None

    def _is_current(self, reader: Reader, request: NodeRequest, known: int | None) -> bool:
        if known is None or self._version is None:
            return False
        if isinstance(request, SubQuery) and not self._answers_by_version:
            return False
        return self._version(reader) == known

    def _node(self, reader: Reader) -> SearchNode:
        with self._lock:
            node = self._nodes.get(reader)
            if node is None:
                node = self._nodes[reader] = self._open_node(reader)
                if node.server_id != self.server_id:
                    del self._nodes[reader]
                    raise SettingsError("the node of another server", where=self.server_id)
            self._nodes.move_to_end(reader)
            while len(self._nodes) > _KEPT_READERS:
                self._nodes.popitem(last=False)
            return node


def _too_much(what: str) -> DataError:
    return DataError(what, where="request", remedy="ask for less")
