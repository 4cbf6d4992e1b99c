"""Trees for attacks on codes: grown on a collection's training queries, coded as in an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cloister.adversary.code_order_recovery import CodedColumn
    from cloister.cloud.private_trees import TreeCodes
    from cloister.data.ranking_data import RankingData
    from cloister.lab.neural.collection import RankingCollection

__all__ = ["AttackedQueries", "CodedTrees", "GrownCodes", "PriorLinks", "prior_columns"]

N_QUERIES: Final = 400
_PRIOR: Final = "prior."

AttackedQueries = Annotated[
    int,
    typer.Option(
        "--queries", help="Of the collection's training queries that trees grow on.", min=2
    ),
]


class GrownCodes(NamedTuple):
    """Codes of forests, as in an index.

    Parameters
    ----------
    codes
        Of all forests, which share scales.
    n_forests
        How many there are.
    """

    codes: TreeCodes
    n_forests: int

    @property
    def scales(self) -> list[tuple[str, int]]:
        """Name and kind of every scale that a tree asks for."""
        every = range(self.n_forests)
        codes = self.codes
        return sorted({codes.scale(column, one) for one in every for column in codes.columns(one)})


class CodedTrees:
    """Tree features of a collection, and forests of any size on its training queries.

    Parameters
    ----------
    collection
        Whose queries teach: those of its own training split, or of a drawn fold.
    kind
        T1 or T2.
    n_queries
        Of those whose candidates differ in grade.
    seed
        Of the queries that are drawn, and of the trees.
    """

    def __init__(self, collection: RankingCollection, kind: Any, n_queries: int, seed: int) -> None:
        from cloister.cloud.feature_codes import feature_scale
        from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

        settings = TreeFeatureSettings(kind=kind, combined=False)
        self.features = TreeFeatures(collection.texts, collection.priors, settings)
        self.scale_names = [feature_scale(name) for name in self.features.names]
        self._seed = seed
        self._rows, self._lengths = self._training(collection, n_queries)

    @property
    def n_queries(self) -> int:
        """How many queries teach."""
        return len(self._lengths)

    def grow(self, n_trees: int) -> GrownCodes:
        """Grow so many trees a forest, one forest for each length of query with enough queries."""
        from cloister.cloud.private_trees import TreeCodes
        from cloister.rank.forest import ForestSettings
        from cloister.rank.query_length_forests import (
            QueryLengthForestSettings,
            fit_query_length_forests,
        )

        settings = QueryLengthForestSettings(forest=ForestSettings(n_trees=n_trees))
        grown = fit_query_length_forests(self._rows, self._lengths, settings, seed=self._seed)
        forests = [grown.common, *grown.by_length.values()]
        codes = TreeCodes(bytes(32), forests, [self.scale_names] * len(forests))
        return GrownCodes(codes, len(forests))

    def _training(
        self, collection: RankingCollection, n_queries: int
    ) -> tuple[RankingData, list[int]]:
        import numpy as np

        from cloister.core.random import stream
        from cloister.lab.neural.candidates import find_candidates
        from cloister.lab.neural.folds import query_folds
        from cloister.rank.query_length_forests import tree_rows

        candidates = find_candidates(collection)
        training = query_folds(collection, seed=self._seed)[0].training
        drawn = stream(self._seed, "attacked trees", "queries").permutation(training).tolist()
        kept = [query for query in drawn if len(np.unique(candidates[query].grades)) > 1]
        kept = kept[:n_queries]
        terms = [collection.queries[query].terms for query in kept]
        chosen = [candidates[query] for query in kept]
        rows = tree_rows(
            self.features,
            terms,
            [one.documents for one in chosen],
            [one.grades for one in chosen],
        )
        return rows, [len(set(own)) for own in terms]


def prior_columns(
    grown: GrownCodes, priors: NDArray[np.float32], seed: int
) -> tuple[list[CodedColumn], list[int]]:
    """Return the codes of all documents' priors that trees ask for, and which priors these are.

    Raises
    ------
    DataError
        If no tree asks for any.
    """
    from cloister.adversary.code_order_recovery import coded_column
    from cloister.core.errors import DataError
    from cloister.privacy.mechanisms.aes_noise import SeededWords
    from cloister.rank.document_priors import PRIOR_NAMES

    scales = [scale for scale in grown.scales if scale[0].startswith(_PRIOR)]
    if not scales:
        raise DataError(
            "no tree asks for a prior of documents, so none is coded",
            where="--link-by-priors",
            remedy="grow more trees with --trees, or on other data",
        )
    places = [PRIOR_NAMES.index(name.removeprefix(_PRIOR)) for name, _ in scales]
    columns = [
        coded_column(
            grown.codes,
            scale,
            priors[:, place],
            forests=range(grown.n_forests),
            words=SeededWords(seed + 1 + number),
        )
        for number, (scale, place) in enumerate(zip(scales, places, strict=True))
    ]
    return columns, places


class PriorLinks:
    """Links known documents to the server's numbers by codes of priors; counts the right ones.

    Parameters
    ----------
    columns, places
        See `prior_columns`.
    priors
        Plain, of all documents; those of known ones are looked at.
    """

    def __init__(
        self, columns: list[CodedColumn], places: list[int], priors: NDArray[np.float32]
    ) -> None:
        self._columns, self._known = columns, priors[:, places]
        self._links: dict[bytes, NDArray[np.int64]] = {}
        self._shares: dict[bytes, float] = {}

    def __call__(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number that each known document is taken to have."""
        from cloister.adversary.document_linking import link_documents

        drawn = documents.tobytes()  # the same for every form of index
        if drawn not in self._links:
            links = link_documents(self._columns, self._known[documents])
            self._links[drawn] = links
            self._shares[drawn] = float((links == documents).mean())
        return self._links[drawn]

    @property
    def right_share(self) -> float:
        """Mean share of right links, over the draws of known documents."""
        return sum(self._shares.values()) / max(1, len(self._shares))
