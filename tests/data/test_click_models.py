"""Click models: tables, samplers against a literal reading, exact chances against enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, new_stream, next_uniform
from cloister.core.errors import DataError, SettingsError
from cloister.data.clicks import (
    CLICK_MODEL_NAMES,
    GRADE_COUNTS,
    CascadeModel,
    ClickModel,
    PositionBasedModel,
    cascade_model,
    click_model,
    click_probabilities,
    draw_clicks,
    log_likelihood,
    position_based_model,
    sample_clicks,
    stack_tables,
)
from cloister.data.clicks.cascade import CASCADE_TABLES
from cloister.data.clicks.sampling import CLICK_PURPOSE


def all_models() -> Iterator[ClickModel]:
    for name, n_grades in product(CLICK_MODEL_NAMES, GRADE_COUNTS):
        yield click_model(name, n_grades)
        if (name, n_grades) in CASCADE_TABLES:
            yield click_model(name, n_grades, stop="at_each_document")


def label(model: ClickModel) -> str:
    rule = getattr(model, "stop", "")
    return f"{model.name}-{model.n_grades}-{rule}"


each_model = pytest.mark.parametrize("model", list(all_models()), ids=label)


def random_pages(n_pages: int, width: int, n_grades: int, seed: int = 0) -> NDArray[np.int8]:
    """Pages of random grades, some of them shorter than the widest."""
    rng = np.random.default_rng(seed)
    pages = rng.integers(0, n_grades, (n_pages, width), dtype=np.int8)
    lengths = rng.integers(0, width + 1, (n_pages, 1))
    return np.where(np.arange(width) < lengths, pages, -1).astype(np.int8)


def literal_clicks(model: ClickModel, grades: list[int], uniform: Iterator[float]) -> list[bool]:
    """Read the two models as their papers describe them, one document at a time."""
    clicks = [False] * len(grades)
    for i, grade in enumerate(grades):
        if isinstance(model, PositionBasedModel):
            clicks[i] = next(uniform) <= (1 / (i + 1)) ** model.eta * (model.attraction[grade] or 0)
            continue
        assert isinstance(model, CascadeModel)
        clicks[i] = next(uniform) <= (model.click_probability[grade] or 0)
        stop = model.stop_probability[grade] or 0
        may_leave = stop > 0 and (clicks[i] or model.stop == "at_each_document")
        if may_leave and next(uniform) <= stop:
            break
    return clicks


def enumerated(model: ClickModel, grades: list[int]) -> dict[tuple[bool, ...], float]:
    """Walk through everything that the user may do; return the chance of each click pattern."""
    chances: dict[tuple[bool, ...], float] = {}

    def walk(i: int, clicks: tuple[bool, ...], chance: float) -> None:
        if i == len(grades):
            chances[clicks] = chances.get(clicks, 0.0) + chance
            return
        if isinstance(model, PositionBasedModel):
            attracted, stop, each = (
                (model.attraction[grades[i]] or 0) / (i + 1) ** model.eta,
                0.0,
                False,
            )
        else:
            assert isinstance(model, CascadeModel)
            attracted = model.click_probability[grades[i]] or 0.0
            stop = model.stop_probability[grades[i]] or 0.0
            each = model.stop == "at_each_document"
        for clicked in (True, False):
            here = chance * (attracted if clicked else 1 - attracted)
            leaves = stop if clicked or each else 0.0
            left = (*clicks, clicked, *([False] * (len(grades) - i - 1)))
            chances[left] = chances.get(left, 0.0) + here * leaves
            walk(i + 1, (*clicks, clicked), here * (1 - leaves))

    walk(0, (), 1.0)
    return chances


# ---- the contract of every model


@each_model
def test_sampler_agrees_with_a_literal_reading_of_the_same_random_numbers(
    model: ClickModel,
) -> None:
    pages = random_pages(400, 7, model.n_grades)
    sampled = sample_clicks(model, pages, seed=11, round=5)
    for page, grades in enumerate(pages):
        stream = new_stream(11, round=5, client=page, purpose=CLICK_PURPOSE)
        uniform = iter(lambda stream=stream: float(next_uniform(stream)), None)
        shown = [int(grade) for grade in grades if grade >= 0]
        expected = literal_clicks(model, shown, uniform)
        assert sampled[page].tolist() == expected + [False] * (len(grades) - len(shown))


@each_model
def test_sampled_frequencies_agree_with_the_exact_chances(model: ClickModel) -> None:
    n_pages = 40_000
    for page in random_pages(3, 10, model.n_grades, seed=4):
        exact = click_probabilities(model, page[None])[0]
        sampled = sample_clicks(model, np.tile(page, (n_pages, 1)), seed=2).mean(axis=0)
        bound = 5 * np.sqrt(exact * (1 - exact) / n_pages) + 1e-9
        assert (np.abs(sampled - exact) <= bound).all()


@each_model
def test_exact_chances_and_likelihood_agree_with_enumeration(model: ClickModel) -> None:
    for page in random_pages(8, 5, model.n_grades, seed=6):
        grades = [int(grade) for grade in page if grade >= 0]
        chances = enumerated(model, grades)
        patterns = np.array(list(chances), bool).reshape(len(chances), len(grades))
        weights = np.array(list(chances.values()))
        clicks = np.zeros((len(patterns), len(page)), bool)
        clicks[:, : len(grades)] = patterns
        logs = log_likelihood(model, np.tile(page, (len(clicks), 1)), clicks)
        np.testing.assert_allclose(np.exp(logs), weights, atol=1e-14)
        marginals = click_probabilities(model, page[None])[0]
        np.testing.assert_allclose(marginals, weights @ clicks, atol=1e-14)


@each_model
def test_no_click_falls_where_no_document_is_shown(model: ClickModel) -> None:
    pages = random_pages(2000, 6, model.n_grades, seed=9)
    assert not sample_clicks(model, pages, seed=1)[pages < 0].any()
    assert not click_probabilities(model, pages)[pages < 0].any()


@each_model
def test_a_grade_beyond_the_table_is_an_error(model: ClickModel) -> None:
    pages = np.array([[0, 1], [0, model.n_grades]])
    for ask in (
        lambda: sample_clicks(model, pages, seed=1),
        lambda: click_probabilities(model, pages),
    ):
        with pytest.raises(DataError, match=rf"page 1, rank 2: a grade above {model.n_grades - 1}"):
            ask()


@each_model
def test_settings_of_a_model_make_the_same_model_again(model: ClickModel) -> None:
    assert isinstance(model, CascadeModel | PositionBasedModel)
    assert type(model).model_validate_json(model.canonical()) == model


# ---- randomness


@pytest.mark.parametrize("name", ["navigational", "pbm-1"])
def test_clicks_do_not_depend_on_the_number_of_threads(name: str) -> None:
    pages = random_pages(5000, 10, 5)
    before = numba.get_num_threads()
    results = []
    try:
        for n_threads in (1, min(2, numba.config.NUMBA_NUM_THREADS)):
            numba.set_num_threads(n_threads)
            results.append(sample_clicks(click_model(name, 5), pages, seed=3))
    finally:
        numba.set_num_threads(before)
    assert (results[0] == results[1]).all()


def test_clicks_of_a_page_do_not_depend_on_the_pages_beside_it() -> None:
    pages, model = random_pages(1000, 10, 5), click_model("informational", 5)
    assert (
        sample_clicks(model, pages, seed=3)[:300] == sample_clicks(model, pages[:300], seed=3)
    ).all()


@pytest.mark.parametrize("other", [{"seed": 4}, {"seed": 3, "round": 1}])
def test_another_seed_or_round_gives_other_clicks(other: dict[str, int]) -> None:
    pages, model = random_pages(1000, 10, 5), click_model("informational", 5)
    assert (sample_clicks(model, pages, seed=3) != sample_clicks(model, pages, **other)).any()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"seed": seed} for seed in (-1, 1.5, 2**64, True, "1")),
        *({"seed": 1, "round": round} for round in (-1, 0.5, 2**32, False)),
    ],
)
def test_seeds_and_rounds_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"^{list(wrong)[-1]}: must be"):
        sample_clicks(click_model("perfect", 3), np.array([[0, 1]]), **wrong)


@pytest.mark.parametrize(("seed", "round"), [(2**63, 0), (2**64 - 1, 2**32 - 1), (2**63 + 1, 7)])
def test_the_largest_seeds_and_rounds_draw_from_their_own_stream(seed: int, round: int) -> None:
    model, pages = click_model("informational", 5), random_pages(50, 6, 5)
    sampled = sample_clicks(model, pages, seed=seed, round=round)
    for page, grades in enumerate(pages):
        stream = new_stream(seed, round=round, client=page, purpose=CLICK_PURPOSE)
        uniform = iter(lambda stream=stream: float(next_uniform(stream)), None)
        shown = [int(grade) for grade in grades if grade >= 0]
        assert sampled[page, : len(shown)].tolist() == literal_clicks(model, shown, uniform)


@pytest.mark.parametrize(("word", "clicked"), [(0xFFFFFFFF, True), (0, False)])
def test_a_chance_of_one_is_certain_and_of_zero_impossible_at_the_ends_of_the_stream(
    word: int, clicked: bool
) -> None:
    stream = np.full(STREAM_WORDS, word, np.uint32)
    stream[-1] = 0  # the block of four equal words has not been used yet
    model = click_model("perfect", 2)
    out = np.zeros(1, bool)
    draw_clicks(np.array([int(clicked)], np.int8), 1, *model.table(1), stream, out)
    assert bool(out[0]) is clicked


# ---- the kernel


def test_kernel_returns_the_place_of_the_last_click_and_clears_the_rest() -> None:
    model = CascadeModel(click_probability=(0.0, 1.0), stop_probability=(0.0, 0.0))
    clicked = np.ones(5, bool)
    table = model.table(5)
    last = draw_clicks(np.array([1, 0, 1, 0, 1]), 4, *table, new_stream(1), clicked)
    assert last == 2
    assert clicked.tolist() == [True, False, True, False, True]  # the fifth is beyond the page
    assert draw_clicks(np.array([0, 0]), 2, *table, new_stream(1), clicked) == -1


def test_user_who_always_leaves_clicks_once() -> None:
    model = CascadeModel(click_probability=(1.0,), stop_probability=(1.0,))
    assert sample_clicks(model, np.zeros((50, 4), int), seed=1).sum(axis=1).tolist() == [1] * 50


def test_stacked_tables_hold_each_model_in_its_row() -> None:
    models = [click_model("navigational", 5, stop="at_each_document"), click_model("pbm-2", 5)]
    stacked = stack_tables(models, 10)
    for i, model in enumerate(models):
        for whole, part in zip(stacked, model.table(10), strict=True):
            assert np.array_equal(whole[i], part)


def test_models_of_different_scales_cannot_be_stacked() -> None:
    with pytest.raises(SettingsError, match="perfect 3, perfect 5"):
        stack_tables([click_model("perfect", 3), click_model("perfect", 5)], 10)


# ---- the tables of the thesis


@pytest.mark.parametrize("n_grades", GRADE_COUNTS)
def test_poison_is_the_perfect_user_reversed(n_grades: int) -> None:
    perfect, poison = cascade_model("perfect", n_grades), cascade_model("poison", n_grades)
    # Table 5.1 reverses the order of the chances, not each chance.
    assert poison.click_probability == perfect.click_probability[::-1]
    assert set(poison.stop_probability) == {0.0}


# Table 5.1 as printed: five grades, three grades in brackets; clicks first, then stops.
TABLE_5_1 = """
perfect 0.0 (0.0) 0.2 (0.5) 0.4 (1.0) 0.8 (-) 1.0 (-)
navigational 0.05 (0.05) 0.3 (0.5) 0.5 (0.95) 0.7 (-) 0.95 (-)
informational 0.4 (0.4) 0.6 (0.7) 0.7 (0.9) 0.8 (-) 0.9 (-)
poison 1.0 (1.0) 0.8 (0.5) 0.4 (0.0) 0.2 (-) 0.0 (-)
perfect 0.0 (0.0) 0.0 (0.0) 0.0 (0.0) 0.0 (-) 0.0 (-)
navigational 0.2 (0.2) 0.3 (0.5) 0.5 (0.9) 0.7 (-) 0.9 (-)
informational 0.1 (0.1) 0.2 (0.3) 0.3 (0.5) 0.4 (-) 0.5 (-)
poison 0.0 (0.0) 0.0 (0.0) 0.0 (0.0) 0.0 (-) 0.0 (-)
"""


def test_tables_are_those_of_the_thesis() -> None:
    lines = [line.split() for line in TABLE_5_1.split("\n") if line]
    for clicks, stops in zip(lines[:4], lines[4:], strict=True):
        name = clicks[0]
        for n_grades in (3, 5):
            columns = range(2, 8, 2) if n_grades == 3 else range(1, 11, 2)
            model = cascade_model(name, n_grades)
            assert model.stop == "after_click"
            assert model.click_probability == tuple(float(clicks[i].strip("()")) for i in columns)
            assert model.stop_probability == tuple(float(stops[i].strip("()")) for i in columns)


def test_examination_falls_with_the_rank_as_eta_says() -> None:
    chances = click_probabilities(position_based_model(1.5, 5), np.full((1, 4), 3))
    np.testing.assert_allclose(chances[0], [0.8 * (1 / rank) ** 1.5 for rank in (1, 2, 3, 4)])


# ---- refusals


@pytest.mark.parametrize(
    "fields",
    [
        {"click_probability": (0.1, 1.2), "stop_probability": (0.0, 0.0)},
        {"click_probability": (-0.1, 0.2), "stop_probability": (0.0, 0.0)},
        {"click_probability": (0.1, 0.2), "stop_probability": (0.0, float("nan"))},
        {"click_probability": (0.1, 0.2), "stop_probability": (0.0,)},
        {"click_probability": (), "stop_probability": ()},
        {"click_probability": (0.1,), "stop_probability": (0.0,), "stop": "never"},
    ],
)
def test_unsound_tables_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        CascadeModel(**fields)


@pytest.mark.parametrize("name", ["careless", "pbm-", "pbm--1", "pbm-nan", "pbm-inf", "pbm-x", ""])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        click_model(name, 3)


@pytest.mark.parametrize("n_grades", [0, 1, 4, 6])
def test_scales_without_a_table_are_refused(n_grades: int) -> None:
    for name in CLICK_MODEL_NAMES:
        with pytest.raises(SettingsError, match=f"for {n_grades} grades"):
            click_model(name, n_grades)


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        (np.array([[0, -1, 1]]), "page 0, rank 2: a document without a label"),
        (np.array([[0, 1], [-2, 0]]), "page 1, rank 1: a label below -1"),
        (np.array([[0.0, np.nan]]), "labels must be whole numbers"),
        (np.array([0, 1]), "labels must be whole numbers"),
    ],
)
def test_pages_with_missing_labels_are_refused(pages: NDArray[np.generic], message: str) -> None:
    with pytest.raises(DataError, match=message):
        sample_clicks(click_model("perfect", 3), pages, seed=1)


def test_pages_that_need_an_unknown_chance_are_refused_and_others_are_not() -> None:
    model = CascadeModel(click_probability=(0.0, None, 0.5), stop_probability=(None, None, 0.5))
    sample_clicks(model, np.array([[0, 2, -1]]), seed=1)
    with pytest.raises(DataError, match="page 0, rank 3: the model custom does not know"):
        sample_clicks(model, np.array([[0, 2, 1]]), seed=1)
    leaving = CascadeModel(
        click_probability=(0.0,), stop_probability=(None,), stop="at_each_document"
    )
    with pytest.raises(DataError, match="does not know"):
        click_probabilities(leaving, np.array([[0]]))


# ---- properties of all tables


chance = st.floats(0, 1)


@given(
    st.lists(st.tuples(chance, chance), min_size=1, max_size=4),
    st.sampled_from(["after_click", "at_each_document"]),
    st.data(),
)
def test_chances_of_all_click_patterns_sum_to_one_for_any_table(
    table: list[tuple[float, float]], stop: str, data: st.DataObject
) -> None:
    click, leave = zip(*table, strict=True)
    model = CascadeModel(click_probability=click, stop_probability=leave, stop=stop)
    page = data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1, max_size=5))
    patterns = np.array(list(product([0, 1], repeat=len(page))))
    logs = log_likelihood(model, np.tile(page, (len(patterns), 1)), patterns)
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)
    marginals = click_probabilities(model, np.array([page]))[0]
    assert marginals == pytest.approx(np.exp(logs) @ patterns, abs=1e-12)
    assert (marginals <= np.array(click)[page] + 1e-15).all()
