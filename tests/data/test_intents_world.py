from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from cloister.core.errors import DataError
from cloister.data.worlds.intents import IntentData, IntentsSettings, IntentsWorld, read_intents


def accuracy(world: IntentsWorld, shared: bool) -> float:
    """Mean correlation of wishes and scores, from one model an intent or one for all."""
    train, test = world.data("train"), world.data("test")
    values = []
    for intent in range(train.n_intents):
        wanted = train.intent_labels.mean(axis=1) if shared else train.intent_labels[:, intent]
        model = LinearRegression().fit(train.data.features, wanted)
        scores = model.predict(test.data.features)
        values.append(np.corrcoef(scores, test.intent_labels[:, intent])[0, 1])
    return float(np.mean(values))


def test_one_model_for_all_loses_against_one_for_each_intent() -> None:
    world = IntentsWorld(IntentsSettings(queries=100, documents=60))
    assert accuracy(world, shared=False) > accuracy(world, shared=True) + 0.1


def test_where_all_agree_one_model_is_enough() -> None:
    world = IntentsWorld(IntentsSettings(queries=100, documents=60, agreement=1))
    assert accuracy(world, shared=True) > accuracy(world, shared=False) - 0.01


def test_intents_share_documents_and_have_their_own_labels() -> None:
    drawn = IntentsWorld(IntentsSettings(queries=30, intents=3, grades=3)).data()
    first, second = drawn.for_intent(0), drawn.for_intent(1)
    assert np.shares_memory(first.features, second.features)
    assert not np.array_equal(first.labels, second.labels)
    assert drawn.intent_labels.max() == 2
    np.testing.assert_array_equal(drawn.data.labels, drawn.intent_labels.max(axis=1))


def test_the_same_seed_gives_the_same_wishes() -> None:
    settings = IntentsSettings(queries=10, documents=10)
    one, two = IntentsWorld(settings).data(), IntentsWorld(settings).data()
    np.testing.assert_array_equal(one.intent_labels, two.intent_labels)


@pytest.mark.parametrize(
    "sizes", list(itertools.product([1, 2], [1, 2], [2, 3], [2, 3, 4, 5], [0, 2]))
)
def test_the_smallest_worlds_are_finite_and_warn_of_nothing(sizes: tuple[int, ...]) -> None:
    names = ("queries", "documents", "features", "grades", "spread")
    settings = dict(zip(names, sizes, strict=True))
    drawn = IntentsWorld(IntentsSettings(**settings)).data()  # warnings are errors in tests
    assert drawn.data.n_queries == settings["queries"]
    assert np.isfinite(drawn.data.features).all()
    assert 0 <= drawn.intent_labels.min() <= drawn.intent_labels.max() < settings["grades"]


def test_without_two_documents_to_compare_wishes_are_noise_alone() -> None:
    settings = IntentsSettings(queries=400, documents=1, spread=0, features=2)
    one = IntentsWorld(settings)
    two = IntentsWorld(settings)
    two.weights = -one.weights
    np.testing.assert_array_equal(one.data().intent_labels, two.data().intent_labels)
    assert one.data().intent_labels.any()


def test_labels_that_do_not_fit_are_refused() -> None:
    drawn = IntentsWorld(IntentsSettings(queries=3, documents=5)).data()
    with pytest.raises(DataError):
        IntentData(drawn.data, drawn.intent_labels[1:])


def test_a_table_of_intents_is_joined_on_query_and_document(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 qid:7 1:1 #docid = a\n0 qid:7 1:2 #docid = b\n")
    table = tmp_path / "intents.tsv"
    table.write_text("qid\tdocid\tgraded\tintent0\tintent1\n7\tb\t0\t0\t1\n7\ta\t1\t1\t0\n")
    assert read_intents(tmp_path).intent_labels.tolist() == [[1, 0], [0, 1]]
    table.write_text("qid\tdocid\tgraded\tintent0\n7\tb\t0\t0\n")
    with pytest.raises(DataError, match="no intents for the row"):
        read_intents(tmp_path)
    table.write_text("qid\tdocid\tgraded\tintent0\n7\tb\t0\tx\n")
    with pytest.raises(DataError, match="malformed line") as caught:
        read_intents(tmp_path)
    assert caught.value.where.endswith(":2")
    table.write_text("a\tb\n")
    with pytest.raises(DataError, match="expected columns"):
        read_intents(tmp_path)


def test_clueweb09_intents_are_those_that_the_readme_lists(
    real_data: Callable[[str], Path],
) -> None:
    found = read_intents(real_data("ltr/clueweb09"))
    assert (found.data.n_queries, found.data.n_rows, found.n_intents) == (61, 26_646, 6)
    positives = (found.intent_labels > 0).sum(axis=0).tolist()
    assert positives == [6009, 3937, 2765, 2449, 884, 401]
