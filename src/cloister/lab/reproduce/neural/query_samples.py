"""Claims over test queries: intervals and tests are of differences query by query.

A query's value is its mean over seeds; queries are the pairs. So intervals speak of other queries
of the same kind, with rankers trained as these were; what another draw of training queries would
change is in them only as far as seeds differ.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cloister.lab.reproduce.claim import MARGIN, Above, Claim, Estimate, Expectation
from cloister.lab.reproduce.evidence import Evidence, Sample, paired
from cloister.lab.reproduce.gap import share_of_gap
from cloister.lab.reproduce.study import StudyOutcome
from cloister.measure.significance import paired_t_test

__all__ = ["NO_WORSE", "counted_ratio", "higher", "keeps", "query_sample"]

NO_WORSE: Final = Above(-MARGIN)  # at least as good, but for what is called no difference
NOTHING: Final = "nothing"


def query_sample(evidence: Evidence, part: str, system: str, k: int) -> Sample:
    """Return nDCG@k of each test query, by fold and place, as the mean over seeds."""
    found: dict[tuple[str, int], list[list[float]]] = {}
    for outcome in evidence.outcomes(part, system):
        if isinstance(outcome, StudyOutcome):
            key = outcome.settings.data, outcome.settings.fold
            found.setdefault(key, []).append(outcome.curve(f"queries@{k}").tolist())
    return {
        (data, fold, place): value
        for (data, fold), by_seed in found.items()
        for place, value in enumerate(np.mean(by_seed, axis=0).tolist())
    }


def higher(
    statement: str,
    *,
    part: str,
    system: str,
    baseline: str,
    k: int = 10,
    expects: Expectation | None = None,
    n_comparisons: int = 1,
    beyond: bool = False,
) -> Claim:
    """Return the claim that a system's nDCG@k is above a baseline's, or as ``expects`` says.

    Parameters
    ----------
    n_comparisons
        Claims that are made at once: the note has the p-value of the paired t-test, and what
        Bonferroni's correction makes of it.
    """

    def estimate(evidence: Evidence) -> Estimate:
        samples = [query_sample(evidence, part, name, k) for name in (system, baseline)]
        found = paired(samples[0], samples[1], (system, baseline))
        if found.n < 2:
            return found
        both = sorted(samples[0].keys() & samples[1].keys())
        tested = paired_t_test(
            *([sample[key] for key in both] for sample in samples), n_comparisons=n_comparisons
        )
        note = f"p = {tested.p_value:.2g}, corrected {tested.p_corrected:.2g}"
        return found._replace(note=note)

    return Claim(
        statement,
        f"{system} less {baseline}: nDCG@{k}",
        (part,),
        expects or Above(),
        estimate,
        beyond=beyond,
    )


def keeps(
    statement: str, *, part: str, system: str, baseline: str, share: float, beyond: bool = False
) -> Claim:
    """Return the claim that a system keeps more than a share of a baseline's nDCG@10.

    The interval is a bootstrap one over queries, of the ratio of the two means. The note has the
    share of both systems' scores that comes of soft kernels.
    """

    def estimate(evidence: Evidence) -> Estimate:
        ours, whole = (query_sample(evidence, part, name, 10) for name in (system, baseline))
        names = (NOTHING, system, baseline)
        nothing = dict.fromkeys(whole, 0.0)
        found = share_of_gap(nothing, ours, whole, names=names, purpose=f"{part} {system}")
        means = {name: value for name, value in found.means.items() if name != NOTHING}
        note = found.note if found.value is None else _soft_note(evidence, part, system, baseline)
        return found._replace(means=means, note=note)

    return Claim(
        statement,
        f"{system} by {baseline}: nDCG@10",
        (part,),
        Above(share),
        estimate,
        beyond=beyond,
    )


def _soft_note(evidence: Evidence, part: str, system: str, baseline: str) -> str:
    """Say how much soft kernels count: where they do not, there is nothing to be lost."""
    shares = []
    for one in (system, baseline):
        values = [outcome.at_end("soft_share_of_order") for outcome in evidence.outcomes(part, one)]
        shares.append(f"{np.mean(values):.2f}")
    return f"soft kernels make up {' and '.join(shares)} of the order"


def counted_ratio(
    statement: str,
    *,
    part: str,
    system: str,
    baseline: str,
    name: str,
    expects: Expectation,
    paper: float | None = None,
    beyond: bool = False,
) -> Claim:
    """Return a claim on the ratio of two counted figures, such as bytes.

    Nothing is drawn there: the interval is from the least to the most of the repetitions.
    """

    def estimate(evidence: Evidence) -> Estimate:
        ours, theirs = (
            {outcome.repeat: outcome.at_end(name) for outcome in evidence.outcomes(part, one)}
            for one in (system, baseline)
        )
        ratios = [ours[key] / theirs[key] for key in sorted(ours.keys() & theirs.keys())]
        if not ratios:
            return Estimate(None, note="no run has come to an end")
        means = {
            one: float(np.mean(list(values.values())))
            for one, values in ((system, ours), (baseline, theirs))
        }
        return Estimate(float(np.mean(ratios)), min(ratios), max(ratios), len(ratios), means)

    compared = f"{system} by {baseline}: {name}"
    return Claim(statement, compared, (part,), expects, estimate, paper, beyond=beyond)
