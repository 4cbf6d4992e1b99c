"""CS-F-LTR done again: trials against what they are made of, claims against made-up outcomes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cloister.core.errors import SettingsError
from cloister.index.term_counts import TermCounts, count_terms
from cloister.lab.reproduce import figures_of
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.cs_f_ltr import cover_trial, federation_trial, rtk_trial, silo_trial
from cloister.lab.reproduce.cs_f_ltr import separation_trial as separation
from cloister.lab.reproduce.cs_f_ltr.corpus import SearchedCorpus, cover_figures, open_corpus
from cloister.lab.reproduce.cs_f_ltr.document_sketches import DocumentSketches
from cloister.lab.reproduce.cs_f_ltr.fairness import losses_of_parties
from cloister.lab.reproduce.cs_f_ltr.setting import PARTIES, SilosStudySettings
from cloister.lab.reproduce.cs_f_ltr.table_1 import gain_of
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.rows import rows_of
from cloister.lab.reproduce.study import Figures, Study, StudyOutcome, StudySettings
from cloister.lab.silos.experiment import measure_silos
from cloister.lab.silos.settings import SilosSettings
from cloister.sketch.count_min import CountMin
from cloister.sketch.count_sketch import CountSketch
from cloister.sketch.keyed_hash import HashKey, SketchShape
from cloister.sketch.rtk_query import ReverseTop
from cloister.sketch.signed_heap import SignedHeap

WORLD = "world:clinic?servers=4&organisations=4&pods=40&queries=80&document_bytes=600"
SMALL = SilosSettings(
    collection="clinic",
    data=WORLD,
    counts="exact",
    n_training=8,
    n_validation=4,
    n_test=4,
    n_others=10,
    epochs=2,
    augmented_weight=1.0,
)
ZIPF = "world:zipf?documents=300&mean_length=60&vocabulary=400"
WORDS = ("ache", "burn", "cough", "drip", "edema", "fever")
NOWHERE = Collections(Path("nowhere"))
Values = dict[str, float | list[float]]


def ignore(done: int, total: int) -> None:
    """Be told how far a trial is."""
    assert done <= total


def evidence(part: str, figures: list[Figures]) -> Evidence:
    """Return outcomes as if a study had found them, one repetition each."""
    outcomes: dict[tuple[str, str], list[StudyOutcome]] = {}
    for seed, found in enumerate(figures, 1):
        about = StudySettings(data="world:made", seed=seed)
        for system, values in found.items():
            outcomes.setdefault((part, system), []).append(StudyOutcome(about, values))
    return Evidence(outcomes)


@cache
def quick() -> dict[str, Figure]:
    return {figure.key: figure for figure in figures_of("cs-f-ltr", Size("quick"), NOWHERE)}


def studies(figure: Figure) -> list[Study]:
    return [part for part in figure.parts if isinstance(part, Study)]


# Figures


@pytest.mark.parametrize("size", ["quick", "full"])
def test_every_claim_speaks_of_parts_that_there_are(size: str) -> None:
    for figure in figures_of("cs-f-ltr", Size(size), NOWHERE):  # type: ignore[arg-type]
        names = [part.name for part in figure.parts]
        assert len(set(names)) == len(names)
        assert {name for claim in figure.claims for name in claim.parts} == set(names)


def test_without_runs_nothing_agrees_and_nothing_breaks() -> None:
    for figure in quick().values():
        assert {row["verdict"] for row in rows_of(figure, Evidence({}))} <= {"skipped", "undecided"}
        assert figure.pictures is None or all(figure.pictures(Evidence({})).values())


def test_figures_that_need_the_same_repetitions_share_their_jobs() -> None:
    table, mixture = quick()["table-1"], quick()["fairness"]
    jobs = [{job for part in studies(figure) for job in part.jobs} for figure in (table, mixture)]
    assert jobs[0] == jobs[1]


def test_a_full_run_has_ten_seeds_and_every_ranker() -> None:
    table, others = figures_of("cs-f-ltr", Size("full"), NOWHERE, ["table-1", "other-rankers"])
    for part in studies(table):
        assert [job.settings.seed for job in part.jobs] == list(range(1, 11))
        assert {job.settings.rankers for job in part.jobs} == {("pointwise",)}  # type: ignore[attr-defined]
    for part in studies(others):
        assert {job.settings.rankers for job in part.jobs} == {("pairwise", "forest")}  # type: ignore[attr-defined]


# Table I and the mixture, from made-up outcomes


def made_table(gain: float) -> list[Figures]:
    """Return four repetitions in which CS-F-LTR gains so much on everything at each party."""
    found: list[Figures] = []
    for seed in range(4):
        base = 0.5 + 0.01 * seed
        local: Values = {"err": base, "ndcg@10": base, "ndcg": base}
        better: Values = dict.fromkeys(local, base + gain + 0.001 * seed)
        plus: Values = {
            "err": base - 0.01,
            "ndcg@10": base + 0.01 + 0.001 * seed,
            "ndcg": base + 0.02,
        }
        found.append({"Local": local, "Global": local, "Local+": plus, "CS-F-LTR": better})
    return found


@pytest.mark.parametrize(("gain", "verdict"), [(0.1, "agrees"), (-0.1, "differs")])
def test_table_1_agrees_just_where_cs_f_ltr_is_above_the_others(gain: float, verdict: str) -> None:
    part = "clinic world, exact counts"
    found = evidence(part, made_table(gain))
    rows = [row for row in rows_of(quick()["table-1"], found) if row["data"] == part]
    of_averages = [row for row in rows if row["statement"].startswith("CS-F-LTR above") and
                   not row["beyond"]]  # fmt: skip
    assert len(of_averages) == 9
    assert {row["verdict"] for row in of_averages} == {verdict}
    plus = [row for row in rows if row["statement"].startswith("Local+")]
    assert [row["verdict"] for row in plus] == ["agrees"] * 3
    assert [row["paper"] for row in plus] == [-0.005, 0.013, 0.005]


def test_the_weakest_party_is_chosen_by_the_other_repetitions() -> None:
    # Party a is weakest in repetitions 2 and 3, b in 1: chosen by its own number b would count.
    local = {"party-a": (0.5, 0.1, 0.1), "party-b": (0.2, 0.5, 0.5),
             "party-c": (0.9, 0.9, 0.9), "party-d": (0.8, 0.8, 0.8)}  # fmt: skip
    figures: list[Figures] = [
        {
            "Local": {f"ndcg@10 {party}": values[i] for party, values in local.items()},
            "CS-F-LTR": {f"ndcg@10 {party}": 0.6 for party in local},
        }
        for i in range(3)
    ]
    found = gain_of(evidence("here", figures), "here", weakest=True)
    # Others' sums: without 1: a .2, b 1.0; without 2: a .6, b .7; without 3: a .6, b .7.
    assert found.value == pytest.approx((0.1 + 0.5 + 0.5) / 3)
    assert found.note == "party-a"
    best = gain_of(evidence("here", figures), "here", weakest=False)
    assert best.value == pytest.approx(-0.3)
    assert best.note == "party-c"


def test_losses_of_parties_are_t_tests_times_the_number_of_parties() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0.5, 0.1, (6, 2, len(PARTIES)))
    figures: list[Figures] = [
        {
            system: {f"own_ndcg@10 {p}": float(v) for p, v in zip(PARTIES, line, strict=True)}
            for system, line in zip(("mixture", "Local"), one, strict=True)
        }
        for one in values
    ]
    found = losses_of_parties(evidence("here", figures), "here", "mixture", "Local")
    for i, party in enumerate(PARTIES):
        p = stats.ttest_rel(values[:, 0, i], values[:, 1, i]).pvalue
        assert found[party].p_corrected == pytest.approx(min(1.0, 4 * p))


@pytest.mark.parametrize(("loss", "verdicts"), [
    (0.0, ["agrees", "agrees"]),
    (0.004, ["differs", "agrees"]),
    (0.02, ["differs", "differs"]),
])  # fmt: skip
def test_a_party_that_loses_in_every_repetition_is_found(loss: float, verdicts: list[str]) -> None:
    part = "clinic world, exact counts"
    figures: list[Figures] = []
    for seed in range(6):
        base = 0.5 + 0.01 * seed
        local: Values = {f"own_ndcg@10 {party}": base for party in PARTIES}
        mixed: Values = dict.fromkeys(local, base + 0.01)
        mixed["own_ndcg@10 party-b"] = base - loss - 1e-5 * seed * (loss > 0)
        figures.append({"Local": local, "mixture": mixed})
    rows = rows_of(quick()["fairness"], evidence(part, figures))
    own = [row for row in rows if row["data"] == part and row["compared"].startswith("mixture")]
    assert [row["verdict"] for row in own[:2]] == verdicts


# Corpora and cover rates


def test_true_counts_are_those_of_the_documents() -> None:
    corpus = open_corpus(ZIPF, seed=3, n_terms=50)
    exact = corpus.counts.term_counts(corpus.terms, np.arange(corpus.counts.n_documents))
    assert np.array_equal(corpus.truth, exact)
    assert corpus.n_drawn.sum() == 50


def slow_cover(found: list[int], counts: list[int], k: int, *, holders: bool) -> float:
    """Count literally: above the last true place, and as many equal to it as there is room for."""
    top = sorted(counts, reverse=True)[:k]
    top = [count for count in top if count > 0] if holders else top
    if not top:
        return float("nan")
    got = [counts[document] for document in dict.fromkeys(found) if document >= 0]
    equal = min(sum(c == top[-1] for c in got), sum(c == top[-1] for c in top))
    return (sum(c > top[-1] for c in got) + equal) / len(top)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_cover_figures_count_ties_as_a_literal_count_does(data: st.DataObject) -> None:
    n_documents, k = data.draw(st.integers(3, 12)), data.draw(st.integers(1, 5))
    numbers = st.lists(st.integers(0, 3), min_size=n_documents, max_size=n_documents)
    truth = data.draw(st.lists(numbers.filter(any), min_size=2, max_size=2))
    places = st.lists(st.integers(-1, n_documents - 1), min_size=k, max_size=k)
    found = data.draw(st.lists(places, min_size=2, max_size=2))
    drawn = np.array([1, 3])
    corpus = SearchedCorpus(count_terms(["a"]), ("a", "b"), drawn, np.array(truth, np.int32))
    answers = ReverseTop(np.array(found, np.int32), np.zeros((2, k)))
    figures = cover_figures(corpus, answers)
    for name, holders in (("cover_rate", False), ("holders_covered", True)):
        rates = [slow_cover(f, t, k, holders=holders) for f, t in zip(found, truth, strict=True)]
        assert figures[name] == pytest.approx(np.average(rates, weights=drawn))


# Sketches of documents

texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=6)


@given(texts, st.integers(1, 7))
@settings(max_examples=25, deadline=None)
def test_document_sketches_estimate_as_a_sketch_of_each_document_does(
    documents: list[list[str]], n_rows: int
) -> None:
    counts = count_terms([" ".join(words) for words in documents])
    key, shape = HashKey(bytes(32)), SketchShape(n_rows=n_rows, n_columns=4)
    asked, vocabulary = key.hash_terms(WORDS, shape), key.hash_terms(counts.vocabulary, shape)
    for kind, sketch in (("count-sketch", CountSketch), ("count-min", CountMin)):
        made = DocumentSketches(counts, key, shape, kind=kind)  # type: ignore[arg-type]
        got = made.term_counts(WORDS, np.arange(counts.n_documents))
        for number in range(counts.n_documents):
            one = sketch.from_counts(counts.select(np.array([number])), vocabulary)
            assert got[:, number] == pytest.approx(np.maximum(one.estimate(asked), 0))


def spread() -> TermCounts:
    return count_terms([" ".join(WORDS[: i % 6 + 1] * 3) for i in range(60)])


def test_shared_noise_moves_estimates_and_not_the_selection() -> None:
    counts, key, shape = spread(), HashKey(bytes(32)), SketchShape(n_rows=5, n_columns=500)
    quiet = DocumentSketches(counts, key, shape)
    noisy = DocumentSketches(counts, key, shape, claimed_epsilon=0.1, rng=np.random.default_rng(1))
    everything = np.arange(counts.n_documents)
    assert np.array_equal(quiet.top("cough", 20)[0], noisy.top("cough", 20)[0])
    # The median over five signs: the noise enters times the majority's sign.
    moved = noisy.term_counts(["cough"], everything) - quiet.term_counts(["cough"], everything)
    assert np.abs(moved).mean() > 1


def test_noise_without_a_generator_is_refused() -> None:
    with pytest.raises(SettingsError, match="generator"):
        DocumentSketches(spread(), HashKey(bytes(32)), SketchShape(), claimed_epsilon=0.5)


# Trials


@cache
def rtk_figures() -> Figures:
    return rtk_trial.measure(
        rtk_trial.RtkSettings(data=ZIPF, seed=1, n_terms=30, n_timed=2), ignore
    )


def test_the_rtk_trial_measures_every_variant_at_every_point() -> None:
    figures = rtk_figures()
    assert len(figures) == 3 * 20
    default = rtk_trial.system_at(rtk_trial.MENDED, "alpha", 5)
    assert figures[default] == figures[rtk_trial.system_at(rtk_trial.MENDED, "w", 200)]
    for values in figures.values():
        assert 0 <= values["holders_covered"] <= 1  # type: ignore[operator]
        assert values["ms"] > 0  # type: ignore[operator]
    # Lists that hold all of 300 documents on each side lose nothing beside NAIVE.
    whole, naive = (
        figures[rtk_trial.system_at(variant, "alpha", 10)]["cover_rate"]
        for variant in (rtk_trial.MENDED, rtk_trial.NAIVE)
    )
    assert whole == pytest.approx(naive, abs=0.02)


def test_a_smaller_heap_is_a_prefix_of_a_larger_one() -> None:
    corpus = open_corpus(ZIPF, seed=2, n_terms=20)
    key, shape = HashKey(bytes(32)), SketchShape(n_rows=4, n_columns=20)
    words = key.hash_terms(corpus.counts.vocabulary, shape)
    cut = rtk_trial._cut(SignedHeap(corpus.counts, words, 90), 40)
    built = SignedHeap(corpus.counts, words, 40)
    asked = key.hash_terms(corpus.terms, shape)
    assert np.array_equal(cut.top(asked, 10).documents, built.top(asked, 10).documents)
    assert cut.size_bytes == built.size_bytes


def test_figure_4_is_drawn_for_what_was_measured() -> None:
    figure = quick()["figure-4"]
    assert figure.pictures is not None
    found = evidence("Zipf corpus", [rtk_figures()] * 3)  # a mean of equals may be off them
    pictures = figure.pictures(found)
    assert list(pictures) == ["zipf-corpus.png"]
    assert pictures["zipf-corpus.png"].startswith(b"\x89PNG")


def test_less_noise_covers_more() -> None:
    settings = cover_trial.CoverSettings(data=ZIPF, seed=1, n_terms=60, epsilons=(0.5, 8.0), k=20)
    figures = cover_trial.measure(settings, ignore)
    for shape in cover_trial.SHAPES:
        much, little, none = (
            figures[cover_trial.system_of(shape, epsilon)]["holders_covered"]
            for epsilon in (0.5, 8.0, None)
        )
        assert much < little < none + 0.1  # type: ignore[operator]
    assert figures[cover_trial.system_of(cover_trial.PAPER, 0.5)]["n_rows"] == 30


def test_a_narrow_sketch_tells_relevant_documents_worse() -> None:
    settings = separation.SeparationSettings(data=WORLD, collection="clinic", n_instances=80)
    figures = separation.measure(settings, ignore)
    assert list(figures) == list(separation.STRATEGIES)
    auc = {name: values["auc"] for name, values in figures.items()}
    assert auc[separation.NO_SKETCH] > auc["Count Sketch, w 10"]  # type: ignore[operator]


def test_embedding_keeps_clusters_apart() -> None:
    near, far = (
        np.random.default_rng(1).normal(0, 0.1, (2, 40, 5)) + np.array([0, 5])[:, None, None]
    )
    places = separation._embedded(np.concatenate([near, far]), 1)
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    assert distances[:40, :40].mean() < distances[:40, 40:].mean()


def test_figure_5_has_a_panel_for_each_strategy() -> None:
    figure = quick()["figure-5"]
    assert figure.pictures is not None
    dots: Figures = {
        name: {"auc": 0.9, "x": [0.0, 1.0], "y": [1.0, 0.0], "relevant": [1.0, 0.0]}
        for name in separation.STRATEGIES
    }
    pictures = figure.pictures(evidence("NFCorpus", [dots]))
    assert pictures["nfcorpus.png"].startswith(b"\x89PNG")
    without: Figures = {name: {"auc": 0.9} for name in separation.STRATEGIES}
    assert figure.pictures(evidence("NFCorpus", [without])) == {}


def test_a_repetition_has_every_run_of_every_ranker() -> None:
    settings = SilosStudySettings(data=WORLD, silos=SMALL, rankers=("pointwise", "pairwise"))
    figures = silo_trial.measure(settings, ignore)
    assert list(figures)[:4] == ["Local", "Local+", "Global", "CS-F-LTR"]
    assert {"Local, pooled statistics", "CS-F-LTR, tuned", "mixture"} < set(figures)
    assert figures["CS-F-LTR"] == measure_silos(SMALL)["cs-f-ltr"]
    assert len(figures) == 14


def test_a_federation_of_all_parties_is_cs_f_ltr_and_of_one_its_local_ranker() -> None:
    silos = SMALL.model_copy(update={"local_statistics": "pooled"})
    settings = federation_trial.FewerPartiesSettings(data=WORLD, silos=silos)
    figures = federation_trial.measure_parties(settings, ignore)
    whole = measure_silos(silos)
    for name in ("ndcg@10", "err", "ndcg"):
        assert figures["4 parties"][name] == pytest.approx(whole["cs-f-ltr"][name])
        alone = [whole["local"][f"{name} {party}"] for party in PARTIES]
        assert any(figures["1 party"][name] == pytest.approx(value) for value in alone)


def test_a_sketch_without_collisions_and_noise_is_as_good_as_exact_counts() -> None:
    settings = federation_trial.SharedNoiseSettings(
        data=WORLD, silos=SMALL, n_rows=5, n_columns=20_000, claimed_epsilons=(0.1,)
    )
    figures = federation_trial.measure_shared_noise(settings, ignore)
    exact = measure_silos(SMALL)["cs-f-ltr"]
    assert figures[federation_trial.NO_NOISE]["ndcg@10"] == pytest.approx(exact["ndcg@10"])
    assert figures["claimed 0.1"] != figures[federation_trial.NO_NOISE]
