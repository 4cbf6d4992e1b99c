"""A run that was published number by number: centralised PDGD in batches on MQ2008.

The thesis's first part comes with results files (github.com/ielab/foltr): five folds, raw features,
gradients of a batch summed, learning rate 0.1, 2,000,000 interactions; the last offline nDCG@10,
test queries with nothing relevant left out, is averaged over folds.
"""

from __future__ import annotations

from typing import Final

from cloister.lab.reproduce.claim import Within
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.comparing import alone
from cloister.lab.reproduce.figure import Figure, Size
from cloister.lab.reproduce.foltr.setting import mq2008
from cloister.lab.reproduce.quantity import NDCG

__all__ = ["published_run"]

TOLERANCE: Final = 0.01
PUBLISHED: Final = {
    (200, "perfect"): 0.7010,
    (200, "navigational"): 0.6964,
    (200, "informational"): 0.6928,
    (8000, "perfect"): 0.6748,
    (8000, "navigational"): 0.6819,
    (8000, "informational"): 0.6861,
}


def published_run(size: Size, data: Collections) -> Figure:
    """Return the six cells."""
    interactions = 2_000_000  # in the quick run too: a number is compared, not a direction
    systems = [
        {
            "name": f"batches of {batch:,}",
            "clients": batch,
            "rounds": interactions // batch,
            "evaluate_every": max(1, interactions // batch // 10),
        }
        for batch in (200, 8000)
    ]
    part = mq2008(data).part(
        systems, method="batch-pdgd", queries_per_round=1, rounds=1, seeds=1, paper="MQ2008"
    )
    claims = tuple(
        alone(
            "Offline nDCG@10 after 2,000,000 interactions.",
            part="MQ2008",
            system=f"batches of {batch:,}",
            click=click,
            quantity=NDCG,
            expects=Within(number, TOLERANCE),
            paper=number,
        )
        for (batch, click), number in PUBLISHED.items()
    )
    return Figure(
        "published-run",
        "Centralised PDGD in batches, as published",
        "batches of 200 and 8,000, summed, learning rate 0.1, 2,000,000 interactions, five folds",
        (part,),
        claims,
        x="interactions",
    )
