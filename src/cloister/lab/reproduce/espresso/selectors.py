"""Beyond the paper: better choices of servers, what they cost, and a random choice beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cloister.lab.espresso.agreement import at
from cloister.lab.reproduce.claim import Above, Below, Claim, Near
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone, versus
from cloister.lab.reproduce.espresso.selector_trial import (
    BEST_IMPACT,
    LEARNED,
    LIST_LENGTHS,
    RANDOM,
    with_lists,
)
from cloister.lab.reproduce.espresso.setting import (
    ACCESS,
    KEYWORD,
    MEASURES,
    NO_DIFFERENCE,
    PAPER_SETTING,
    SERVERS,
    agreement_study,
    grounds,
    part_name,
    selector_study,
)
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.quantity import figure

__all__ = ["selectors"]

AIM: Final = 0.95  # nDCG@5 at S = 5
LARGEST: Final = 0.05  # share of the index that a selector's data may take
OVERLAP: Final = figure("overlap@5", "share of the centralised first 5 found")


def selectors(size: Size, data: Collections) -> Figure:
    """Return the selectors."""
    chosen = grounds(size, data)
    parts = []
    for ground in chosen:
        for access in ACCESS:
            keyword = agreement_study(ground, size, access, KEYWORD)
            own = selector_study(ground, size, access)
            parts.append(own._replace(jobs=(*own.jobs, *keyword.jobs)))
    claims = [
        c for ground in chosen for access in ACCESS for c in _claims(part_name(ground, access))
    ]
    return Figure(
        "selectors",
        "Better choices of servers beside the paper's and beside a random one",
        PAPER_SETTING,
        tuple(parts),
        tuple(claims),
        "With 50 gold documents on 50 servers nDCG@5 at S = 5 says little: five servers drawn at "
        "random come close to it. The share of the centralised first 5 tells selectors apart. "
        "Tables are the bytes that servers make and send, for all terms that the user may read; "
        "contacted are servers that were asked anything during a query, once the tables are there. "
        "Where lists are asked for, each query contacts every server.",
        measures=(),
    )


def _claims(part: str) -> Iterator[Claim]:
    for name in (BEST_IMPACT, LEARNED):
        yield _alone(f"nDCG@5 at least {AIM:g} at S = 5", part, at(name, 5), "ndcg@5", Above(AIM))
        yield _alone(
            "at most S servers are contacted", part, at(name, 5), "most_contacted", Below(5.5)
        )
        for n in SERVERS:
            for baseline in (RANDOM, "BM25 global"):
                yield versus(
                    f"more of the centralised first 5 than by {baseline}",
                    part=part,
                    system=at(name, n),
                    baseline=at(baseline, n),
                    quantity=OVERLAP,
                    beyond=True,
                )
    for n in SERVERS:
        for column in ("ndcg@5", "map"):
            yield versus(
                "the paper's choice of servers, with the mended IDF, above a random one",
                part=part,
                system=at("BM25 global", n),
                baseline=at(RANDOM, n),
                quantity=MEASURES[column],
                beyond=True,
            )
    yield _alone(
        "a random choice stays under the aim at S = 5", part, at(RANDOM, 5), "ndcg@5", Below(AIM)
    )
    for n_best in LIST_LENGTHS:
        yield versus(
            "tables tell as much as lists that every server is asked for",
            part=part,
            system=at(BEST_IMPACT, 5),
            baseline=at(with_lists(n_best), 5),
            quantity=OVERLAP,
            expects=Near(NO_DIFFERENCE),
            beyond=True,
        )
    for name in ("table_share", "largest_share"):
        yield _alone(
            f"tables of all terms take at most {LARGEST:.0%} of the index",
            part,
            at(BEST_IMPACT, 5),
            name,
            Below(LARGEST + 1e-9),
        )


def _alone(statement: str, part: str, system: str, name: str, expects: Above | Below) -> Claim:
    return alone(
        statement,
        part=part,
        system=system,
        quantity=figure(name),
        expects=expects,
        beyond=True,
    )
