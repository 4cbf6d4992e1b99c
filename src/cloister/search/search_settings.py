"""How a search across servers goes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.index.entity_weights import ModelSettings
from cloister.search.adaptive_stop import StopSettings
from cloister.search.table_settings import TableSettings
from cloister.search.word_vector_ranking import VectorModel

__all__ = ["SearchSettings"]


class SearchSettings(Settings):
    """How a search goes.

    Parameters
    ----------
    model
        Ranks documents and pods, and servers where ``selection`` is ``entity``.
    statistics
        ``user``: of all that the user may read; ``global``: published; ``own``: each server takes
        the user's statistics on that server alone, and answers are merged by CORI.
    selection
        ``all`` asks every server; ``entity`` is the paper's way; ``best-impact`` and ``learned``
        look at each server's best documents.
    n_servers, n_pods
        How many servers are asked at most, and how many pods of each give documents.
    n_best
        How many best documents a server names for each term, where they are needed.
    stop
        When to ask no further server.
    vector_model
        Ranks servers, pods and documents by the user's word vectors, in the place of ``model``.
        ``selection`` is then ``entity`` or ``all``, and there are no statistics.
    summaries
        ``asked``: each query asks every server what it has. ``kept``: the user's selector table of
        each server says it, which is fetched once; servers that are not chosen are not asked.
        That needs ``bm25`` or ``lm``: vectors need all terms of all documents.
    table
        What tables are asked for, where they are kept; their lists are as long as ``table.n_best``
        and not ``n_best``.
    table_age_s
        For how long a table is used without asking its server whether it still holds.
    """

    model: ModelSettings = ModelSettings()
    statistics: Literal["user", "global", "own"] = "user"
    selection: Literal["all", "entity", "best-impact", "learned"] = "best-impact"
    n_servers: int | None = Field(default=None, ge=1)
    n_pods: int | None = Field(default=None, ge=1)
    n_best: int = Field(default=20, ge=1)
    stop: StopSettings = StopSettings()
    vector_model: VectorModel | None = None
    summaries: Literal["asked", "kept"] = "asked"
    table: TableSettings = TableSettings()
    table_age_s: float = Field(default=60.0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.stop.form != "never" and (self.statistics == "own" or self.is_vector):
            raise ValueError("an adaptive stop needs bm25 or lm, and user or global statistics")
        if self.statistics == "own" and self.selection == "all":
            raise ValueError("merging by CORI needs a selection that gives servers scores")
        if self.selection == "all" and self.n_servers is not None:
            raise ValueError("n_servers needs a selection that ranks servers")
        if self.summaries == "kept" and (self.is_vector or self.vector_model is not None):
            raise ValueError("kept tables hold no vectors: use bm25 or lm, or asked summaries")
        if self.vector_model is not None:
            self._fits_vectors()
        return self

    def _fits_vectors(self) -> None:
        if self.selection not in ("all", "entity"):
            raise ValueError("word vectors need the selection all or entity")
        if self.statistics != "user" or self.stop.form != "never":
            raise ValueError("word vectors need no statistics and have no adaptive stop")

    @property
    def is_vector(self) -> bool:
        """Whether the model is one of vectors, which needs all terms of all documents."""
        return self.model.model.startswith("tfidf")

    @property
    def needs_lists(self) -> bool:
        """Whether servers are asked for their best documents of each term."""
        return self.selection in ("best-impact", "learned") or self.stop.form != "never"
