"""What the attacks on private ranking work on: a collection, word vectors, closures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cloister.cloud.term_closures import TermClosures
    from cloister.lab.neural.collection import RankingCollection
    from cloister.rank.embedding import Embedding

__all__ = ["AttackSeed", "AttackVectors", "AttackedData", "CloudScene"]

WORLD: Final = "world:clinic?servers=3&pods=100&document_bytes=0&queries=90&staff=5"

AttackedData = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="PATH",
        help="The collection that is attacked: a folder, irds:NAME, or a clinic world.",
    ),
]
AttackVectors = Annotated[
    Path | None,
    typer.Option(
        "--vectors",
        metavar="FILE",
        help="Word vectors, as word2vec or GloVe write them.",
        show_default="from counts of the collection",
    ),
]
AttackSeed = Annotated[int, typer.Option("--seed", help="Of all that is drawn.", min=0)]


class CloudScene:
    """A collection and vectors of its words."""

    def __init__(self, data: str, vectors: Path | None) -> None:
        from cloister.app.cloud_collection import open_collection
        from cloister.lab.neural.collection import ranking_collection

        self.collection: RankingCollection = ranking_collection(data, open_collection(data))
        self.embedding = self._embedding(vectors)

    def _embedding(self, vectors: Path | None) -> Embedding:
        if vectors is not None:
            from cloister.rank.embedding_file import read_embedding

            return read_embedding(vectors, words=self.collection.texts.vocabulary)
        from cloister.rank.cooccurrence_embedding import cooccurrence_embedding

        return cooccurrence_embedding(self.collection.texts)

    def closures(self, min_size: int) -> TermClosures:
        """Return adaptive closures of the words, of at least so many terms each."""
        from cloister.cloud.adaptive_clustering import AdaptiveThresholds, adaptive_closures

        settings = AdaptiveThresholds(min_size=min_size)
        return adaptive_closures(self.collection.texts.vocabulary, self._vectors(), settings)

    def fixed_closures(self, threshold: float) -> TermClosures:
        """Return closures of words that are at least so similar, any two of them."""
        from cloister.cloud.fixed_threshold_clustering import FixedThreshold, fixed_closures

        settings = FixedThreshold(threshold=threshold)
        return fixed_closures(self.collection.texts.vocabulary, self._vectors(), settings)

    def _vectors(self) -> NDArray[np.float32]:
        """Return a vector of each word, of zeros where it has none."""
        import numpy as np

        words = self.collection.texts.vocabulary
        rows = self.embedding.rows(words)
        vectors = np.zeros((len(words), self.embedding.size), np.float32)
        vectors[rows >= 0] = self.embedding.vectors[rows[rows >= 0]]
        return vectors

    def as_dict(self) -> dict[str, Any]:
        """Return what was attacked."""
        return {
            "documents": self.collection.texts.n_documents,
            "words": len(self.collection.texts.vocabulary),
            "queries": len(self.collection.queries),
            "vectors": len(self.embedding),
        }
