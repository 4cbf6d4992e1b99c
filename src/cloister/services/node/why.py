"""Why a result is on its page: its server, its pod, the document itself, and the ranker.

All of it is made of what the answers to this user hold, and of the ranker that serves: no number
depends on anything that the user may not read. The weights of a linear ranker show; who asks for
explanations learns them.
"""

from __future__ import annotations

import numpy as np

from cloister.federate.online.page_table import ShownPage
from cloister.rank.ranker import Ranker
from cloister.search.node import Hit, LevelScore, TermPart
from cloister.search.page_features import PAGE_FEATURES
from cloister.search.search_outcome import SearchOutcome
from cloister.services.node.messages import FeatureWhy, LevelWhy, RankerWhy, ResultWhy, TermWhy

__all__ = ["page_whys"]


def page_whys(outcome: SearchOutcome, page: ShownPage, ranker: Ranker) -> tuple[ResultWhy, ...]:
    """Say of each result of a page, in their order, why it is there.

    Parameters
    ----------
    outcome
        Of a search with ``explain_levels``.
    page
        Made of its candidates.
    ranker
        That served, whose scores ``page.drawn`` holds.
    """
    servers = dict(outcome.servers)
    sorted_places = np.argsort(-page.drawn, kind="stable").tolist()
    return tuple(
        ResultWhy(
            server=_level(servers.get(outcome.candidates[place].server_id)),
            pod=_level(outcome.candidates[place].hit.pod),
            document=_document(outcome.candidates[place].hit, place, len(outcome.candidates)),
            ranker=RankerWhy(
                score=float(page.drawn[place]),
                features=_features(page, place, ranker),
                place_by_score=sorted_places.index(place) + 1,
                how="interleaved" if page.trial else "drawn",
            ),
        )
        for place in page.places.tolist()
    )


def _document(hit: Hit, place: int, n_ranked: int) -> LevelWhy | None:
    """Return the document's own score, and where it stands in the merged list."""
    if hit.rest is None:
        return None
    return _level(LevelScore(hit.score, place + 1, n_ranked, hit.length, hit.parts, hit.rest))


def _level(found: LevelScore | None) -> LevelWhy | None:
    if found is None:
        return None
    rest = found.rest
    return LevelWhy(
        model=rest.model,
        score=found.score,
        rank=found.rank,
        n_ranked=found.n_ranked,
        length=found.length,
        parts=[_term(part) for part in found.parts],
        constant=rest.constant,
        query_norm=rest.query_norm,
        entity_norm=rest.document_norm,
        mean_length=rest.mean_length,
        length_factor=rest.length_factor,
    )


def _term(part: TermPart) -> TermWhy:
    return TermWhy(
        term=part.term,
        weight=part.weight,
        n_occurrences=part.n_occurrences,
        frequency=part.frequency,
        n_entities=part.n_entities,
    )


def _features(page: ShownPage, place: int, ranker: Ranker) -> list[FeatureWhy]:
    if ranker.settings.kind != "linear":
        return []
    values, weights = page.features[place].tolist(), ranker.parameters.tolist()
    return [
        FeatureWhy(feature=name, value=value, weight=weight)
        for name, value, weight in zip(PAGE_FEATURES, values, weights, strict=True)
    ]
