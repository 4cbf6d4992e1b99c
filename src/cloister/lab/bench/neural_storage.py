"""What a private index takes, by what lies in it, and its soft match map beside other maps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cloister.cloud.box_layout import PHRASE_COLUMNS, WORD_COLUMNS
from cloister.cloud.closure_pairs import DOCUMENT_BYTES
from cloister.cloud.feature_codes import CODE_BITS
from cloister.cloud.query_opening import open_model
from cloister.cloud.rank_request import AskedBox
from cloister.cloud.ranking_keys import RankingKeys
from cloister.cloud.sealed_boxes import BoxKind, box_name
from cloister.lab.bench import Figures
from cloister.lab.bench.neural_index import BuiltScene
from cloister.lab.neural.map_cost import map_cost
from cloister.rank.kernel_pooling import count_grams
from cloister.rank.proximity_features import TermSequences

__all__ = ["storage"]


def storage(built: BuiltScene) -> Figures:
    """Return bytes a document: of the file, of the boxes of each kind, of what is in them.

    Levels and codes are counted as they lie in the boxes, without headers, padding and seals. A map
    is of words and phrases: levels, and numbers of documents; nothing is sealed there.
    """
    index, n = built.index, built.index.n_documents
    sealed = {kind: sum(sizes) for kind, sizes in _box_sizes(built)}
    plain = _plain_bytes(built)
    maps = _map_bytes(built)
    apart = sum(sealed.values()) + index.document_names.nbytes
    return {
        "index_mb": index.size_bytes / 1e6,
        "index_bytes_per_document": index.size_bytes / n,
        **{f"{kind}_boxes_bytes_per_document": size / n for kind, size in sealed.items()},
        "names_bytes_per_document": index.document_names.nbytes / n,
        "labels_bytes_per_document": (index.size_bytes - apart) / n,
        **{f"{name}_bytes_per_document": size / n for name, size in plain.items()},
        **{f"{name}_map_bytes_per_document": size / n for name, size in maps.items()},
        "closed_map_share_of_full": maps["closed"] / maps["full"],
        "closed_map_times_open": maps["closed"] / maps["open"],
    }


def _box_sizes(built: BuiltScene) -> Iterator[tuple[BoxKind, list[int]]]:
    """Return the sizes of the sealed boxes of each kind."""
    keys, boxes = built.keys, built.dictionary.boxes
    closures = {"word": keys.word_closures, "phrase": keys.phrase_closures}
    names: dict[BoxKind, list[str]] = {
        "model": [""],
        "word": list(keys.words),
        "phrase": [box_name(*phrase) for phrase in keys.phrases],
        "closure": [
            box_name(kind, str(number))
            for kind, found in closures.items()
            for number in range(found.n_closures)
        ],
        "pair": [box_name(*pair) for pair in keys.pairs],
    }
    for kind, own in names.items():
        sealed = (built.index.box(boxes.token(kind, name).label) for name in own)
        yield kind, [len(box) for box in sealed if box is not None]


def _plain_bytes(built: BuiltScene) -> dict[str, int]:
    """Return the bytes of levels and codes in the boxes of words, phrases and pairs."""
    keys = built.keys
    model = open_model(built.index, AskedBox(**built.dictionary.boxes.token("model")._asdict()))
    level = built.scene.ranker.settings.obfuscation.dtype.itemsize
    code = CODE_BITS // 8
    words, phrases = _held(keys)
    pairs = sum(map(len, keys.pair_documents)) if len(model.pair_zeros) else 0
    return {
        "word_levels": words * WORD_COLUMNS * level,
        "word_codes": words * len(model.term_zeros) * code,
        "phrase_levels": phrases * PHRASE_COLUMNS * level,
        "pair_codes": pairs * len(model.pair_zeros) * code,
    }


def _held(keys: RankingKeys) -> tuple[int, int]:
    """Return how many (word, document) and (phrase, document) the closures hold."""
    words = np.diff(keys.word_documents.starts) @ keys.word_closures.sizes
    phrases = np.diff(keys.phrase_documents.starts) @ keys.phrase_closures.sizes
    return int(words), int(phrases)


def _map_bytes(built: BuiltScene) -> dict[str, float]:
    """Return the bytes of the closed map, of one of what occurs only, and of the full one."""
    texts, settings = built.scene.collection.texts, built.scene.ranker.settings
    cost = map_cost(
        built.keys,
        settings.obfuscation,
        n_documents=texts.n_documents,
        min_size=settings.closures.min_size,
    )
    level = settings.obfuscation.dtype.itemsize
    occurring = len(texts.counts.terms) * (WORD_COLUMNS * level + DOCUMENT_BYTES)
    occurring += _phrase_occurrences(texts, built.keys) * (PHRASE_COLUMNS * level + DOCUMENT_BYTES)
    return {"closed": cost.closed_bytes, "open": occurring, "full": cost.full_bytes}


def _phrase_occurrences(texts: TermSequences, keys: RankingKeys) -> int:
    """Return in how many documents each phrase occurs, all added up."""
    grams = count_grams([texts.document(number) for number in range(texts.n_documents)], 2)
    vocabulary = grams.vocabulary
    known = keys.phrase_numbers
    is_key = np.array([(vocabulary[a], vocabulary[b]) in known for a, b in grams.words.tolist()])
    return int(is_key[grams.places].sum()) if len(is_key) else 0
