"""The counts of the real collections, as their README lists them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloister.core.errors import NotFound
from cloister.data.inspection import inspect

LETOR = {
    "ltr/mq2008": {
        "queries": 784, "documents": 15_211, "features": 46,
        "labels": {0: 12_279, 1: 2_001, 2: 931}, "layout": "parts", "folds": 5,
    },
    "ltr/mq2007-agg": {
        "queries": 1_692, "documents": 69_623, "features": 21,
        "labels": {0: 51_632, 1: 14_128, 2: 3_863},
    },
    "ltr/clueweb09": {
        "queries": 61, "documents": 26_646, "features": 42,
        "labels": {0: 21_808, 1: 3_274, 2: 1_242, 3: 172, 4: 150},
    },
    "ltr/mslr-web-sample": {"queries": 86, "documents": 10_000, "features": 136},
    "ltr/lightgbm-rank": {"queries": 251, "documents": 3_773, "features": 300},
}  # fmt: skip
PARTS = {
    "ltr/mq2008": {"S1": 157, "S2": 157, "S3": 157, "S4": 157, "S5": 156},
    "ltr/mq2007-agg": {"A1": 339, "A2": 339, "A3": 339, "A4": 339, "A5": 336},
    "ltr/clueweb09": {"part1": 12, "part2": 12, "part3": 12, "part4": 12, "part5": 13},
    "ltr/mslr-web-sample": {"fold1.train.5k": 43, "fold1.test.5k": 43},
    "ltr/lightgbm-rank": {"rank.train": 201, "rank.test": 50},
}
TEXT = {
    "text/nfcorpus": {"documents": 3_395, "queries": 3_244, "judgements": 169_204},
    "text/medquad": {
        "documents": 17_896, "queries": 104, "judged_queries": 103, "judgements": 2_311,
        "labels": {0: 1_366, 1: 614, 2: 189, 3: 142},
    },
    "text/med": {"documents": 1_033, "queries": 30, "judgements": 696, "labels": {1: 696}},
    "text/cranfield": {
        "documents": 1_400, "empty_documents": 2, "queries": 225, "judgements": 1_837,
        "labels": {0: 225, 1: 363, 2: 734, 3: 387, 4: 128},
    },
    "text/cisi": {
        "documents": 1_460, "queries": 112, "judged_queries": 76, "judgements": 3_114,
    },
    "text/trecdl-msmarco-5k": {
        "documents": 5_000, "queries": 50, "judged_queries": 43, "judgements": 4_102,
        "labels": {1: 1_601, 2: 1_804, 3: 697},
    },
    "text/mediqa2019-qa": {"queries": 104 + 104 + 25 + 150, "documents": 839 + 862 + 234 + 1_107},
    "text/pubmedqa-l": {"queries": 1_000, "documents": 1_000},
    "text/wikiqa": {"queries": 873 + 126 + 243, "documents": 8_672 + 1_130 + 2_351},
}  # fmt: skip
RECORDS = {
    "records/synthea-ma-1462": {"documents": 1_462},
    "records/synthea-ne-111": {"documents": 111},
    "clicks/trec-session": {"documents": 10_960},
}
EXPECTED = LETOR | TEXT | RECORDS


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_counts_are_those_of_the_readme(name: str, real_data: Callable[[str], Path]) -> None:
    summary = inspect(str(real_data(name)))
    expected: dict[str, Any] = EXPECTED[name]
    assert {key: summary[key] for key in expected} == expected
    assert {"kind", "queries", "documents", "features", "labels"} <= set(summary)
    if name in PARTS:
        found = {part: counts["queries"] for part, counts in summary["parts"].items()}
        assert found == PARTS[name]


def test_intents_are_counted(real_data: Callable[[str], Path]) -> None:
    intents = inspect(str(real_data("ltr/clueweb09")))["intents"]
    counts = [(part["relevant"], part["queries_with_relevant"]) for part in intents.values()]
    assert counts == [(6009, 60), (3937, 55), (2765, 57), (2449, 53), (884, 33), (401, 12)]


def test_a_folder_with_nothing_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    with pytest.raises(NotFound, match="nothing here that Cloister can read"):
        inspect(str(tmp_path))
    with pytest.raises(NotFound):
        inspect(str(tmp_path / "none"))
