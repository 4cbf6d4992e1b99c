from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cloister.core.errors import BudgetExceeded, SettingsError
from cloister.core.ids import ServerId
from cloister.index.entity_view import LEVELS
from cloister.index.term_counts import count_terms
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.filters import charge_of, total_charge
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Consent, Limit
from cloister.privacy.level import Level
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.search.contribution_bounding import bounded_sizes, bounded_tables, on_word_list
from cloister.search.noisy_statistics import noisy_statistics
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.planned_statistics import planned_statistics, threshold_of_found_terms
from cloister.search.published_statistics import added_published, exact_statistics
from cloister.search.server_contents import ServerContents, joined_contents
from cloister.store.database import Database

WORDS = [f"word{i}" for i in range(12)]
DOCUMENT = st.tuples(
    st.integers(0, 2),  # server
    st.integers(0, 2),  # pod
    st.lists(st.sampled_from(WORDS), max_size=10),
)
ProtectedUnit = Literal["document", "pod"]
UNITS: tuple[ProtectedUnit, ...] = ("document", "pod")
Documents = list[tuple[int, int, list[str]]]


def contents(documents: Documents) -> list[ServerContents]:
    return [
        ServerContents(
            ServerId(f"server-{n}"),
            count_terms(" ".join(words) for server, _, words in documents if server == n),
            np.array([pod for server, pod, _ in documents if server == n], np.int64),
        )
        for n in range(3)
    ]


def clinic(n: int = 400) -> ServerContents:
    """A server where all have a cough, some a fever, and each document has a word of its own."""
    texts = [f"cough {'fever' if i % 4 == 0 else 'rash'} own{i}" for i in range(n)]
    return ServerContents(ServerId("clinic"), count_terms(texts), np.arange(n))


@settings(max_examples=60)
@given(
    st.lists(DOCUMENT, max_size=10),
    st.lists(st.lists(st.sampled_from([*WORDS, "new1", "new2"]), max_size=14), max_size=4),
    st.integers(0, 10),
    st.sampled_from(UNITS),
    st.sampled_from(["any", "frequent"]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
)
def test_one_unit_moves_no_more_counters_than_the_ledger_says_and_each_by_one_step(
    others: Documents,
    unit: list[list[str]],
    place: int,
    kind: ProtectedUnit,
    kept: Literal["any", "frequent"],
    max_terms: int,
    max_documents: int,
    on_a_list: bool,
) -> None:
    chosen = NoisyStatisticsSettings(
        epsilon=1.0,
        unit=kind,
        kept=kept,
        max_terms=max_terms,
        max_documents=max_documents,
        max_length=8,
        n_lengths=4,
    )
    pod = 7 if kind == "pod" else 1  # a document may come into a pod that is there
    added = [(1, pod, words) for words in (unit if kind == "pod" else unit[:1])]
    place = min(place, len(others))
    tables = []
    for documents in (others, others[:place] + added + others[place:]):
        joined = joined_contents(contents(documents))
        terms = sorted({*WORDS, "new1", "new2"})
        if on_a_list:
            joined = on_word_list(joined, WORDS)
        counted = bounded_tables(joined, chosen)
        at = {term: i for i, term in enumerate(joined.vocabulary)}
        by_term = {
            name: np.array([table[:, at[t]] if t in at else 0 * table[:, :1].sum(1) for t in terms])
            if table.shape[1]
            else np.zeros((len(terms), len(table)), np.int64)
            for name, table in counted.items()
        }
        tables.append({**by_term, "sizes": bounded_sizes(joined, chosen)})
    planned = planned_statistics(chosen, n_servers=3, n_words=len(WORDS))
    for table in planned.tables.tables:
        change = np.abs(tables[1][table.name] - tables[0][table.name])
        assert change.max(initial=0) <= 1
        assert change.sum() <= table.n_moved


@pytest.mark.parametrize("n_words", [None, 1000])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_cost_is_at_most_what_was_asked_for_and_the_noise_little_more_than_that(
    epsilon: float, unit: ProtectedUnit, n_words: int | None
) -> None:
    chosen = NoisyStatisticsSettings(epsilon=epsilon, unit=unit)
    planned = planned_statistics(chosen, n_words=n_words)
    # Balle and Wang 2018, theorem 8: delta of normal noise, at the whole release's distance.
    distance = math.sqrt(sum(t.n_moved / t.sigma**2 for t in planned.tables.tables))
    first, second = distance / 2 - epsilon / distance, -distance / 2 - epsilon / distance
    delta = stats.norm.cdf(first) - math.exp(epsilon) * stats.norm.cdf(second)
    if n_words is None:
        delta += planned.releases[1].delta  # type: ignore[attr-defined]
    assert delta < 1e-6
    least = noise_multiplier(epsilon, 1e-6, n_rounds=1, method="pld")
    assert 1.05 < 1 / (distance * least) < 1.1  # what a proof for adaptive releases costs


@pytest.mark.parametrize("n_words", [None, 1000])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_a_release_fits_a_limit_of_its_own_epsilon_and_delta_once(
    epsilon: float, unit: ProtectedUnit, n_words: int | None
) -> None:
    chosen = NoisyStatisticsSettings(epsilon=epsilon, unit=unit)
    decides = Limit(epsilon=epsilon, delta=1e-6, level=chosen.level).filter
    planned = planned_statistics(chosen, n_words=n_words)
    one = total_charge((charge_of(r, chosen.level, decides.order), 1) for r in planned.releases)
    assert decides.admits(one)
    assert not decides.admits(one.times(2))


@pytest.mark.parametrize("unit", UNITS)
def test_a_node_with_the_standard_limits_publishes_ten_times(
    tmp_path: Path, unit: ProtectedUnit
) -> None:
    planned = planned_statistics(NoisyStatisticsSettings(epsilon=1.0, unit=unit))
    named = {"recipient": "broker", "purpose": "published statistics"}
    agreed = Consent(name="board", **named)
    with Database.open(tmp_path / "state.db") as database:
        ledger = Ledger(database, consents=(agreed,))
        ledger.begin_limits("clinic")
        for _ in range(10):
            for release in planned.releases:
                ledger.release(release, b"", party_id="clinic", **named)


def test_the_chance_that_a_rare_term_is_listed_is_in_delta() -> None:
    sigma, n_terms, delta = 7.5, 20, 1e-5
    threshold, chance = threshold_of_found_terms(sigma, n_terms, delta)

    def literal(least: int) -> float:
        """Sum the chances of 1 + noise >= least, in fractions of doubles."""
        weights = {x: Fraction(math.exp(-(x**2) / (2 * sigma**2))) for x in range(-300, 301)}
        tail = sum(w for x, w in weights.items() if 1 + x >= least)
        return float(n_terms * tail / sum(weights.values()))

    assert literal(threshold) <= delta < literal(threshold - 1)
    assert chance == pytest.approx(literal(threshold), rel=1e-6)
    assert chance >= literal(threshold)


def test_a_term_of_one_document_is_not_listed_and_common_terms_are() -> None:
    chosen = NoisyStatisticsSettings(epsilon=2.0, unit="document", max_terms=3)
    for seed in range(5):
        noisy = noisy_statistics([clinic()], chosen, words=SeededWords(seed))
        assert noisy.statistics.form == "noisy"
        listed = noisy.statistics.level("document").table
        assert set(listed) == {"cough", "fever", "rash"}
        assert abs(listed["cough"] - 400) < 6 * noisy.releases[0].tables[0].sigma  # type: ignore[attr-defined]


def test_all_words_of_a_list_are_listed_and_no_others() -> None:
    chosen = NoisyStatisticsSettings(epsilon=2.0, unit="document", max_terms=3)
    words = ["rash", "huntington", "cough", "cough"]
    noisy = noisy_statistics([clinic()], chosen, word_list=words, words=SeededWords(1))
    assert len(noisy.releases) == 1
    for level in LEVELS:
        assert list(noisy.statistics.level(level).table) == ["cough", "huntington", "rash"]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("n_servers", [1, 2])
def test_with_next_to_no_noise_the_tables_are_the_exact_ones(
    unit: ProtectedUnit, n_servers: int
) -> None:
    rng = np.random.default_rng(3)
    servers = []
    for n in range(n_servers):
        texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(200)]
        pods = np.arange(200) // 2
        servers.append(ServerContents(ServerId(f"s{n}"), count_terms(texts), pods))
    exact = exact_statistics(servers)
    chosen = NoisyStatisticsSettings(
        epsilon=1000.0, unit=unit, max_terms=24, max_documents=2, max_length=16, n_lengths=16
    )
    noisy = noisy_statistics(servers, chosen, word_list=WORDS, words=SeededWords(1)).statistics
    for level in LEVELS:
        found, true = noisy.level(level), exact.level(level)
        assert found.n_entities == pytest.approx(true.n_entities, abs=3)
        assert found.mean_length == pytest.approx(true.mean_length, rel=0.05)
        assert found.frequencies(WORDS) == pytest.approx(true.frequencies(WORDS), abs=5)
        assert found.n_pairs == pytest.approx(true.n_pairs, abs=15)


def test_noise_is_as_wide_as_the_release_says() -> None:
    chosen = NoisyStatisticsSettings(epsilon=1.0, unit="document", max_terms=3)
    words = [f"nobody{i}" for i in range(4000)]
    noisy = noisy_statistics([clinic(10)], chosen, word_list=words, words=SeededWords(5))
    for level, table in (("document", 0), ("pod", 1)):
        values = np.array(list(noisy.statistics.level(level).table.values()))  # type: ignore[arg-type]
        sigma = noisy.releases[0].tables[table].sigma  # type: ignore[attr-defined]
        assert values.std() == pytest.approx(sigma, rel=0.05)
        assert abs(values.mean()) < 4 * sigma / math.sqrt(len(values))
    documents, pods = (np.array(list(noisy.statistics.level(level).table.values()))
                       for level in ("document", "pod"))  # fmt: skip
    assert abs(np.corrcoef(documents, pods)[0, 1]) < 0.08


def test_real_noise_is_drawn_anew_and_a_seed_gives_the_same_and_says_so() -> None:
    chosen = NoisyStatisticsSettings(epsilon=1.0)
    real = [noisy_statistics([clinic(50)], chosen, word_list=WORDS) for _ in range(2)]
    assert real[0].statistics.to_bytes() != real[1].statistics.to_bytes()
    assert not real[0].simulated
    made = [
        noisy_statistics([clinic(50)], chosen, word_list=WORDS, words=SeededWords(s))
        for s in (1, 1, 2)
    ]
    assert made[0].simulated
    contents = [one.statistics.to_bytes() for one in made]
    assert contents[0] == contents[1] != contents[2]


def test_all_parts_of_a_release_are_on_the_ledger_or_none(tmp_path: Path) -> None:
    chosen = NoisyStatisticsSettings(epsilon=1.0, unit="pod", max_terms=8)
    noisy = noisy_statistics([clinic(50)], chosen)
    named = {"party_id": "clinic", "recipient": "everybody", "purpose": "global statistics"}
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("clinic", Limit(epsilon=1.0, delta=1e-6), purpose="pilot")
        assert len(noisy.record(ledger, **named)) == 2
        cost = ledger.cost("clinic", delta=1e-6, level=Level.USER).epsilon
        assert 0.9 < cost <= 1.0  # the report; by the filter it is all of 1
        with pytest.raises(BudgetExceeded):
            noisy.record(ledger, **named)
        assert ledger.cost("clinic", delta=1e-6, level=Level.USER).epsilon == cost


def test_a_release_for_documents_says_nothing_of_whole_pods(tmp_path: Path) -> None:
    noisy = noisy_statistics(
        [clinic(20)], NoisyStatisticsSettings(epsilon=1.0, unit="document"), word_list=WORDS
    )
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        ledger.set_limit("clinic", Limit(epsilon=9.0, delta=1e-6), purpose="pilot")
        with pytest.raises(BudgetExceeded):  # the limit is a user's
            noisy.record(ledger, party_id="clinic", recipient="everybody", purpose="statistics")


def test_what_servers_release_each_for_itself_adds_up() -> None:
    chosen = NoisyStatisticsSettings(epsilon=8.0, unit="document", max_terms=3)
    parts = [
        noisy_statistics([clinic(400)], chosen, word_list=["cough", "gout"], words=SeededWords(s))
        for s in range(4)
    ]
    added = added_published([part.statistics for part in parts])
    sigma = parts[0].releases[0].tables[0].sigma  # type: ignore[attr-defined]
    assert abs(added.level("document").table["cough"] - 1600) < 12 * sigma
    assert added.level("document").floor == pytest.approx(
        2 * parts[0].statistics.level("document").floor
    )
    assert added.level("server").table["cough"] == 4
    assert added.level("server").table["gout"] <= 1  # noise beyond two sigma: one time in 44
    assert added.level("server").n_entities == 4


@pytest.mark.parametrize("unit", UNITS)
def test_an_empty_server_publishes_noise_only(unit: ProtectedUnit) -> None:
    nothing = ServerContents(ServerId("s"), count_terms([]), np.empty(0, np.int64))
    chosen = NoisyStatisticsSettings(epsilon=1.0, unit=unit)
    found = noisy_statistics([nothing], chosen, words=SeededWords(1))
    assert not found.statistics.level("document").table
    listed = noisy_statistics([nothing], chosen, word_list=WORDS, words=SeededWords(1))
    assert set(listed.statistics.level("pod").table) == set(WORDS)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": 1, "max_terms": 0}, {}])
def test_settings_that_protect_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        NoisyStatisticsSettings(**wrong)
