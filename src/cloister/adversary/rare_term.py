"""Who has the term "huntington"? Rare terms in published statistics, linked to a server and a pod.

The adversary gets what everybody gets: tables of `cloister.search.published_statistics`.

- `name_servers`: each server publishes its tables; which server has a term that one document holds?
- `name_pods`: pods are added one after the other, and the tables are published anew each time. The
  adversary knows in which order the pods came, which a list of pods tells. Which pod brought the
  term? The one with which its number went up.
- `know_all_but_one`: the adversary knows all documents but one; which terms does that one hold?

Terms are chosen by how many documents hold them in the end: one for the rare ones, and as many as
the threshold for those that a threshold shows just when the last of them comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.adversary.guesses import Guesses, count_guesses, guess_by_score
from cloister.core.errors import DataError
from cloister.index.entity_view import Level
from cloister.index.term_counts import TermCounts
from cloister.search.published_statistics import PublishedStatistics, exact_statistics
from cloister.search.server_contents import ServerContents

__all__ = ["Naming", "Publish", "know_all_but_one", "name_pods", "name_servers", "without_pods"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BOTH: Final[tuple[Level, ...]] = ("document", "pod")  # tables that a new pod moves
Publish = Callable[[ServerContents], PublishedStatistics]


class Naming(NamedTuple):
    """How often the right one was named, and how often the best guess without any table is."""

    found: Guesses
    chance: float


def name_servers(
    servers: Sequence[ServerContents],
    publish: Publish,
    *,
    n_terms: int,
    rng: np.random.Generator,
) -> Naming:
    """Name the server of terms that a single document of all servers holds.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> from cloister.index.term_counts import count_terms
    >>> texts = {"north": ["cough", "cough huntington"], "south": ["cough", "cough gout"]}
    >>> servers = [ServerContents(ServerId(name), count_terms(found), np.arange(2))
    ...            for name, found in texts.items()]
    >>> rng = np.random.default_rng(1)
    >>> named = name_servers(servers, lambda one: exact_statistics([one]), n_terms=1, rng=rng)
    >>> named.found.accuracy, named.chance
    (1.0, 0.5)
    """
    everywhere = exact_statistics(servers).level("document").table
    rare = [
        [term for term in exact_statistics([one]).level("document").table if everywhere[term] == 1]
        for one in servers
    ]
    terms, truth = _drawn(rare, n_terms, rng)
    seen = _seen([publish(one) for one in servers], terms)
    noise = rng.random(seen.shape) * 1e-9  # between equals a coin decides
    return _naming(np.argmax(seen + noise, axis=1), truth)


def name_pods(
    contents: ServerContents,
    publish: Publish,
    *,
    n_joiners: int,
    n_terms: int,
    frequency: int = 1,
    rng: np.random.Generator,
) -> Naming:
    """Name the pod that brought a term, from the tables after each of the last pods was added.

    Parameters
    ----------
    contents
        A server with all its pods; those that came last are drawn.
    n_joiners
        How many came last, one a version.
    n_terms
        How many terms at most are asked of each of them.
    frequency
        The terms are in so many documents in the end: of one joiner, and of pods before.
    """
    pods = np.unique(contents.pods)
    if n_joiners >= len(pods):
        raise DataError(f"there are {len(pods)} pods", where="n_joiners")
    joiners = rng.permutation(pods)[:n_joiners]
    rare = _brought(contents, joiners, frequency)
    terms, truth = _drawn(rare, n_terms, rng)
    versions = [publish(without_pods(contents, joiners[n:])) for n in range(n_joiners + 1)]
    seen = _seen(versions, terms)
    guess = np.argmax(_step_likelihood(seen), axis=1)
    flat = np.ptp(seen, axis=1) == 0
    guess[flat] = rng.integers(n_joiners, size=int(flat.sum()))
    return _naming(guess, truth)


def without_pods(contents: ServerContents, pods: Integers) -> ServerContents:
    """Return a server as it was before some pods came."""
    stay = np.flatnonzero(~np.isin(contents.pods, pods))
    return ServerContents(contents.server_id, contents.counts.select(stay), contents.pods[stay])


def know_all_but_one(
    contents: ServerContents,
    publish: Publish,
    *,
    n_terms: int,
    frequency: int = 1,
    rng: np.random.Generator,
) -> Guesses:
    """Guess which terms the one unknown document holds; a coin decided for each of them.

    Parameters
    ----------
    contents
        What the adversary knows.
    frequency
        The terms are in so many documents in the end, if the unknown one holds them. A term that is
        in no other document is called ``secret0`` and so on; a word list must have these, too.
    """
    exact = exact_statistics([contents])
    if frequency == 1:
        terms = [f"secret{i}" for i in range(n_terms)]
    else:
        table = exact.level("document").table
        terms = sorted(term for term, n in table.items() if n == frequency - 1)
    if not terms:
        raise DataError(f"no term is in {frequency - 1} documents", where="frequency")
    terms = [terms[i] for i in rng.permutation(len(terms))[:n_terms]]
    held = rng.integers(2, size=len(terms)).astype(np.bool_)
    secret = [term for term, is_held in zip(terms, held, strict=True) if is_held]
    published = publish(_with_document(contents, secret))
    return guess_by_score(_membership_scores(published, exact, terms), held, rng=rng)


def _membership_scores(
    published: PublishedStatistics, exact: PublishedStatistics, terms: Sequence[str]
) -> Floats:
    """Score that a term's number is one more than known; 0 where nothing can be told."""
    seen = np.array([_number(published, term) for term in terms])
    known = np.array([[exact.level(level).table.get(t, 0.0) for level in BOTH] for t in terms])
    scores: Floats = seen - known.mean(axis=1) - 0.5
    silent = np.isnan(seen)
    scores[silent] = 0.0
    if published.form == "exact":
        scores[silent] = -1.0
    elif published.form == "threshold":
        shown_from = 2 * published.level("document").floor
        scores[silent & (known.min(axis=1) + 1 >= shown_from)] = -1.0  # one more would be listed
    return scores


def _number(published: PublishedStatistics, term: str) -> float:
    """Return the mean number of documents and pods; both go up by one. NaN if not listed."""
    return sum(published.level(level).table.get(term, np.nan) for level in BOTH) / len(BOTH)


def _with_document(contents: ServerContents, terms: Sequence[str]) -> ServerContents:
    """Return a server with one document more, in a pod of its own."""
    counts = contents.counts
    vocabulary = tuple(dict.fromkeys([*counts.vocabulary, *terms]))
    places = {term: place for place, term in enumerate(vocabulary)}
    added = np.array(sorted(places[term] for term in terms), np.int32)
    more = TermCounts(
        np.append(counts.starts, counts.starts[-1] + len(added)),
        np.concatenate([counts.terms, added]).astype(np.int32),
        np.concatenate([counts.counts, np.ones(len(added))]).astype(np.int32),
        vocabulary,
    )
    pod = int(contents.pods.max(initial=-1)) + 1
    return ServerContents(contents.server_id, more, np.append(contents.pods, pod))


def _brought(contents: ServerContents, joiners: Integers, frequency: int) -> list[list[str]]:
    """Return each joiner's terms that no other joiner has, and so many documents in all."""
    counts = contents.counts
    total = np.bincount(counts.terms, minlength=counts.n_terms)
    late = np.flatnonzero(np.isin(contents.pods, joiners))
    by_joiners = np.bincount(counts.select(late).terms, minlength=counts.n_terms)
    asked = (total == frequency) & (by_joiners == 1)
    found = []
    for pod in joiners:
        terms = counts.select(np.flatnonzero(contents.pods == pod)).terms
        found.append(sorted(counts.vocabulary[term] for term in terms[asked[terms]].tolist()))
    return found


def _drawn(
    terms: Sequence[Sequence[str]], n_terms: int, rng: np.random.Generator
) -> tuple[list[str], Integers]:
    """Draw terms of each holder, the same number of each as far as there are so many."""
    drawn, truth = [], []
    for holder, listed in enumerate(terms):
        chosen = rng.permutation(len(listed))[:n_terms]
        drawn += [listed[i] for i in chosen.tolist()]
        truth += [holder] * len(chosen)
    if not drawn:
        raise DataError("there is no term to ask for", where="rare terms")
    return drawn, np.array(truth)


def _seen(published: Sequence[PublishedStatistics], terms: Sequence[str]) -> Floats:
    """Return the listed numbers, terms by tables; where one is not listed, one less than is."""
    seen = np.array([[_number(one, term) for one in published] for term in terms])
    some = ~np.isnan(seen).all(axis=1)
    least = np.zeros(len(seen))
    least[some] = np.nanmin(seen[some], axis=1)
    return np.where(np.isnan(seen), least[:, None] - 1, seen)


def _step_likelihood(seen: Floats) -> Floats:
    """Return how likely a row is a step of 1 at each place, from an unknown height, with noise.

    Least squares, which is the likelihood of normal noise: column i is for a step between the
    versions i and i + 1.
    """
    n = seen.shape[1]
    steps = (np.arange(n)[:, None] > np.arange(n - 1)).astype(np.float64)
    centred = steps - steps.mean(axis=0)
    fits: Floats = seen @ centred - 0.5 * (centred**2).sum(axis=0)
    return fits


def _naming(guess: NDArray[np.integer[Any]], truth: Integers) -> Naming:
    return Naming(count_guesses(guess == truth), float(np.bincount(truth).max() / len(truth)))
