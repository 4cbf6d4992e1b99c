"""Figures 4.5 to 4.7 and table 4.3: clients who hold few labels (thesis section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cloister.lab.reproduce.claim import Above, Below, Claim, Near, Within
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.document_preference import best_of, mu_systems
from cloister.lab.reproduce.foltr.evolution_strategies import RANKERS
from cloister.lab.reproduce.foltr.setting import CLICKS, TWO_CLICKS, discounts, mslr
from cloister.lab.reproduce.quantity import ONLINE

__all__ = ["figure_4_5", "figure_4_6", "figure_4_7", "table_4_3"]

SHARE: Final = 0.1  # of the queries that are shared, thesis section 4.4.3
LABELS: Final = {"partition": "labels", "labels_per_client": 1}
CONSTANT: Final = 1589.23  # table 4.3: what all non-IID cells say
# IID cells of table 4.3 for B = 2, 5, 10.
PRINTED: Final = {
    ("linear", "perfect"): (742.10, 778.56, 798.05),
    ("linear", "navigational"): (698.25, 743.35, 771.04),
    ("linear", "informational"): (672.23, 722.23, 757.10),
    ("neural", "perfect"): (716.55, 781.18, 815.8),
    ("neural", "navigational"): (649.83, 728.96, 775.87),
    ("neural", "informational"): (612.76, 693.35, 748.64),
}
QUERIES: Final = (2, 5, 10)


def _clicks(size: Size) -> tuple[str, ...]:
    return size.of(quick=TWO_CLICKS, full=CLICKS)


def _queries(size: Size, ranker: str) -> tuple[int, ...]:
    return (5,) if size.is_quick and ranker == "neural" else QUERIES


def _part(size: Size, data: Collections, ranker: str, systems: Sequence[dict[str, Any]]) -> Part:
    return mslr(data).part(
        systems,
        name=f"MSLR sample, {ranker}",
        ranker=RANKERS[ranker],
        clients=5,
        queries_per_round=5,
        rounds=size.of(quick=1000 if ranker == "linear" else 300, full=10_000),
        seeds=size.of(quick=5, full=10 if ranker == "linear" else 5),
        clicks=_clicks(size),
    )


def _by_queries(size: Size, data: Collections) -> tuple[Part, ...]:
    """Return IID and #R = 1 with each number of queries a round."""
    return tuple(
        _part(
            size,
            data,
            ranker,
            [
                {"name": f"{kind} B={b}", "queries_per_round": b} | own
                for b in _queries(size, ranker)
                for kind, own in (("IID", {}), ("#R=1", LABELS))
            ],
        )
        for ranker in RANKERS
    )


def figure_4_5(size: Size, data: Collections) -> Figure:
    """One label a client, offline."""
    claims: list[Claim] = []
    for ranker in RANKERS:
        for click in _clicks(size):
            claims += [
                versus(
                    "Rankers learnt from one label a client are worse than with IID data.",
                    part=f"MSLR sample, {ranker}",
                    system=f"IID B={b}",
                    baseline=f"#R=1 B={b}",
                    click=click,
                )
                for b in _queries(size, ranker)
            ]
            if len(_queries(size, ranker)) > 1:
                claims.append(_more_queries(ranker, click))
    return Figure(
        "figure-4.5",
        "Type 2, one label a client: offline nDCG@10",
        "5 clients x 2, 5 and 10 queries x 10,000 rounds",
        _by_queries(size, data),
        tuple(claims),
    )


def _more_queries(ranker: str, click: str) -> Claim:
    if ranker == "neural":
        statement = "For the neural ranker the number of local queries makes no difference."
        expects: Above | Below | Near = Near()
    else:
        statement = (
            "For the linear ranker more local queries are better under perfect clicks, and "
            "slightly worse under noisier ones."
        )
        expects = Above() if click == "perfect" else Below()
    return versus(
        statement,
        part=f"MSLR sample, {ranker}",
        system="#R=1 B=10",
        baseline="#R=1 B=2",
        click=click,
        expects=expects,
    )


def table_4_3(size: Size, data: Collections) -> Figure:
    """One label a client, online: a constant that no data can change."""
    parts = _by_queries(size, data)
    claims: list[Claim] = []
    for part, ranker in zip(parts, RANKERS, strict=True):
        rounds = int(part.experiment.base["rounds"])
        expected = 0.8 * discounts(rounds)
        for click in _clicks(size):
            for b in _queries(size, ranker):
                claims += [
                    alone(
                        "With one label a client online nDCG is 0.8 of the most there can be, "
                        "whatever is learnt: 1589.23 at 10,000 rounds.",
                        part=part.name,
                        system=f"#R=1 B={b}",
                        click=click,
                        quantity=ONLINE,
                        expects=Within(round(expected, 2), 0.01),
                        paper=CONSTANT if rounds == 10_000 else round(expected, 2),
                    ),
                    versus(
                        "Online, one label a client seems to be better than IID data.",
                        part=part.name,
                        system=f"#R=1 B={b}",
                        baseline=f"IID B={b}",
                        click=click,
                        quantity=ONLINE,
                        paper=_printed_difference(ranker, click, b),
                    ),
                ]
    return Figure(
        "table-4.3",
        "Type 2, one label a client: discounted online nDCG@10",
        "5 clients x 2, 5 and 10 queries x 10,000 rounds",
        parts,
        tuple(claims),
        "Where fewer than 10,000 rounds are run the constant is 0.8 times the sum of 0.9995^t "
        "over those.",
        measures=("online_ndcg",),
    )


def _printed_difference(ranker: str, click: str, queries: int) -> float:
    return round(CONSTANT - PRINTED[ranker, click][QUERIES.index(queries)], 2)


def figure_4_6(size: Size, data: Collections) -> Figure:
    """Two labels a client."""
    systems: list[dict[str, Any]] = [
        {"name": "IID", "clients": 10},
        {"name": "#R=1", "clients": 10} | LABELS,
        {"name": "#R=2", "clients": 10} | LABELS | {"labels_per_client": 2},
    ]
    rankers = size.of(quick=("linear",), full=tuple(RANKERS))
    claims: list[Claim] = []
    for ranker in rankers:
        for click in _clicks(size):
            claims += [
                versus(
                    "With two labels a client the ranker is much better than with one.",
                    part=f"MSLR sample, {ranker}",
                    system="#R=2",
                    baseline="#R=1",
                    click=click,
                ),
                versus(
                    "With two labels a client the gap to IID data is minimal.",
                    part=f"MSLR sample, {ranker}",
                    system="#R=2",
                    baseline="IID",
                    click=click,
                    expects=Near(),
                ),
            ]
    return Figure(
        "figure-4.6",
        "Type 2, two labels a client: offline nDCG@10",
        "10 clients x 5 queries x 10,000 rounds",
        tuple(_part(size, data, ranker, systems) for ranker in rankers),
        tuple(claims),
        "The quick run leaves out the neural ranker." if size.is_quick else "",
    )


def figure_4_7(size: Size, data: Collections) -> Figure:
    """Return figure 4.7: data sharing, FedProx and FedPer with one label a client."""
    rounds = size.of(quick=1000, full=10_000)
    shared: list[dict[str, Any]] = [
        {"name": "FPDGD"} | LABELS,
        {"name": "data sharing", "share_data": SHARE, "warm_up_rounds": rounds // 20} | LABELS,
        *(system | LABELS for system in mu_systems(size)),
    ]
    fedper = {"name": "FedPer", "private_layer": True} | LABELS
    names = [str(system["name"]) for system in mu_systems(size)]
    claims: list[Claim] = []
    for ranker in RANKERS:
        for click in _clicks(size):
            others = [("FedProx", names)] + ([("FedPer", ["FedPer"])] if ranker == "neural" else [])
            claims.append(
                versus(
                    "Sharing a tenth of the data enhances the ranker greatly.",
                    part=f"MSLR sample, {ranker}",
                    system="data sharing",
                    baseline="FPDGD",
                    click=click,
                )
            )
            claims += [
                best_of(
                    f"{method} brings no significant gain over FPDGD.",
                    part=f"MSLR sample, {ranker}",
                    systems=systems,
                    baseline="FPDGD",
                    click=click,
                )
                for method, systems in others
            ]
    return Figure(
        "figure-4.7",
        "Type 2, one label a client: data sharing, FedProx, FedPer",
        "5 clients x 5 queries x 10,000 rounds; a tenth of the data shared",
        (
            _part(size, data, "linear", shared),
            _part(size, data, "neural", [*shared, fedper]),
        ),
        tuple(claims),
        "The thesis does not say how long the shared data is trained on first: here a twentieth "
        "of the rounds.",
    )
