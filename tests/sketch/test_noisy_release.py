"""The noisy release: its noise, its cost, its record, and that lists follow from noisy cells."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as distribution

from cloister.core.errors import BudgetExceeded, Damaged, DataError, SettingsError
from cloister.index.term_counts import TermCounts, count_terms
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.level import Level
from cloister.privacy.loss import Loss
from cloister.privacy.mechanisms.aes_noise import SeededWords, add_noise
from cloister.privacy.mechanisms.noise_table import noise_table
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.privacy.releases.reading import read_release
from cloister.sketch import noisy_release, release_noise
from cloister.sketch.cell_counts import row_cells
from cloister.sketch.document_cutting import cut_documents
from cloister.sketch.keyed_hash import HashKey
from cloister.sketch.noisy_release import (
    NoisyRelease,
    NoisyReleaseSettings,
    exact_frequencies,
    make_release,
)
from cloister.sketch.release_noise import planned_release
from cloister.sketch.release_trials import noisy_trials
from cloister.store.array_file import from_bytes, to_bytes

KEY = HashKey(bytes(range(32)))
TEXTS = ["cough cough fever", "fever rash", "asthma " * 9, "cough", ""] * 8


def small(**changes: object) -> NoisyReleaseSettings:
    given = {"n_rows": 3, "n_columns": 20, "cell_size": 10, "epsilon": 2.0,
             "statistics_columns": 32}  # fmt: skip
    return NoisyReleaseSettings(**(given | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def counts() -> TermCounts:
    return count_terms(TEXTS)


@pytest.mark.parametrize("family", ["discrete-gaussian", "discrete-laplace"])
def test_lists_are_the_top_of_the_noisy_cells(
    counts: TermCounts, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noisy_release, "BLOCK_BYTES", 6 * 40 * 2)  # six columns at a time
    settings = small(family=family)
    release = make_release(counts, KEY, settings, words=SeededWords(7))
    hashed = KEY.hash_terms(counts.vocabulary, settings.shape)
    for row in range(3):
        cells = row_cells(counts, hashed, row)
        table = noise_table(release.cells.family, release.cells.width)
        add_noise(cells, table, SeededWords(7), purpose=16 + row)
        for column in range(20):
            for side, sign in enumerate((1, -1)):
                values = sign * cells[column].astype(int)
                best = np.lexsort((np.arange(40), -values))[:10]
                cell = row * 20 + column
                assert release.lists.ids[cell, side].tolist() == best.tolist()
                assert release.lists.values[cell, side].tolist() == values[best].tolist()


@pytest.mark.parametrize(("n_rows", "epsilon"), [(1, 8.0), (3, 2.0), (30, 1.0)])
def test_the_whole_release_costs_what_was_asked_and_not_much_less(
    n_rows: int, epsilon: float
) -> None:
    release = planned_release(small(n_rows=n_rows, epsilon=epsilon), n_documents=40)
    total = None
    for table in release.tables:
        options: Any = {"value_discretization_interval": 1e-4, "pessimistic_estimate": False}
        if table.family == "discrete-laplace":
            one = distribution.from_discrete_laplace_mechanism(1 / table.width, **options)
        else:
            one = distribution.from_discrete_gaussian_mechanism(table.width, **options)
        many = one.self_compose(table.n_moved) if table.n_moved > 1 else one
        total = many if total is None else total.compose(many)
    assert total is not None
    optimistic = total.get_epsilon_for_delta(1e-7)  # a tenth of delta
    assert optimistic <= epsilon + 1e-9
    assert optimistic > 0.97 * epsilon


def literal_delta(losses: list[Loss], epsilon: float) -> float:
    """Sum max(0, P - e^epsilon Q) over all outputs of a few variables, each shifted by one."""
    x = np.arange(-60, 61)
    p = q = np.ones(1)
    for loss in losses:
        weights, shifted = (
            np.exp(-np.abs(y) / loss.noise)
            if loss.kind == "discrete-laplace"
            else np.exp(-0.5 * (y / loss.noise) ** 2)
            for y in (x, x - 1)
        )
        p = np.outer(p, weights / weights.sum()).ravel()
        q = np.outer(q, shifted / shifted.sum()).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(
    ("laplace", "normal"),
    [([], [0.7]), ([], [1.2, 1.2]), ([], [0.95, 0.95, 5.0]), ([0.32], [4.0, 7.0]),
     ([0.64, 0.64], [6.0])],
)  # fmt: skip
def test_narrow_discrete_noise_is_accounted_for_as_direct_sums_say(
    laplace: list[float], normal: list[float]
) -> None:
    losses = [Loss("discrete-laplace", width) for width in laplace]
    losses += [Loss("discrete-gaussian", width) for width in normal]
    epsilon = composed_epsilon(Counter(losses), 1e-6).epsilon
    assert literal_delta(losses, epsilon) <= 1e-6
    assert literal_delta(losses, epsilon - 2e-3) > 1e-6 * 0.999


@pytest.mark.parametrize("n_units", [2, 3, 5])
def test_laplace_noise_on_a_group_costs_at_most_its_bound_however_cells_are_shared(
    n_units: int,
) -> None:
    """All ways in which the tokens of a group fall into cells, against the bound."""
    width = 0.7
    table = NoisyTable(name="cells", family="discrete-laplace", width=width, n_moved=1)
    release = NoisyTablesRelease(
        level=Level.TOKEN, tables=(table,), group_sizes={Level.DOCUMENT: n_units}
    )
    bound = composed_epsilon(losses_of([release], Level.DOCUMENT), 1e-6).epsilon
    assert bound <= n_units / width + 1e-9
    for steps in ([n_units], [1] * n_units, [n_units - 1, 1]):
        moved = Counter(Loss("discrete-laplace", width, step) for step in steps)
        assert composed_epsilon(moved, 1e-6, method="pld").epsilon <= bound + 1e-3


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_noise_on_the_cells_of_one_row_is_far_narrower_than_normal_noise(epsilon: float) -> None:
    one, many = small(n_rows=1, epsilon=epsilon), small(n_rows=30, epsilon=epsilon)
    chosen, normal = (
        planned_release(settings, n_documents=1).tables
        for settings in (one, one.model_copy(update={"family": "discrete-gaussian"}))
    )
    assert chosen[0].family == "discrete-laplace"
    assert chosen[0].sigma < 0.41 * normal[0].sigma
    assert chosen[1:] == normal[1:]  # lengths and frequencies are as they were
    assert planned_release(many, n_documents=1).tables[0].family == "discrete-gaussian"


def test_groups_and_replaced_tokens_are_never_said_to_cost_less_than_they_do() -> None:
    table = NoisyTable(name="cells", width=5.0, n_moved=1)
    release = NoisyTablesRelease(
        level=Level.TOKEN, tables=(table,), group_sizes={Level.DOCUMENT: 3}
    )
    replaced = NoisyTablesRelease(level=Level.TOKEN, tables=(table,), neighbours="replace")
    for one, level, steps in ((release, Level.DOCUMENT, 3), (replaced, Level.TOKEN, 2)):
        exact = distribution.from_discrete_gaussian_mechanism(
            5.0, sensitivity=steps, pessimistic_estimate=False
        ).get_epsilon_for_delta(1e-6)
        assert composed_epsilon(losses_of([one], level), 1e-6).epsilon >= exact - 1e-4
    assert read_release(release.canonical()) == release


def test_exact_lengths_cost_twice_the_noise(counts: TermCounts) -> None:
    noisy, exact = small(), small(lengths="exact")
    release = make_release(counts, KEY, exact, words=SeededWords(1))
    assert (release.lengths == counts.lengths).all()
    assert release.release.neighbours == "replace"
    assert release.epsilon() <= 2.0
    sigma = planned_release(noisy, n_documents=40).tables[0].sigma
    assert release.cells.sigma > 1.9 * sigma


def test_a_document_costs_as_many_tokens_as_it_may_have(counts: TermCounts) -> None:
    release = make_release(counts, KEY, small(max_length=5), words=SeededWords(1))
    document = release.epsilon(level=Level.DOCUMENT)
    assert release.epsilon() < document < math.inf
    unlimited = make_release(counts, KEY, small(max_length=None), words=SeededWords(1))
    assert unlimited.epsilon(level=Level.DOCUMENT) == math.inf


def test_exact_lengths_leave_a_whole_document_without_a_bound(counts: TermCounts) -> None:
    release = make_release(counts, KEY, small(lengths="exact", max_length=5), words=SeededWords(1))
    assert release.epsilon() <= 2.0
    assert release.epsilon(level=Level.DOCUMENT) == math.inf


def _moved(one: TermCounts, other: TermCounts, settings: NoisyReleaseSettings) -> list[Loss]:
    """Return what differs between the exact tables of two corpora, as losses."""
    release = planned_release(settings, n_documents=one.n_documents)
    noise = {table.name: table for table in release.tables}
    length = settings.max_length or 1 << 30
    tables = []
    for counts in (cut_documents(one, length, KEY), cut_documents(other, length, KEY)):
        hashed = KEY.hash_terms(counts.vocabulary, settings.shape)
        cells = [row_cells(counts, hashed, row).astype(int) for row in range(settings.n_rows)]
        statistics = exact_frequencies(counts, KEY, settings)
        tables.append((np.stack(cells), counts.lengths.astype(int), *statistics))
    names = ("cells", "lengths", "document frequencies", "collection frequencies")
    return [
        Loss(noise[name].family, noise[name].width, steps=int(step))
        for name, before, after in zip(names, *tables, strict=True)
        for step in np.abs(after - before).ravel()
        if step
    ]


@pytest.mark.parametrize("max_length", [None, 4])
def test_one_token_more_never_costs_more_than_what_is_recorded(max_length: int | None) -> None:
    settings = small(n_columns=4, statistics_columns=4, max_length=max_length)
    text = ["cough", "fever", "rash", "asthma"]
    one = count_terms([" ".join(text)])
    release = planned_release(settings, n_documents=1)
    recorded = composed_epsilon(losses_of([release]), settings.delta)
    assert recorded.epsilon == math.inf  # for users; tokens are next
    recorded = composed_epsilon(losses_of([release], Level.TOKEN), settings.delta)
    worst = 0.0
    for i in range(25):
        moved = _moved(one, count_terms([" ".join([*text, f"w{i}"])]), settings)
        if moved:
            losses = {loss: moved.count(loss) for loss in moved}
            worst = max(worst, composed_epsilon(losses, settings.delta, method="pld").epsilon)
    assert worst <= recorded.epsilon + 1e-3
    assert recorded.epsilon <= settings.epsilon
    assert worst > 0.6 * recorded.epsilon  # the bound is not far off: some token comes near it


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3])
@pytest.mark.parametrize("max_length", [None, 9])
def test_too_small_an_epsilon_is_refused_with_one_that_works(
    epsilon: float, max_length: int | None, counts: TermCounts
) -> None:
    with pytest.raises(SettingsError, match="raise epsilon to") as refused:
        planned_release(small(epsilon=epsilon, max_length=max_length), n_documents=40)
    assert refused.value.where == "epsilon"
    least = float(re.findall(r"raise epsilon to ([0-9.e-]+)", str(refused.value))[0])
    assert 1e-3 < least < 0.1
    settings = small(epsilon=least, max_length=max_length)
    make_release(counts, KEY, settings, words=SeededWords(1))
    with pytest.raises(SettingsError, match="raise epsilon"):
        planned_release(settings.model_copy(update={"epsilon": 0.9 * least}), n_documents=40)


def bisected_width(settings: NoisyReleaseSettings) -> float:
    """Find the least noise on the cells by halving, to a part in 10^4.

    With normal noise all tables are widened together, with Laplace noise the cells alone.
    """

    def cost(width: float) -> float:
        release = planned_release(settings, n_documents=1)
        scale = width / release.tables[0].width
        alone = release.tables[0].family == "discrete-laplace"
        tables = [
            table.model_copy(update={"width": table.width * scale})
            if table.name == "cells" or not alone
            else table
            for table in release.tables
        ]
        wider = release.model_copy(update={"tables": tuple(tables)})
        own_delta = release_noise.OWN_SHARE * settings.delta
        return composed_epsilon(losses_of([wider], Level.TOKEN), own_delta).epsilon

    found = planned_release(settings, n_documents=1).tables[0].width
    low, high = 0.97 * found, 1.03 * found
    assert cost(low) > settings.epsilon >= cost(high)
    while high > low * 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if cost(middle) <= settings.epsilon else (middle, high)
    return high


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 0.5, "n_rows": 1}, {"epsilon": 8.0, "n_rows": 1}, {"epsilon": 2.0, "n_rows": 30},
     {"epsilon": 5.0, "delta": 1e-3, "n_rows": 1}, {"lengths": "exact"}, {"max_length": 5},
     {"epsilon": 2.0, "n_rows": 1, "family": "discrete-gaussian"}],
)  # fmt: skip
def test_the_noise_is_the_least_within_a_thousandth(changes: dict[str, object]) -> None:
    settings = small(**changes)
    least = bisected_width(settings)
    found = planned_release(settings, n_documents=1).tables[0].width
    assert 0.9999 * least <= found <= 1.002 * least


def test_planning_takes_few_cost_computations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counting(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return composed_epsilon(*arguments, **options)

    monkeypatch.setattr(release_noise, "composed_epsilon", counting)
    many: list[dict[str, object]] = [{"epsilon": 0.31}, {"epsilon": 7.7}, {"max_length": 3}]
    for n, changes in enumerate(many, 1):
        planned_release(small(**changes, statistics_share=0.0613), n_documents=1)
        assert len(asked) <= 12 * n  # two searches: normal noise, then Laplace noise


def test_cutting_depends_on_the_document_alone(counts: TermCounts) -> None:
    cut = cut_documents(counts, 2, KEY)
    assert (cut.lengths == np.minimum(counts.lengths, 2)).all()
    alone = cut_documents(count_terms(TEXTS[:1]), 2, KEY)
    for term in ("cough", "fever"):
        together = cut.term_counts([term], np.array([0]))
        assert together == alone.term_counts([term], np.array([0]))


def test_noise_on_every_part_has_its_stated_width(counts: TermCounts) -> None:
    trials = noisy_trials(counts, KEY, small(), n_trials=3000, words=SeededWords(3))
    sigma = {table.name: table.sigma for table in trials.release.tables}
    for name in ("cells", "lengths", "document frequencies", "collection frequencies"):
        values = getattr(trials, name.replace(" ", "_")).astype(float)
        assert values.std(axis=0).mean() == pytest.approx(sigma[name], rel=0.02)
    assert trials.lengths.mean(axis=0) == pytest.approx(counts.lengths, abs=5 * 30 / 3000**0.5)
    flat = trials.cells.reshape(3000, -1)[:, :50].astype(float)
    correlation = np.corrcoef(flat, rowvar=False)[~np.eye(50, dtype=bool)]
    assert np.abs(correlation).max() < 0.12  # 6 / sqrt(3000): every cell has noise of its own


def test_results_do_not_depend_on_the_number_of_threads(counts: TermCounts) -> None:
    before = numba.get_num_threads()
    try:
        contents = []
        for n_threads in (1, before):
            numba.set_num_threads(n_threads)
            contents.append(make_release(counts, KEY, small(), words=SeededWords(9)).to_bytes())
    finally:
        numba.set_num_threads(before)
    assert contents[0] == contents[1]


def test_a_file_brings_back_the_release_and_holds_no_key(
    counts: TermCounts, tmp_path: Path
) -> None:
    release = make_release(counts, KEY, small())
    assert not release.simulated
    release.save(tmp_path / "a.sketch")
    content = (tmp_path / "a.sketch").read_bytes()
    assert content == release.to_bytes()
    assert KEY.secret_bytes() not in content
    for loaded in (NoisyRelease.load(tmp_path / "a.sketch"), NoisyRelease.from_bytes(content)):
        assert loaded.to_bytes() == content
        assert loaded.settings == release.settings
        assert loaded.release == release.release
    with pytest.raises(DataError, match="format 3, this version reads up to 2"):
        NoisyRelease.from_bytes(_rewritten(content, {"format": 3}))
    damaged = bytearray(content)
    damaged[-1] ^= 1
    with pytest.raises(Damaged):
        NoisyRelease.from_bytes(bytes(damaged))


def _rewritten(content: bytes, changes: dict[str, Any]) -> bytes:
    """Return a file with another header."""
    header, arrays = from_bytes(content, NoisyRelease.kind)
    return to_bytes(NoisyRelease.kind, header | changes, arrays)


def test_a_file_of_version_0_1_is_read_as_one_with_normal_noise(counts: TermCounts) -> None:
    release = make_release(counts, KEY, small(family="discrete-gaussian"), words=SeededWords(2))
    header, arrays = from_bytes(release.to_bytes(), NoisyRelease.kind)
    del header["format"], header["settings"]["family"]
    for table in header["release"]["tables"]:
        table["sigma"] = table.pop("width")
        del table["family"]
    old = NoisyRelease.from_bytes(to_bytes(NoisyRelease.kind, header, arrays))
    assert old.release == release.release
    assert old.epsilon() == release.epsilon()


def test_a_changed_corpus_is_a_new_release_and_over_the_limit_is_refused(
    counts: TermCounts, tmp_path: Path
) -> None:
    first = make_release(counts, KEY, small())
    second = make_release(count_terms([*TEXTS, "cough"]), KEY, small())
    label = {"party_id": "clinic-a", "recipient": "clinic-b", "purpose": "sketches"}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit(
            "clinic-a", Limit(epsilon=2.5, delta=1e-6, level=Level.TOKEN), purpose="test"
        )
        receipt = first.record(ledger, **label)
        assert receipt.number == 2
        spent = ledger.cost("clinic-a", delta=1e-6, level="token").epsilon
        assert spent == pytest.approx(2.0, rel=0.05)
        with pytest.raises(BudgetExceeded):
            second.record(ledger, **label)
        ledger.set_limit(
            "clinic-a", Limit(epsilon=5.0, delta=1e-6, level=Level.TOKEN), purpose="test"
        )
        second.record(ledger, **label)
        assert 2.5 < ledger.cost("clinic-a", delta=1e-6, level="token").epsilon <= 4.0
