"""Beyond the paper: what statistics that are safer to publish cost, by agreement and by judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cloister.lab.espresso.statistics_cost import StatisticsCostSettings
from cloister.lab.reproduce.claim import Above, Claim, Expectation, Near
from cloister.lab.reproduce.collection import Collection, Collections
from cloister.lab.reproduce.comparing import versus
from cloister.lab.reproduce.espresso.setting import ACCESS, NO_DIFFERENCE, PAPER_SETTING
from cloister.lab.reproduce.espresso.statistics_shown import statistics_csv, statistics_png
from cloister.lab.reproduce.espresso.statistics_trial import (
    CLINIC,
    EXACT,
    FOUND,
    LISTED,
    NOTHING,
    StatisticsTrialSettings,
    at_access,
    noisy_name,
    threshold_name,
)
from cloister.lab.reproduce.evidence import Evidence
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import Quantity, figure
from cloister.lab.reproduce.study import Study, StudyJob

__all__ = ["statistics"]

FUNCTION: Final = "cloister.lab.reproduce.espresso.statistics_trial:measure"
AGREEMENT: Final = figure("agreement@10", "agreement, nDCG@10")
JUDGED: Final = figure("judged@10", "judged nDCG@10")
SMALL: Final = 5  # a threshold
LITTLE: Final = 0.02  # of agreement@10: what a small threshold may cost
MORE: Final = 0.1  # of agreement@10: what noise may cost
STRONG, WEAK = 1.0, 8.0  # epsilon with much noise, and with little


class _Spread(NamedTuple):
    """A collection in pods, whether people judged its queries, and how long a pod counts."""

    name: str
    collection: Collection
    documents_a_pod: int
    judged: bool
    max_length: int  # tokens; less than the mean of documents would spoil that mean
    told: str


def statistics(size: Size, data: Collections) -> Figure:
    """Return the cost of tables with a threshold and of noisy ones."""
    words = data["MedQuAD"] if data["MedQuAD"].is_here else None
    chosen = tuple(_spreads(size, data))
    cost = StatisticsCostSettings(
        access=size.of(quick=(10, 100), full=ACCESS),
        thresholds=size.of(quick=(SMALL, 50), full=(2, SMALL, 10, 20, 50)),
        epsilons=size.of(quick=(STRONG, WEAK), full=(0.5, STRONG, 2.0, 4.0, WEAK)),
    )
    parts = tuple(_study(one, cost, words, size) for one in chosen)
    return Figure(
        "statistics",
        "What statistics with a threshold, and noisy ones, cost in ranking by BM25",
        PAPER_SETTING,
        parts,
        tuple(c for one in chosen for c in _claims(one, cost, words is not None)),
        "Agreement: nDCG@10 with BM25 by the user's own statistics, whose first ten count as "
        "right. Judged: nDCG@10 by people's grades of what the user may read. All servers are "
        "asked: the tables alone make the difference. Exact tables, and those with a threshold, "
        "have no differential privacy. Noise comes from a seed here and protects nobody; its "
        "width is that of a pod as the unit, 64 terms of it, delta 1e-6. A repetition has other "
        "pods, another reader and other noise; in the clinic world also another world.",
        measures=(),
        pictures=lambda evidence: _pictures(parts, cost, evidence),
    )


def _spreads(size: Size, data: Collections) -> Iterator[_Spread]:
    nfcorpus = data["NFCorpus"]
    told = "10 servers, one document a pod, test queries"
    yield _Spread("NFCorpus", nfcorpus, 1, True, 400, told)
    if not size.is_quick:
        told = "10 servers, five documents a pod, test queries"
        yield _Spread("NFCorpus, five a pod", nfcorpus, 5, True, 400, told)
    pods, queries = size.of(quick=60, full=300), size.of(quick=30, full=100)
    clinic = Collection("clinic world", f"{CLINIC}servers=10&pods={pods}&queries={queries}")
    told = f"10 servers x {pods} pods, {queries} queries"
    yield _Spread("clinic world", clinic, 1, False, 2_000, told)


def _study(
    spread: _Spread, cost: StatisticsCostSettings, words: Collection | None, size: Size
) -> Study:
    noisy = cost.noisy.model_copy(update={"max_length": spread.max_length})
    jobs = tuple(
        StudyJob(
            FUNCTION,
            StatisticsTrialSettings(
                data=spread.collection.address,
                seed=seed,
                documents_a_pod=spread.documents_a_pod,
                word_list="" if words is None else words.address,
                cost=cost.model_copy(update={"noisy": noisy}),
            ),
            5,
        )
        for seed in range(1, size.of(quick=3, full=10) + 1)
    )
    told = f"{spread.told}, noisy tables count up to {spread.max_length:,} tokens of a pod"
    told = told if words is None else f"{told}, word list: {words.name}'s words"
    return Study(spread.name, spread.collection, jobs, told)


def _claims(spread: _Spread, cost: StatisticsCostSettings, has_words: bool) -> Iterator[Claim]:
    terms = (FOUND, LISTED) if has_words else (FOUND,)
    for access in cost.access:
        at = _At(spread.name, access)
        yield at.above(
            f"a threshold of {SMALL} costs less than {LITTLE:g} in agreement@10",
            threshold_name(SMALL), EXACT, AGREEMENT, Above(-LITTLE),
        )  # fmt: skip
        for each in (False, True):
            yield at.above(
                "any threshold ranks nearer to the user's own statistics than no list at all",
                threshold_name(max(cost.thresholds), each=each), NOTHING, AGREEMENT,
            )  # fmt: skip
        for kind in terms:
            yield from _of_noise(at, kind)
        if spread.judged:
            yield from _as_judged(at, terms)
        if has_words:
            for epsilon in cost.epsilons:
                yield at.above(
                    "a public word list costs less agreement than terms that are found",
                    noisy_name(epsilon, LISTED), noisy_name(epsilon, FOUND), AGREEMENT,
                )  # fmt: skip


def _of_noise(at: _At, kind: str) -> Iterator[Claim]:
    yield at.above(
        f"noise at epsilon {STRONG:g} costs less than {MORE:g} in agreement@10",
        noisy_name(STRONG, kind), EXACT, AGREEMENT, Above(-MORE),
    )  # fmt: skip
    yield at.above(
        f"noisy tables at epsilon {STRONG:g} rank better than no list at all",
        noisy_name(STRONG, kind), NOTHING, AGREEMENT,
    )  # fmt: skip
    yield at.above(
        "less noise costs less agreement", noisy_name(WEAK, kind), noisy_name(STRONG, kind),
        AGREEMENT,
    )  # fmt: skip
    yield at.above(
        "tables made together cost less agreement than one of each server",
        noisy_name(STRONG, kind), noisy_name(STRONG, kind, each=True), AGREEMENT,
    )  # fmt: skip


def _as_judged(at: _At, terms: Sequence[str]) -> Iterator[Claim]:
    names = [threshold_name(SMALL), *(noisy_name(STRONG, kind) for kind in terms)]
    for name in names:
        yield at.above(
            "people find no difference to exact tables", name, EXACT, JUDGED, Near(NO_DIFFERENCE)
        )


class _At(NamedTuple):
    """A part and an access level, of which claims are made."""

    part: str
    access: int

    def above(
        self,
        statement: str,
        system: str,
        baseline: str,
        quantity: Quantity,
        expects: Expectation | None = None,
    ) -> Claim:
        """Return the claim that tables are above others, or as ``expects`` says."""
        return versus(
            statement,
            part=self.part,
            system=at_access(system, self.access),
            baseline=at_access(baseline, self.access),
            quantity=quantity,
            expects=expects,
            beyond=True,
        )


def _pictures(
    parts: tuple[Study, ...], cost: StatisticsCostSettings, evidence: Evidence
) -> dict[str, bytes]:
    drawn = {"values.csv": statistics_csv(parts, cost, evidence)}
    for part in parts:
        if evidence.outcomes(part.name, at_access(EXACT, cost.access[0])):
            name = part.name.lower().replace(",", "").replace(" ", "-")
            title = f"{part.name}: BM25 with published tables, {len(part.jobs)} repetitions"
            drawn[f"{name}.png"] = statistics_png(part.name, cost, evidence, title)
    return drawn
