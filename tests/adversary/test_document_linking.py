from __future__ import annotations

import numpy as np
import pytest

from cloister.adversary.code_order_recovery import CodedColumn
from cloister.adversary.document_linking import link_documents
from cloister.core.errors import DataError

N_DOCUMENTS = 300


def priors(n_columns: int) -> np.ndarray:
    return np.random.default_rng(1).gamma(2.0, size=(N_DOCUMENTS, n_columns))


def coded(values: np.ndarray, n_thresholds: int) -> list[CodedColumn]:
    """Code by hand, with thresholds at quantiles and random codes within intervals."""
    draw, columns = np.random.default_rng(2), []
    for column in values.T:
        thresholds = np.quantile(column, np.arange(1, n_thresholds + 1) / (n_thresholds + 1))
        codes = 1000 * np.searchsorted(thresholds, column) + draw.integers(1, 1001, len(column))
        columns.append(CodedColumn(codes, 1000 * np.arange(1, n_thresholds + 1), 1))
    return columns


def right(n_columns: int, n_thresholds: int, share: float) -> float:
    values = priors(n_columns)
    order = np.random.default_rng(3).permutation(N_DOCUMENTS)  # the secret numbers
    known = np.random.default_rng(4).permutation(N_DOCUMENTS)[: round(share * N_DOCUMENTS)]
    numbers = np.empty(N_DOCUMENTS, np.int64)
    numbers[order] = np.arange(N_DOCUMENTS)
    found = link_documents(coded(values[order], n_thresholds), values[known])
    return float(np.mean(found == numbers[known]))


def test_codes_of_several_priors_link_documents() -> None:
    assert right(6, 60, 1.0) > 0.95
    assert right(6, 60, 0.3) > 0.5


def test_few_thresholds_and_few_priors_link_fewer() -> None:
    assert right(6, 3, 1.0) < right(6, 60, 1.0)
    assert right(1, 20, 1.0) < 0.3


def test_priors_of_other_documents_link_none_but_by_chance() -> None:
    other = np.random.default_rng(9).gamma(2.0, size=(100, 6))
    found = link_documents(coded(priors(6), 60), other)
    assert np.mean(found == np.arange(100)) < 0.05
    assert len(set(found.tolist())) == 100


def test_priors_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match="priors of known documents"):
        link_documents(coded(priors(2), 3), priors(3))
