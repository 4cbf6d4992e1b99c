"""Leakage abuse: a server that knows a part of the collection names the words of its labels.

The server of :mod:`cloister.cloud` opens, for each queried word, a list of documents under a label.
It has seen some labels, knows a share of the documents in plain, and says which word each label is.

- Without protection (an ordinary searchable index) a label has the word's own documents.
- With closures it has the documents of the word's closure. The word can then be told from the other
  words of the closure by their frequency only. Whoever has the word vectors and the vocabulary
  computes the closures: the worst case.
- Once codes of the word were opened, its own documents show among those of its closure
  (:mod:`cloister.adversary.occurrence_recovery`), and it is as without protection.

Labels are matched by :mod:`cloister.adversary.cooccurrence_matching`, or, where the server can link
documents that it knows to its numbers, by :mod:`cloister.adversary.linked_documents`. Not used:
how often each label was queried, which labels come in one query, soft levels, and the boxes of
pairs, which name the documents where two words stand near each other, with no closure around them.
So these figures are what one attack gets, and no bound on what the best one would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.adversary.cooccurrence_matching import MatchingSettings
from cloister.adversary.inferred_clicks import CONFIDENCE, Measured
from cloister.adversary.label_naming import (
    KnownCollection,
    SeenLabels,
    labels_of_closures,
    labels_of_words,
    name_labels,
)
from cloister.cloud.closure_pairs import ClosurePairs
from cloister.cloud.term_closures import TermClosures
from cloister.core.errors import DataError
from cloister.core.random import stream
from cloister.core.settings import Settings
from cloister.index.term_counts import TermCounts

__all__ = [
    "AbuseSettings",
    "LeakageAbuse",
    "NamedLabels",
    "abuse_leakage",
]

Integers = NDArray[np.int64]


class AbuseSettings(Settings):
    """One server, as to what it knows and how much it saw.

    Parameters
    ----------
    share
        Of the documents that it knows in plain.
    n_labels
        Different words of drawn queries that it saw.
    n_given
        Labels whose word it knows beforehand; they do not count as recovered.
    closures_known
        Whether it can compute closures.
    query_words
        Whether it has a list of all words that any query has. Otherwise all words of its documents
        come into question.
    linked
        Whether it can link documents that it knows to its numbers.
    wrong_links
        Share of wrong links that it reckons with.
    matching
        How long it searches.
    """

    share: float = Field(default=0.1, gt=0, le=1)
    n_labels: int = Field(default=150, ge=2)
    n_given: int = Field(default=0, ge=0)
    closures_known: bool = True
    query_words: bool = True
    linked: bool = False
    wrong_links: float = Field(default=0.0, ge=0, le=1)
    matching: MatchingSettings = MatchingSettings()


class NamedLabels(NamedTuple):
    """Shares of labels, over several draws of queries and known documents.

    Parameters
    ----------
    exact
        Named with their word.
    up_to_closure
        Named with a word of the right closure; as ``exact`` where there are no closures.
    in_sample
        Those whose word is in a known document; without closures no others can be named.
    chance
        One through the number of words that come into question.
    """

    exact: Measured
    up_to_closure: Measured
    in_sample: Measured
    chance: Measured


@dataclass(frozen=True)
class LeakageAbuse:
    """What the attack got, and what the best guess by frequency alone gets."""

    settings: AbuseSettings
    attack: NamedLabels
    by_frequency: NamedLabels

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as JSON has them."""
        found: dict[str, Any] = {"settings": self.settings.model_dump()}
        for name, named in (("attack", self.attack), ("by_frequency", self.by_frequency)):
            found[name] = {field: value._asdict() for field, value in named._asdict().items()}
        return found


def abuse_leakage(
    counts: TermCounts,
    queries: Sequence[Sequence[str]],
    settings: AbuseSettings | None = None,
    *,
    pairs: ClosurePairs | None = None,
    closures: TermClosures | None = None,
    opened: Callable[[Integers], SeenLabels] | None = None,
    link: Callable[[Integers], Integers] | None = None,
    n_draws: int = 5,
    seed: int = 0,
) -> LeakageAbuse:
    """Attack one collection: with closures where they are given, else an ordinary index.

    Parameters
    ----------
    counts
        The collection.
    queries
        Terms of its own queries, from which labels are drawn, query after query.
    settings
        What the server knows.
    pairs, closures
        The keys of the closed map, and the closures of the vocabulary of ``counts``.
    opened
        For words by their place in the vocabulary, what the server sees of them if not the
        documents of their closures: their own, where codes showed them
        (`cloister.adversary.occurrence_recovery.labels_of_codes`).
    link
        For known documents the numbers that the server takes for theirs, where it links them; the
        right ones if not given.
    n_draws
        Of queries and of known documents; the intervals are Student's, over the draws.

    Raises
    ------
    DataError
        If closures come without their documents, queries have fewer than two words of the
        collection, or no label is left to name.
    """
    settings = settings or AbuseSettings()
    asked = [[counts.positions[t] for t in terms if t in counts.positions] for terms in queries]
    if (pairs is None) != (closures is None):
        raise DataError("closures and their documents go together", where="pairs, closures")
    look = opened or _view(counts, pairs, closures)
    closed = closures is not None and opened is None
    attacks, guesses = [], []
    for draw in range(n_draws):
        rng = stream(seed, "leakage abuse", draw)
        words = _drawn_words(asked, settings.n_labels, rng)
        if settings.n_given >= len(words):
            raise DataError(
                f"of {len(words)} labels {settings.n_given} are known: none is left to name",
                where="n_given",
                remedy="take more labels, or fewer that are known",
            )
        known = _drawn_knowledge(counts, asked, closures, settings, link, rng)
        seen = look(words)
        given = {label: int(words[label]) for label in range(settings.n_given)}
        found = name_labels(seen, known, settings.matching, closed=closed, given=given, rng=rng)
        attacks.append(_shares(found, words, known, closures, settings.n_given))
        alone = MatchingSettings(
            n_steps=0, n_rounds=0, n_starts=1, strength=settings.matching.strength
        )
        unlinked = known._replace(linked=None)
        found = name_labels(seen, unlinked, alone, closed=closed, rng=rng)
        guesses.append(_shares(found, words, known, closures, settings.n_given))
    return LeakageAbuse(settings, _over_draws(attacks), _over_draws(guesses))


def _view(
    counts: TermCounts, pairs: ClosurePairs | None, closures: TermClosures | None
) -> Callable[[Integers], SeenLabels]:
    if pairs is None or closures is None:
        return partial(labels_of_words, counts)
    return partial(labels_of_closures, pairs, closures, n_documents=counts.n_documents)


def _drawn_words(
    asked: Sequence[Sequence[int]], n_labels: int, rng: np.random.Generator
) -> Integers:
    """Draw queries until they have so many different words."""
    words: dict[int, None] = {}
    for query in rng.permutation(len(asked)).tolist():
        words.update(dict.fromkeys(asked[query]))
        if len(words) >= n_labels:
            break
    found = np.array(list(words), np.int64)[:n_labels]
    if len(found) < 2:
        raise DataError("queries have fewer than two words of the collection", where="queries")
    return rng.permutation(found)


def _drawn_knowledge(
    counts: TermCounts,
    asked: Sequence[Sequence[int]],
    closures: TermClosures | None,
    settings: AbuseSettings,
    link: Callable[[Integers], Integers] | None,
    rng: np.random.Generator,
) -> KnownCollection:
    n_known = max(1, round(settings.share * counts.n_documents))
    documents = rng.permutation(counts.n_documents)[:n_known]
    candidates = np.ones(counts.n_terms, np.bool_)
    if settings.query_words:
        candidates[:] = False
        candidates[[word for words in asked for word in words]] = True
    linked = (link(documents) if link else documents) if settings.linked else None
    return KnownCollection(
        counts.select(documents),
        closures if settings.closures_known else None,
        candidates,
        linked,
        settings.wrong_links,
    )


def _shares(
    found: Integers,
    words: Integers,
    known: KnownCollection,
    closures: TermClosures | None,
    n_given: int,
) -> tuple[float, float, float, float]:
    found, words = found[n_given:], words[n_given:]
    exact = near = found == words
    if closures is not None:
        near = (found >= 0) & (closures.labels[found] == closures.labels[words])
    held = np.bincount(known.sample.terms, minlength=known.sample.n_terms) > 0
    open_words = held if known.candidates is None else held & known.candidates
    chance = 1 / max(1, int(open_words.sum()))
    return float(exact.mean()), float(near.mean()), float(held[words].mean()), chance


def _over_draws(shares: Sequence[tuple[float, float, float, float]]) -> NamedLabels:
    return NamedLabels(*(_measured(np.array(values)) for values in zip(*shares, strict=True)))


def _measured(values: NDArray[np.float64]) -> Measured:
    """Return the mean with Student's interval, which is cut to shares."""
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Measured(mean, None, None, n)
    from scipy.special import stdtrit  # without the 1.2 s of scipy.stats

    reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2) * values.std(ddof=1) / np.sqrt(n))
    return Measured(mean, max(0.0, mean - reach), min(1.0, mean + reach), n)
