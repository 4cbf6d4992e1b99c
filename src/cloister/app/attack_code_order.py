"""``cloister attack code-order``: order, values and occurrence from the codes of private trees."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.attack_cloud_scene import (
    WORLD,
    AttackedData,
    AttackSeed,
    AttackVectors,
    CloudScene,
)
from cloister.app.attack_tree_codes import N_QUERIES, AttackedQueries
from cloister.app.output import JsonFlag, command_result, progress, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cloister.app.attack_tree_codes import GrownCodes
    from cloister.rank.tree_features import TreeFeatures

    Rows = NDArray[np.float32]

__all__ = ["code_order"]

Result = dict[str, Any]

TREES: Final = (10, 50, 200)
N_WORDS: Final = 100  # whose coded features are attacked
TELLING: Final = (
    "tf",
    "relative_tf",
    "bm25",
    "tf_idf",
    "earliness",
)  # 0 just where the word is not
KNOWN: Final = 0.1  # share of rows whose values the server knows


class CodedFeatures(StrEnum):
    """Which features trees have."""

    T1 = "T1"
    T2 = "T2"


def _show(result: Result) -> None:
    attacks = result["attacks"]
    sorted_by = ("by_codes", "by_intervals", "by_paths")
    rows = [
        [one["features"], one["trees"], one["n_columns"], *(f"{one[by]:.3f}" for by in sorted_by)]
        for one in attacks
    ]
    columns = ["features", "trees", "coded", "by codes", "by intervals", "by paths"]
    table("documents sorted by features of queried words", columns, rows)
    rows = [
        [
            one["features"],
            one["trees"],
            _of(one["occurrence"], lambda found: f"{found['found']['accuracy']:.3f}"),
            _of(one["occurrence"], lambda found: f"{found['without_codes']:.3f}"),
            _of(one["values"], lambda found: f"{found['by_known_rows']:.3f}"),
            _of(one["values"], lambda found: f"{found['by_counting']:.3f}"),
            _of(one["values"], lambda found: f"{found['without_codes']:.3f}"),
        ]
        for one in attacks
    ]
    columns = ["features", "trees", "tf > 0", "no codes", "tf", "none known", "no codes"]
    table("whether and how often a queried word occurs: guessed right", columns, rows)
    typer.echo(
        "coded: features of a word that trees ask for; by codes, by intervals, by paths: "
        "Spearman's correlation of the order that the server finds with the true one, medians over "
        f"these features. tf: with {KNOWN:.0%} of the rows known; none known: with no row known; "
        "no codes: the best guess without them; - where no tree asks for it. Plain values would "
        "give 1 everywhere; without trees on the server there are no codes. "
        f"{result['seconds']:.0f} s"
    )


def _of(found: Result | None, shown: Any) -> str:
    return "-" if found is None else shown(found)


@command_result(_show)
def code_order(
    data: AttackedData = WORLD,
    vectors: AttackVectors = None,
    trees: Annotated[
        list[int] | None,
        typer.Option(
            help="Of the forest. May be given often.", min=1, max=10_000, show_default="10, 50, 200"
        ),
    ] = None,
    features: Annotated[
        list[CodedFeatures] | None,
        typer.Option(help="Of the trees. May be given often.", show_default="T1, T2"),
    ] = None,
    queries: AttackedQueries = N_QUERIES,
    min_size: Annotated[int, typer.Option(help="p of the closures.", min=1, max=1000)] = 5,
    seed: AttackSeed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Sort documents, find those with a word, and guess its frequencies, by codes alone.

    Needs the extra `trees`.
    """
    start = time.perf_counter()
    scene = _CodeScene(data, vectors, min_size, seed)
    attacks: list[Result] = []
    sizes = list(dict.fromkeys(trees or TREES))
    kinds = list(dict.fromkeys(features or CodedFeatures))
    with progress("attack codes") as advance:
        for kind in kinds:
            for found in scene.attacks(kind.value, queries, sizes):
                attacks.append(found)
                advance(len(attacks), len(kinds) * len(sizes))
    return {
        "attacks": attacks,
        "scene": scene.scene.as_dict(),
        "settings": {
            "data": data, "queries": queries, "words": N_WORDS, "min_size": min_size,
            "known": KNOWN, "seed": seed,
        },
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


class _CodeScene:
    """Queried words with the documents of their closures, whose features are coded."""

    def __init__(self, data: str, vectors: Path | None, min_size: int, seed: int) -> None:
        from cloister.cloud.closure_pairs import closure_pairs
        from cloister.rank.kernel_pooling import GramCounts

        self.scene, self._seed = CloudScene(data, vectors), seed
        counts = self.scene.collection.texts.counts
        closures = self.scene.closures(min_size)
        pairs = closure_pairs(closures, GramCounts.of_terms(counts))
        self._documents = {
            word: pairs.of(int(closures.labels[counts.positions[word]])) for word in self._words()
        }

    def attacks(
        self, kind: str, n_queries: int, numbers_of_trees: Sequence[int]
    ) -> Iterator[Result]:
        """Grow trees on features of a kind, code the words' features, and attack the codes."""
        from cloister.app.attack_tree_codes import CodedTrees

        trees = CodedTrees(self.scene.collection, kind, n_queries, self._seed)
        rows, held = self._word_rows(trees.features)
        for n_trees in numbers_of_trees:
            grown = trees.grow(n_trees)
            yield {
                "features": kind,
                "trees": n_trees,
                "queries": trees.n_queries,
                "forests": grown.n_forests,
                **self._order(grown, trees.features.names, rows),
                **self._recovered(grown, trees.scale_names, rows, held),
            }

    def _order(self, grown: GrownCodes, names: Sequence[str], rows: Rows) -> Result:
        """Say how well rows are sorted by the features of the word."""
        import numpy as np

        from cloister.adversary.code_order_recovery import recover_order
        from cloister.privacy.mechanisms.aes_noise import SeededWords

        words, every = SeededWords(self._seed), range(grown.n_forests)
        order = recover_order(grown.codes, rows, names, forests=every, words=words)
        order = [one for one in order if one.feature.endswith("[1]")]  # the word's own place
        medians = {
            name: float(np.median([getattr(one, name) for one in order])) if order else 0.0
            for name in ("n_thresholds", "by_codes", "by_intervals", "by_paths")
        }
        return {"n_columns": len(order), **medians, "order": [one._asdict() for one in order]}

    def _recovered(
        self, grown: GrownCodes, scale_names: Sequence[str], rows: Rows, held: NDArray[np.bool_]
    ) -> Result:
        """Say how well occurrence and frequencies are found; None where no tree asks for any."""
        from cloister.adversary.code_order_recovery import coded_column, recover_values
        from cloister.adversary.occurrence_recovery import recover_occurrence
        from cloister.core.random import stream
        from cloister.privacy.mechanisms.aes_noise import SeededWords

        place = {scale: column for column, scale in reversed(list(enumerate(scale_names)))}
        told = [scale for scale in grown.scales if scale[0] in TELLING]
        columns = {
            scale: coded_column(
                grown.codes, scale, rows[:, place[scale[0]]],
                forests=range(grown.n_forests), words=SeededWords(self._seed + 1 + number),
            )
            for number, scale in enumerate(told)
        }  # fmt: skip
        found: Result = {"occurrence": None, "values": None}
        if columns:
            found["occurrence"] = recover_occurrence(list(columns.values()), held).as_dict()
        frequencies = [scale for scale in told if scale[0] == "tf"]
        if frequencies:
            rng = stream(self._seed, "attack code-order", "known")
            known = rng.permutation(len(rows))[: max(1, round(KNOWN * len(rows)))]
            truth = rows[:, place["tf"]]
            found["values"] = recover_values(columns[frequencies[0]], known, truth)._asdict()
        return found

    def _words(self) -> list[str]:
        """Draw words that queries and documents have."""
        from cloister.core.random import stream

        collection = self.scene.collection
        asked = {term for query in collection.queries for term in query.terms}
        words = sorted(asked & set(collection.texts.counts.positions))
        rng = stream(self._seed, "attack code-order", "words")
        drawn: list[str] = rng.permutation(words)[:N_WORDS].tolist()
        return drawn

    def _word_rows(self, features: TreeFeatures) -> tuple[Rows, NDArray[np.bool_]]:
        """Return features of words in their closures' documents, and who holds the word."""
        import numpy as np

        counts = self.scene.collection.texts.counts
        rows, held = [], []
        for word, documents in self._documents.items():
            rows.append(features.of([word], documents))
            held.append(counts.term_counts([word], documents)[0] > 0)
        return np.concatenate(rows), np.concatenate(held)
