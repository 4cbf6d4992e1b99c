"""Rankers score as plain matrix products do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import DataError, SettingsError
from cloister.core.random import stream
from cloister.rank.linear import add_linear_gradient, score_linear
from cloister.rank.mlp import add_mlp_gradient, score_mlp
from cloister.rank.ranker import Ranker, RankerSettings

activations = pytest.mark.parametrize("activation", ["relu", "sigmoid"])


def as_matrices(ranker: Ranker, features: np.ndarray) -> np.ndarray:
    """Score with NumPy in double precision."""
    theta, x = ranker.parameters.astype(float), features.astype(float)
    if ranker.settings.kind == "linear":
        return x @ theta
    n, hidden = ranker.settings.n_features, ranker.settings.hidden
    weights = theta[: n * hidden].reshape(n, hidden)
    biases = theta[n * hidden : (n + 1) * hidden]
    inputs = x @ weights + biases
    relu = ranker.settings.activation == "relu"
    return (np.maximum(inputs, 0) if relu else 1 / (1 + np.exp(-inputs))) @ theta[-hidden:]


def drawn(made_of: RankerSettings, n: int, seed: int) -> tuple[Ranker, np.ndarray]:
    rng = stream(seed, "test", "ranker")
    ranker = Ranker(made_of, rng.normal(size=made_of.n_parameters).astype(np.float32))
    return ranker, rng.normal(size=(n, made_of.n_features)).astype(np.float32)


def assert_scored(found: np.ndarray, ranker: Ranker, features: np.ndarray) -> None:
    made_of = ranker.settings
    scale = made_of.n_features * (1 if made_of.kind == "linear" else made_of.hidden)
    np.testing.assert_allclose(found, as_matrices(ranker, features), rtol=1e-5, atol=1e-6 * scale)


made = st.builds(
    RankerSettings,
    kind=st.sampled_from(["linear", "mlp"]),
    n_features=st.integers(1, 40),
    hidden=st.integers(1, 20),
    activation=st.sampled_from(["relu", "sigmoid"]),
)


@settings(max_examples=150)
@given(made_of=made, n=st.integers(0, 30), seed=st.integers(0, 2**32))
def test_scores_are_those_of_matrix_products(made_of: RankerSettings, n: int, seed: int) -> None:
    ranker, features = drawn(made_of, n, seed)
    found = ranker.score(features)
    assert found.dtype == np.float32
    assert found.shape == (n,)
    assert_scored(found, ranker, features)


@settings(max_examples=60)
@given(made_of=made, n=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_kernels_score_chosen_rows_and_runs_of_rows(
    made_of: RankerSettings, n: int, seed: int
) -> None:
    ranker, features = drawn(made_of, 50, seed)
    rows = stream(seed, "test", "rows").integers(0, 50, size=n + 5)
    shape = made_of.shape
    chosen, run = np.empty((2, n), np.float32)
    hidden = np.empty((n, max(shape.n_hidden, 1)), np.float32)
    for scored, of, first in ((chosen, rows, 5), (run, np.empty(0, np.int64), 7)):
        if made_of.kind == "linear":
            score_linear(ranker.parameters, features, of, first, n, scored)
        else:
            score_mlp(ranker.parameters, *shape, features, of, first, n, hidden, scored)
    assert_scored(chosen, ranker, features[rows[5:]])
    assert_scored(run, ranker, features[7 : 7 + n])


@activations
@pytest.mark.parametrize("n", [4095, 4096, 4097, 9000])
def test_more_documents_than_one_block_are_scored_alike(activation: str, n: int) -> None:
    made_of = RankerSettings(kind="mlp", n_features=3, hidden=4, activation=activation)
    ranker, features = drawn(made_of, n, 1)
    found = ranker.score(features)
    assert_scored(found, ranker, features)
    alone = np.concatenate([ranker.score(features[i : i + 1]) for i in range(n - 10, n)])
    np.testing.assert_array_equal(found[-10:], alone)


def test_a_linear_ranker_scores_more_documents_than_one_block() -> None:
    ranker, features = drawn(RankerSettings(n_features=7), 9001, 2)
    assert_scored(ranker.score(features), ranker, features)


def test_scores_take_lists_other_types_and_other_layouts() -> None:
    ranker, features = drawn(RankerSettings(kind="mlp", n_features=6, hidden=5), 9, 3)
    expected = ranker.score(features)
    for same in (features.tolist(), features.astype(float), np.asfortranarray(features)):
        np.testing.assert_allclose(ranker.score(same), expected, rtol=1e-5, atol=1e-6)


def test_the_parameters_of_a_neural_ranker_are_input_weights_biases_output_weights() -> None:
    # Two features, three hidden units, worked out by hand.
    made_of = RankerSettings(kind="mlp", n_features=2, hidden=3)
    input_weights = [1, 2, -1, 3, -1, 0.5]  # row by row: of the first feature, of the second
    ranker = Ranker(made_of, np.array([*input_weights, 0.5, -1, 0, 10, 100, 1000], np.float32))
    assert made_of.n_parameters == 12
    # Hidden inputs for (1, 2): 1 + 6 + 0.5, 2 - 2 - 1, -1 + 1 + 0; for (2, 0): 2.5, 3, -2
    assert ranker.score([[1, 2], [2, 0]]).tolist() == [75.0, 325.0]


@activations
def test_a_gradient_may_be_added_to_the_very_parameters_it_is_of(activation: str) -> None:
    made_of = RankerSettings(kind="mlp", n_features=5, hidden=4, activation=activation)
    ranker, features = drawn(made_of, 8, 4)
    page, no_rows = np.array([3, 0, 6]), np.empty(0, np.int64)
    coefficients = np.array([0.5, 0.0, -0.25], np.float32)
    hidden, out = np.empty((8, 4), np.float32), np.empty(8, np.float32)
    score_mlp(ranker.parameters, *made_of.shape, features, no_rows, 0, 8, hidden, out)
    apart, same = np.zeros_like(ranker.parameters), ranker.parameters.copy()
    for target, of in ((apart, ranker.parameters), (same, same)):
        add_mlp_gradient(
            target, of, *made_of.shape, features, no_rows, 0, page, coefficients, hidden,
            np.empty((3, 4), np.float32),
        )  # fmt: skip
    assert apart.any()
    np.testing.assert_allclose(same, ranker.parameters + apart, rtol=1e-6, atol=1e-6)


@activations
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_gradients_are_of_the_chosen_rows(kind: str, activation: str) -> None:
    made_of = RankerSettings(kind=kind, n_features=5, hidden=4, activation=activation)
    ranker, features = drawn(made_of, 20, 5)
    rows, page = np.array([9, 3, 17, 4, 0, 11]), np.array([2, 0])
    coefficients = np.array([0.5, -0.25], np.float32)
    direct, chosen = np.zeros((2, made_of.n_parameters), np.float32)
    hidden, out = np.empty((4, 4), np.float32), np.empty(4, np.float32)
    gathered = np.ascontiguousarray(features[rows[2:]])
    for target, of, rows_of, first in (
        (chosen, features, rows, 2),
        (direct, gathered, np.empty(0, np.int64), 0),
    ):
        if kind == "linear":
            add_linear_gradient(
                target, of, np.empty(0, np.float32), rows_of, first, page, coefficients
            )
            continue
        score_mlp(ranker.parameters, *made_of.shape, of, rows_of, first, 4, hidden, out)
        add_mlp_gradient(
            target, ranker.parameters, *made_of.shape, of, rows_of, first, page, coefficients,
            hidden, np.empty((2, 4), np.float32),
        )  # fmt: skip
    assert direct.any()
    np.testing.assert_array_equal(direct, chosen)


def test_a_linear_ranker_begins_with_zeros() -> None:
    ranker = Ranker.initial(RankerSettings(n_features=46), seed=5)
    assert ranker.parameters.tolist() == [0.0] * 46
    assert ranker.parameters.dtype == np.float32


def test_a_neural_ranker_begins_with_small_random_weights_and_no_biases() -> None:
    n, hidden = 100, 64
    made_of = RankerSettings(kind="mlp", n_features=n, hidden=hidden)
    theta = Ranker.initial(made_of, seed=5).parameters
    weights, biases, output = np.split(theta, [n * hidden, (n + 1) * hidden])
    assert not biases.any()
    assert weights.std() == pytest.approx(1 / np.sqrt(n), rel=0.05)
    assert output.std() == pytest.approx(1 / np.sqrt(hidden), rel=0.4)
    assert abs(weights.mean()) < 0.01
    assert len(np.unique(weights)) > 0.99 * len(weights)


def test_the_seed_decides_the_initial_weights() -> None:
    made_of = RankerSettings(kind="mlp", n_features=4)
    first, again, other = (Ranker.initial(made_of, seed=s).parameters for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_other_parameters_make_another_ranker_of_the_same_make() -> None:
    ranker = Ranker.initial(RankerSettings(n_features=2))
    other = ranker.with_parameters(np.array([1.0, 2.0]))
    assert other.settings == ranker.settings
    assert other.parameters.dtype == np.float32
    assert other.parameters.tolist() == [1.0, 2.0]
    assert ranker.parameters.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 1), (1, 2), ()])
def test_parameters_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="2 parameters"):
        Ranker(RankerSettings(n_features=2), np.zeros(shape, np.float32))


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("shape", [(4,), (3, 2), (3, 5), (1, 3, 4)])
def test_features_of_another_shape_are_refused(kind: str, shape: tuple[int, ...]) -> None:
    ranker = Ranker.initial(RankerSettings(kind=kind, n_features=4, hidden=2))
    with pytest.raises(DataError, match="4 features"):
        ranker.score(np.zeros(shape))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_features": 0},
        {"n_features": 2, "hidden": 0},
        {"n_features": 2, "kind": "forest"},
        {"n_features": 2, "activation": "tanh"},
        {"n_features": 2, "layers": 3},
    ],
)
def test_settings_that_make_no_ranker_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        RankerSettings(**wrong)
