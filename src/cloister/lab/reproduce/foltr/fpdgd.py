"""Figures 3.6 and 3.7: FPDGD beside FOLtR-ES and PDGD (thesis section 3.2.3)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from cloister.lab.reproduce.claim import Above, Below, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import CLICKS, features_worlds, mq2008, mslr
from cloister.lab.reproduce.quantity import MAX_RR, NDCG, Quantity, trend

__all__ = ["NOISE", "NoiseLevel", "figure_3_6", "figure_3_7", "parts_of_figure_3_6"]

LONGER: Final = "MSLR sample, longer"
_PARTS: Final = ("MQ2008", "MSLR sample", "features world")
SETTING: Final = (
    "1,000 clients x 4 queries x 1,000 rounds on MQ2007, 1,000 x 2 x 200 on MSLR-WEB10K, 25 runs"
)


class NoiseLevel(NamedTuple):
    """A claimed epsilon, the sensitivity chosen for it, and FOLtR-ES's p for the same epsilon."""

    epsilon: float
    sensitivity: float
    p: float

    @property
    def fpdgd(self) -> str:
        """The name of FPDGD with this noise."""
        return f"FPDGD eps={self.epsilon:g}"

    @property
    def es(self) -> str:
        """The name of FOLtR-ES with this noise."""
        return f"ES p={self.p:g}"

    def systems(self) -> list[dict[str, Any]]:
        """Return both."""
        noise = {"paper_epsilon": self.epsilon, "paper_sensitivity": self.sensitivity}
        return [
            {"name": self.fpdgd} | noise,
            {"name": self.es, "method": "es", "keep_probability": self.p},
        ]


# Thesis section 3.2.2, "Choosing privacy parameters". The epsilons are those claimed, not true.
NOISE: Final = (
    NoiseLevel(1.2, 3.0, 0.25),
    NoiseLevel(2.3, 3.0, 0.5),
    NoiseLevel(4.5, 5.0, 0.9),
    NoiseLevel(10.0, 5.0, 1.0),
)


def levels(size: Size) -> tuple[NoiseLevel, ...]:
    """Return the levels of noise that are run."""
    return size.of(quick=(NOISE[0], NOISE[-1]), full=NOISE)


def parts_of_figure_3_6(size: Size, data: Collections) -> tuple[Part, ...]:
    """Return FPDGD, FOLtR-ES and PDGD on MQ2008, the MSLR sample and features worlds."""
    clients = size.of(quick=100, full=1000)
    systems = [{"name": "FPDGD"}, *(s for level in levels(size) for s in level.systems())]
    pdgd: list[dict[str, Any]] = [
        {"name": "PDGD, as many updates", "method": "pdgd", "clients": 1, "queries_per_round": 1},
        {"name": "PDGD, as many interactions", "method": "pdgd"},
    ]
    batches: list[dict[str, Any]] = [{"name": "PDGD in batches", "method": "batch-pdgd"}]
    more = systems + pdgd + size.of(quick=[], full=batches)
    return (
        mq2008(data).part(
            more,
            clients=clients,
            queries_per_round=4,
            rounds=size.of(quick=400, full=1000),
            seeds=size.of(quick=1, full=5),
        ),
        mslr(data).part(
            more,
            clients=clients,
            queries_per_round=2,
            rounds=200,
            seeds=size.of(quick=5, full=10),
        ),
        mslr(data).part(
            [{"name": "FPDGD"}, NOISE[-1].systems()[1]],
            clients=clients,
            queries_per_round=4,
            rounds=size.of(quick=600, full=1000),
            seeds=size.of(quick=5, full=10),
            name=LONGER,
        ),
        features_worlds().part(
            systems,
            clients=clients,
            queries_per_round=2,
            rounds=200,
            seeds=size.of(quick=1, full=2),
        ),
    )


def figure_3_6(size: Size, data: Collections) -> Figure:
    """Offline nDCG of all methods."""
    claims = _above_es(size, NDCG)
    for part in ("MQ2008", "MSLR sample"):
        for click in CLICKS:
            claims += _beside_pdgd(part, click)
            claims += [] if size.is_quick else [_little_noise(part, click)]
    claims += [
        alone(
            "On MQ2007 FOLtR-ES gets worse with more updates where p is high, under perfect and "
            "informational clicks.",
            part="MQ2008",
            system=NOISE[-1].es,
            click=click,
            quantity=trend("offline_ndcg"),
            expects=Below(),
        )
        for click in ("perfect", "informational")
    ]
    return Figure(
        "figure-3.6",
        "FPDGD, FOLtR-ES and PDGD, offline nDCG@10",
        SETTING,
        parts_of_figure_3_6(size, data),
        tuple(claims),
        "The epsilons are those that the thesis claims; the true ones are far larger."
        + size.of(
            quick=" With a tenth of the clients the mean carries ten times the noise; what the "
            "level of noise does to 1,000 clients is left to the full run.",
            full="",
        ),
    )


def figure_3_7(size: Size, data: Collections) -> Figure:
    """Offline MaxRR of the same runs."""
    return Figure(
        "figure-3.7",
        "FPDGD and FOLtR-ES, offline MaxRR",
        SETTING,
        parts_of_figure_3_6(size, data),
        tuple(_above_es(size, MAX_RR)),
        measures=("offline_max_rr",),
    )


def _above_es(size: Size, quantity: Quantity) -> list[Claim]:
    pairs = [("FPDGD", NOISE[-1].es)] + [(level.fpdgd, level.es) for level in levels(size)]
    cells = [(part, *pair) for part in _PARTS for pair in pairs]
    cells.append((LONGER, "FPDGD", NOISE[-1].es))
    return [
        versus(
            "FPDGD is above FOLtR-ES on every collection, under every click model, at every level "
            "of privacy.",
            part=part,
            system=system,
            baseline=baseline,
            click=click,
            quantity=quantity,
            beyond=part == "features world",
        )
        for part, system, baseline in cells
        for click in CLICKS
    ]


def _beside_pdgd(part: str, click: str) -> list[Claim]:
    return [
        versus(
            f"PDGD with {amount} is {word} FPDGD.",
            part=part,
            system=f"PDGD, {amount}",
            baseline="FPDGD",
            click=click,
            expects=expects,
        )
        for amount, word, expects in (
            ("as many updates", "below", Below()),
            ("as many interactions", "above", Above()),
        )
    ]


def _little_noise(part: str, click: str) -> Claim:
    return versus(
        "The privacy budget makes little difference to FPDGD (on MQ2007 a small one tends to "
        "cost something, not significantly).",
        part=part,
        system=NOISE[0].fpdgd,
        baseline=NOISE[-1].fpdgd,
        click=click,
        expects=Near(),
    )
