"""A small collection to rank, with word vectors: documents of six topics, and noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cloister.lab.neural.trial_settings import NeuralTrialSettings
from cloister.rank.forest import ForestSettings
from cloister.rank.kernel_ranker import KernelRankerSettings
from cloister.rank.layer_fitting import LayerSettings
from cloister.rank.neural_training import NeuralTraining
from cloister.rank.query_length_forests import QueryLengthForestSettings

N_TOPICS, N_WORDS, N_DOCUMENTS, N_QUERIES = 6, 8, 90, 48


def write_collection(folder: Path) -> Path:
    """Write a collection in the BEIR layout with three splits, and ``vectors.txt`` beside it."""
    rng = np.random.default_rng(5)
    words = [[f"w{topic}x{i}" for i in range(N_WORDS)] for topic in range(N_TOPICS)]
    noise = [f"noise{i}" for i in range(20)]
    folder.mkdir(parents=True)
    (folder / "qrels").mkdir()
    topics = rng.integers(N_TOPICS, size=N_DOCUMENTS)
    with (folder / "corpus.jsonl").open("w") as corpus:
        for number, topic in enumerate(topics.tolist()):
            text = [*rng.choice(words[topic], 8), *rng.choice(noise, 8)]
            rng.shuffle(text)
            corpus.write(json.dumps({"_id": f"d{number}", "text": " ".join(text)}) + "\n")
    splits: dict[str, list[str]] = {name: [] for name in ("train", "dev", "test")}
    with (folder / "queries.jsonl").open("w") as queries:
        for number in range(N_QUERIES):
            topic = int(rng.integers(N_TOPICS))
            text = [*rng.choice(words[topic], 2, replace=False), str(rng.choice(noise))]
            queries.write(json.dumps({"_id": f"q{number}", "text": " ".join(text)}) + "\n")
            split = ("train", "train", "dev", "test")[number % 4]
            for document in np.flatnonzero(topics == topic).tolist():
                splits[split].append(f"q{number}\td{document}\t{1 + document % 2}")
    for name, lines in splits.items():
        text = "\n".join(["query-id\tcorpus-id\tscore", *lines])
        (folder / "qrels" / f"{name}.tsv").write_text(text + "\n")
    _write_vectors(folder / "vectors.txt", words, noise, rng)
    return folder


def _write_vectors(
    path: Path, words: list[list[str]], noise: list[str], rng: np.random.Generator
) -> None:
    centres = rng.normal(size=(N_TOPICS, 10))
    with path.open("w") as file:
        for topic, own in enumerate(words):
            for word in own:
                vector = centres[topic] + 0.7 * rng.normal(size=10)
                file.write(f"{word} {' '.join(f'{v:.4f}' for v in vector)}\n")
        for word in noise:
            file.write(f"{word} {' '.join(f'{v:.4f}' for v in rng.normal(size=10))}\n")


def small_settings(folder: Path, **given: object) -> NeuralTrialSettings:
    """Return the settings of a trial that takes seconds."""
    training = NeuralTraining(n_epochs=1, pairs_per_query=5, max_document_terms=50)
    small: dict[str, object] = {
        "data": str(folder),
        "name": "nfcorpus",
        "vectors": str(folder / "vectors.txt"),
        "n_filters": 8,
        "convolutions": training,
        "drmm": training,
        "layer": LayerSettings(n_seeds=1, fit=KernelRankerSettings(n_epochs=5)),
        "n_positions": 2,
        "n_parts": 2,
        "min_phrase_documents": 1,
        "min_pair_documents": 1,
        "min_size": 3,
        "forests": QueryLengthForestSettings(
            forest=ForestSettings(n_trees=5, n_leaves=4, min_leaf_rows=5)
        ),
    }
    return NeuralTrialSettings.model_validate(small | given)
