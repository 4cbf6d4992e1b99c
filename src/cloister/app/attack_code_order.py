"""``cloister attack code-order``: order, values and occurrence from the codes of private trees."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.attack_cloud_scene import (
    WORLD,
    AttackedData,
    AttackSeed,
    AttackVectors,
    CloudScene,
)
from cloister.app.output import JsonFlag, command_result, progress, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cloister.rank.query_length_forests import QueryLengthForests
    from cloister.rank.tree_features import TreeFeatures

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
    rows = [
        [
            one["trees"],
            one["n_thresholds"],
            one["by_codes"],
            one["by_paths"],
            _of(one["occurrence"], lambda found: f"{found['found']['accuracy']:.3f}"),
            _of(one["occurrence"], lambda found: f"{found['without_codes']:.3f}"),
            _of(one["values"], lambda found: f"{found['by_known_rows']:.3f}"),
            _of(one["values"], lambda found: f"{found['without_codes']:.3f}"),
        ]
        for one in result["attacks"]
    ]
    columns = ["trees", "splits", "by codes", "by paths", "tf > 0", "no codes", "tf", "no codes"]
    table("what coded features of queried words tell the server", columns, rows)
    typer.echo(
        "splits, by codes, by paths: thresholds of a feature, and Spearman's correlation of the "
        "order that the server finds with the true one; medians over features. tf > 0, tf: right "
        f"guesses of whether and how often a word occurs, the latter with {KNOWN:.0%} of the rows "
        "known; beside them the best guess without codes. Plain values would give 1 everywhere; "
        f"without trees on the server there are no codes. {result['seconds']:.0f} s"
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
    features: Annotated[CodedFeatures, typer.Option(help="Of the trees.")] = CodedFeatures.T1,
    min_size: Annotated[int, typer.Option(help="p of the closures.", min=1, max=1000)] = 5,
    seed: AttackSeed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Sort documents, find those with a word, and guess its frequencies, by codes alone.

    Needs the extra `trees`.
    """
    start = time.perf_counter()
    scene = _CodeScene(data, vectors, features.value, min_size, seed)
    attacks = []
    with progress("attack codes") as advance:
        chosen = list(dict.fromkeys(trees or TREES))
        for done, n_trees in enumerate(chosen):
            advance(done, len(chosen))
            attacks.append(scene.attack(n_trees))
    return {
        "attacks": attacks,
        "scene": scene.scene.as_dict(),
        "settings": {
            "data": data, "features": features.value, "min_size": min_size, "known": KNOWN,
            "seed": seed,
        },
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


class _CodeScene:
    """Tree features of a collection's queries, and of words with their closures' documents."""

    def __init__(self, data: str, vectors: Any, kind: Any, min_size: int, seed: int) -> None:
        from cloister.rank.tree_features import TreeFeatures, TreeFeatureSettings

        self.scene, self._seed = CloudScene(data, vectors), seed
        collection = self.scene.collection
        settings = TreeFeatureSettings(kind=kind, combined=False)
        self._features: TreeFeatures = TreeFeatures(collection.texts, collection.priors, settings)
        self._scales = [name.partition("[")[0] for name in self._features.names]
        self._rows, self._held = self._word_rows(min_size)

    def attack(self, n_trees: int) -> Result:
        """Grow trees, code the words' features, and attack the codes."""
        import numpy as np

        from cloister.adversary.code_order_recovery import recover_order
        from cloister.cloud.private_trees import TreeCodes
        from cloister.privacy.mechanisms.aes_noise import SeededWords

        grown = self._grown(n_trees)
        forests = [grown.common, *grown.by_length.values()]
        codes = TreeCodes(bytes(32), forests, [self._scales] * len(forests))
        words = SeededWords(self._seed)
        every = range(len(forests))
        names = self._features.names
        order = recover_order(codes, self._rows, names, forests=every, words=words)
        order = [one for one in order if one.feature.endswith("[1]")]  # the word's own place
        medians = {
            name: float(np.median([getattr(one, name) for one in order])) if order else 0.0
            for name in ("n_thresholds", "by_codes", "by_intervals", "by_paths")
        }
        return {
            "trees": n_trees,
            "forests": len(forests),
            "n_columns": len(order),
            **medians,
            "order": [one._asdict() for one in order],
            **self._recovered(codes, every),
        }

    def _recovered(self, codes: Any, forests: range) -> Result:
        """Say how well occurrence and frequencies are found; None where no tree asks for any."""
        from cloister.adversary.code_order_recovery import coded_column, recover_values
        from cloister.adversary.occurrence_recovery import recover_occurrence
        from cloister.core.random import stream
        from cloister.privacy.mechanisms.aes_noise import SeededWords

        place = {scale: column for column, scale in reversed(list(enumerate(self._scales)))}
        asked = {codes.scale(column, one) for one in forests for column in codes.columns(one)}
        told = sorted(scale for scale in asked if scale[0] in TELLING)
        columns = {
            scale: coded_column(
                codes, scale, self._rows[:, place[scale[0]]],
                forests=forests, words=SeededWords(self._seed + 1 + number),
            )
            for number, scale in enumerate(told)
        }  # fmt: skip
        found: Result = {"occurrence": None, "values": None}
        if columns:
            found["occurrence"] = recover_occurrence(list(columns.values()), self._held).as_dict()
        frequencies = [scale for scale in told if scale[0] == "tf"]
        if frequencies:
            rng = stream(self._seed, "attack code-order", "known")
            known = rng.permutation(len(self._rows))[: max(1, round(KNOWN * len(self._rows)))]
            truth = self._rows[:, place["tf"]]
            found["values"] = recover_values(columns[frequencies[0]], known, truth)._asdict()
        return found

    def _grown(self, n_trees: int) -> QueryLengthForests:
        import numpy as np

        from cloister.lab.neural.candidates import find_candidates
        from cloister.rank.forest import ForestSettings
        from cloister.rank.query_length_forests import (
            QueryLengthForestSettings,
            fit_query_length_forests,
            tree_rows,
        )

        collection = self.scene.collection
        candidates = find_candidates(collection)
        kept = [q for q, one in enumerate(candidates) if len(np.unique(one.grades)) > 1]
        terms = [collection.queries[query].terms for query in kept]
        rows = tree_rows(
            self._features,
            terms,
            [candidates[query].documents for query in kept],
            [candidates[query].grades for query in kept],
        )
        settings = QueryLengthForestSettings(forest=ForestSettings(n_trees=n_trees))
        lengths = [len(set(own)) for own in terms]
        return fit_query_length_forests(rows, lengths, settings, seed=self._seed)

    def _word_rows(self, min_size: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return features of queried words in their closures' documents, and who holds the word."""
        import numpy as np

        from cloister.cloud.closure_pairs import closure_pairs
        from cloister.core.random import stream
        from cloister.rank.kernel_pooling import GramCounts

        collection = self.scene.collection
        counts = collection.texts.counts
        asked = {term for query in collection.queries for term in query.terms}
        words = sorted(asked & set(counts.positions))
        rng = stream(self._seed, "attack code-order", "words")
        closures = self.scene.closures(min_size)
        pairs = closure_pairs(closures, GramCounts.of_terms(counts))
        rows, held = [], []
        for word in rng.permutation(words)[:N_WORDS].tolist():
            documents = pairs.of(int(closures.labels[counts.positions[word]]))
            rows.append(self._features.of([word], documents))
            held.append(counts.term_counts([word], documents)[0] > 0)
        return np.concatenate(rows), np.concatenate(held)
