"""Global statistics with noise: one differentially private release of frequencies and sizes.

A document is in as many counters as it has different terms. So each unit (a document, or a pod)
brings in at most ``max_terms`` terms, and every counter gets discrete normal noise of a width for
that many. Whose tables: those of one server, which then trusts nobody; or of several servers
together, made by somebody who sees the exact counts of all of them.

What it guarantees:

- Unit and neighbours: one document more or less (``unit="document"``), or one pod more or less with
  all that is in it (``unit="pod"``): epsilon and delta as the settings say, for all tables of the
  release together. A document changed costs as much as two.
- Against everybody who gets the tables, whatever else they know (all other documents, too), for
  ever and for any number of queries; as far as nobody can break AES-256, from which the noise is.
- Once. Tables of a changed collection are a new release with its own cost, and the ledger adds
  them up: publish seldom.

Which terms are listed must not tell anything either. A public ``word_list`` lists all its words,
held by anybody or not. Without one, the terms found are listed whose noisy number of documents (of
pods, where that is the unit) reaches a threshold that a term of a single unit reaches with a small
chance: that chance, for all terms of a unit together, is in delta, as an entry of its own on the
ledger.

What it does not protect: that a server exists; settings that were chosen by looking at the
documents; a word list made from them; a person with several documents, where the unit is a
document, or with several pods; the time that making it takes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.settings import Settings
from cloister.index.entity_view import Level
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.calibration import noise_multiplier
from cloister.privacy.ledger.entry import Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.level import Level as Unit
from cloister.privacy.mechanisms.aes_noise import AesWords, Words, add_noise
from cloister.privacy.mechanisms.noise_table import noise_table
from cloister.privacy.release import BoundedRelease, Release
from cloister.privacy.releases.noisy_tables import NoisyTable, NoisyTablesRelease
from cloister.search.published_statistics import (
    JoinedContents,
    PublishedStatistics,
    PublishedTable,
    ServerContents,
    joined_contents,
)

__all__ = ["NoisyStatistics", "NoisyStatisticsSettings", "noisy_statistics", "planned_statistics"]

Integers = NDArray[np.int64]
Words64 = NDArray[np.uint64]

SIZES_SHARE: Final = 0.1  # of the squared distance, for the numbers of entities and the lengths
FLOOR_SIGMAS: Final = 2.0  # less than that is read as noise
# SplitMix64 (Steele, Lea and Flood 2014): the step, and the two multipliers of its finaliser.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


class NoisyStatisticsSettings(Settings):
    """What a release may cost, and how much of a unit it counts.

    Parameters
    ----------
    epsilon, delta
        What the whole release may cost for one unit.
    unit
        What is protected: a ``document``, or a ``pod`` with all its documents, which is a person's.
    max_terms
        So many terms of a unit are counted. Of a pod: so many pairs of a term and a number up to
        ``max_documents`` of documents that hold it.
    max_documents
        Where the unit is a pod: of a term, at most so many documents of a pod count.
    max_length, n_lengths
        Longer units count as so long; lengths are rounded to so many steps up to that.
    kept
        Which terms of a unit stay: the most ``frequent``, or ``any``, by a hash of term and unit,
        which also decides between equally frequent ones. Either is decided by the unit alone.
    """

    epsilon: float = Field(gt=0, le=1000)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    unit: Literal["document", "pod"] = "pod"
    max_terms: int = Field(default=64, ge=1, le=10_000)
    max_documents: int = Field(default=1, ge=1, le=100)
    max_length: int = Field(default=400, ge=1)
    n_lengths: int = Field(default=16, ge=1, le=1000)
    kept: Literal["any", "frequent"] = "frequent"

    @property
    def level(self) -> Unit:
        """The unit as the ledger names it: a pod is a user's."""
        return Unit.USER if self.unit == "pod" else Unit.DOCUMENT


@dataclass(frozen=True, eq=False)
class NoisyStatistics:
    """Tables that may leave once they are on the ledger, and what the ledger records.

    Parameters
    ----------
    threshold
        What a found term's noisy number had to reach; 0 where a word list was given.
    releases
        The noisy tables; and where terms were found, the chance that a term of one unit shows.
    """

    settings: NoisyStatisticsSettings
    statistics: PublishedStatistics
    threshold: int
    releases: tuple[Release, ...] = field(repr=False)

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seed: such tables protect nobody."""
        return any(release.simulated for release in self.releases)

    def epsilon(self, delta: float | None = None) -> float:
        """Return what it costs for one unit, by default at the delta that it was made for."""
        losses = losses_of(self.releases, self.settings.level)
        return composed_epsilon(losses, delta or self.settings.delta).epsilon

    def record(
        self, ledger: Ledger, *, party_id: str, recipient: str, purpose: str
    ) -> list[Receipt]:
        """Record all of it on a ledger or be refused; send nothing before this returns.

        The ledger keeps the digest and the size of the tables, not the tables.
        """
        payload = self.statistics.statement()

        def work(connection: sa.Connection) -> list[Receipt]:
            return [
                ledger.release_in(
                    connection, one, payload,
                    party_id=party_id, recipient=recipient, purpose=purpose,
                )
                for one in self.releases
            ]  # fmt: skip

        return ledger.database.run(work)


def noisy_statistics(
    servers: Iterable[ServerContents],
    settings: NoisyStatisticsSettings,
    *,
    word_list: Sequence[str] | None = None,
    words: Words | None = None,
) -> NoisyStatistics:
    """Count the documents of some servers with noise, in one release.

    Parameters
    ----------
    word_list
        The terms that are listed, known to all and not made from these documents; where not given,
        those that are found in enough documents.
    words
        Where noise comes from: by default AES under a new key. `SeededWords` gives a simulated
        release.

    Examples
    --------
    >>> from cloister.core.ids import ServerId
    >>> from cloister.index.term_counts import count_terms
    >>> from cloister.privacy.mechanisms.aes_noise import SeededWords
    >>> counts = count_terms(["cough fever"] * 900 + ["cough huntington"])
    >>> clinic = ServerContents(ServerId("clinic"), counts, np.arange(901))
    >>> settings = NoisyStatisticsSettings(epsilon=2.0, max_terms=4)
    >>> noisy = noisy_statistics([clinic], settings, words=SeededWords(1))
    >>> sorted(noisy.statistics.level("document").table), noisy.epsilon() <= 2.0
    (['cough', 'fever'], True)
    """
    words = words or AesWords()
    listed = list(servers)
    word_list = None if word_list is None else tuple(dict.fromkeys(word_list))
    n_words = None if word_list is None else len(word_list)
    planned = planned_statistics(
        settings, n_servers=len(listed), n_words=n_words, simulated=words.simulated
    )
    joined = joined_contents(listed)
    if word_list is not None:
        joined = _on_word_list(joined, word_list)
    tables = _exact_tables(joined, settings)
    tables = {name: tables[name] for name in _table_names(settings, len(listed))}
    listing = sorted(range(len(joined.vocabulary)), key=joined.vocabulary.__getitem__)
    if word_list is None:  # sorted: the order in which terms were found would tell of documents
        listing = [place for place in listing if tables["terms"][0, place]]
    noised = {name: np.ascontiguousarray(table[:, listing]) for name, table in tables.items()}
    sizes = _exact_sizes(joined, settings)
    _add_noise({**noised, "sizes": sizes}, planned.tables, words)
    vocabulary = [joined.vocabulary[place] for place in listing]
    if word_list is None:
        chosen = np.flatnonzero(noised["terms"][0] >= planned.threshold)
        noised = {name: table[:, chosen] for name, table in noised.items()}
        vocabulary = [vocabulary[place] for place in chosen.tolist()]
    statistics = _read(vocabulary, noised, sizes, planned, settings, len(listed))
    tables_made = _sized(planned.tables.tables, len(vocabulary), len(sizes))
    made = planned.tables.model_copy(update={"tables": tables_made})
    return NoisyStatistics(settings, statistics, planned.threshold, (made, *planned.releases[1:]))


class PlannedStatistics(NamedTuple):
    """What a release will put on the ledger, and the threshold of found terms (0 for none)."""

    tables: NoisyTablesRelease
    releases: tuple[Release, ...]
    threshold: int


def planned_statistics(
    settings: NoisyStatisticsSettings,
    *,
    n_servers: int = 1,
    n_words: int | None = None,
    simulated: bool = False,
) -> PlannedStatistics:
    """Say what a release with these settings will put on the ledger, before it is made.

    Parameters
    ----------
    n_words
        Size of the word list; None where terms are found. Then half of delta is for those.

    Examples
    --------
    >>> settings = NoisyStatisticsSettings(epsilon=1.0, unit="document", max_terms=100)
    >>> planned = planned_statistics(settings)
    >>> [table.name for table in planned.tables.tables], planned.threshold
    (['terms', 'pods', 'sizes'], 379)
    """
    delta = settings.delta if n_words is not None else settings.delta / 2
    names = _table_names(settings, n_servers)
    n_sizes = settings.n_lengths + (settings.max_documents if settings.unit == "pod" else 2)
    tables = _calibrated(settings.epsilon, delta, settings.max_terms, names, n_sizes)
    release = NoisyTablesRelease(
        level=settings.level, tables=_sized(tables, n_words or 0, n_sizes), simulated=simulated
    )
    if n_words is not None:
        return PlannedStatistics(release, (release,), 0)
    threshold, chance = _threshold(tables[0].sigma, settings.max_terms, delta)
    shown = BoundedRelease(
        level=settings.level,
        epsilon=0.0,
        delta=chance,
        mechanism_name="terms above a noisy threshold",
        simulated=simulated,
    )
    return PlannedStatistics(release, (release, shown), threshold)


def _sized(tables: Sequence[NoisyTable], n_words: int, n_sizes: int) -> tuple[NoisyTable, ...]:
    """Say how many values each table has."""
    return tuple(
        table.model_copy(update={"n_values": n_sizes if table.name == "sizes" else max(1, n_words)})
        for table in tables
    )


def _table_names(settings: NoisyStatisticsSettings, n_servers: int) -> tuple[str, ...]:
    """Return which tables of terms there are; of one server one knows how many servers it is."""
    names = ("terms",) if settings.unit == "pod" else ("terms", "pods")
    return names if n_servers == 1 else (*names, "servers")


@lru_cache(maxsize=64)
def _calibrated(
    epsilon: float, delta: float, max_terms: int, names: tuple[str, ...], n_sizes: int
) -> tuple[NoisyTable, ...]:
    """Return the tables with the least noise, within a thousandth, that costs ``epsilon``.

    A unit moves at most ``max_terms`` counters of each table of terms and ``n_sizes`` sizes, each
    by one step: the squared distance is their number over sigma^2, summed over the tables.
    """
    moved = {**dict.fromkeys(names, max_terms), "sizes": n_sizes}
    shares = {**dict.fromkeys(names, (1 - SIZES_SHARE) / len(names)), "sizes": SIZES_SHARE}
    multiplier = noise_multiplier(epsilon, delta, n_rounds=1)
    while True:
        tables = tuple(
            NoisyTable(name=name, sigma=multiplier * math.sqrt(n / shares[name]), n_moved=n)
            for name, n in moved.items()
        )
        release = NoisyTablesRelease(level=Unit.DOCUMENT, tables=tables)
        if composed_epsilon(losses_of([release], Unit.DOCUMENT), delta).epsilon <= epsilon:
            return tables
        multiplier *= 1.001


def _threshold(sigma: float, max_terms: int, delta: float) -> tuple[int, float]:
    """Return the least threshold, and the chance that any term of one unit alone reaches it.

    Such a term's number is 1 plus noise, and there are at most ``max_terms``.
    """
    reach = math.ceil(40 * sigma)  # beyond, the weights are below e^-800
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    tails = np.cumsum(weights[::-1])[::-1] / weights.sum()  # chance of at least x
    chances = max_terms * tails * (1 + 1e-9)
    first = int(np.argmax(chances <= delta))
    return first - reach + 1, float(chances[first])


def _add_noise(values: Mapping[str, Integers], release: NoisyTablesRelease, words: Words) -> None:
    """Add to each table the noise that the release states, in place."""
    for purpose, table in enumerate(release.tables, start=1):  # no two values share a word
        if values[table.name].size:
            noise = noise_table("discrete-gaussian", table.sigma)
            add_noise(values[table.name].reshape(-1), noise, words, purpose=purpose)


def _on_word_list(joined: JoinedContents, word_list: Sequence[str]) -> JoinedContents:
    """Leave out what is not on the list, before anything is counted."""
    positions = {word: position for position, word in enumerate(word_list)}
    places = np.array([positions.get(term, -1) for term in joined.vocabulary], np.int64)
    terms = places[joined.terms]
    known = terms >= 0
    return joined._replace(
        vocabulary=tuple(word_list),
        documents=joined.documents[known],
        terms=terms[known],
        counts=joined.counts[known],
    )


def _exact_tables(joined: JoinedContents, settings: NoisyStatisticsSettings) -> dict[str, Integers]:
    """Count what is counted of each unit: tables of one or more rows, one column a term.

    Row j of a table of pods has in how many pods more than j documents hold a term.
    """
    if settings.unit == "document":
        kept = _kept(joined.documents, joined, settings)
        counted = joined._replace(documents=joined.documents[kept], terms=joined.terms[kept])
        names: dict[str, Level] = {"terms": "document", "pods": "pod", "servers": "server"}
        return {name: counted.frequencies(level)[None] for name, level in names.items()}
    n_terms, pod_of = max(1, len(joined.vocabulary)), joined.entities["pod"]
    pairs, where, n = np.unique(
        pod_of[joined.documents] * n_terms + joined.terms, return_inverse=True, return_counts=True
    )
    occurrences = np.bincount(where, joined.counts, len(pairs)).astype(np.int64)
    n = np.minimum(n, settings.max_documents)
    rows = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    flat = np.repeat(pairs, n)
    spread = joined._replace(terms=flat % n_terms, counts=np.repeat(occurrences, n))
    kept = _kept(flat // n_terms, spread, settings, rows)
    cells = rows[kept] * n_terms + spread.terms[kept]
    table = np.bincount(cells, minlength=settings.max_documents * n_terms).astype(np.int64)
    server_of = np.zeros(int(pod_of.max(initial=0)) + 1, np.int64)
    server_of[pod_of] = joined.entities["server"]
    held = np.unique(server_of[flat[kept] // n_terms] * n_terms + spread.terms[kept])
    servers = np.bincount(held % n_terms, minlength=n_terms).astype(np.int64)
    used = slice(len(joined.vocabulary))  # none, where there are no terms
    return {"terms": table.reshape(-1, n_terms)[:, used], "servers": servers[None, used]}


def _kept(
    units: Integers,
    joined: JoinedContents,
    settings: NoisyStatisticsSettings,
    rows: Integers | None = None,
) -> Integers:
    """Return which entries stay: ``max_terms`` of each unit, by what is in that unit alone."""
    word = np.array([_word(term) for term in joined.vocabulary], np.uint64)[joined.terms]
    content = np.zeros(int(units.max(initial=0)) + 1, np.uint64)
    np.add.at(content, units, word * joined.counts.astype(np.uint64))
    place = _mixed(word + _STEP * content[units])
    keys: list[NDArray[Any]] = [place]
    if settings.kept == "frequent":
        keys.append(-joined.counts)
    if rows is not None:
        keys.append(rows)
    order = np.lexsort((*keys, units))
    first = np.searchsorted(units[order], units[order])
    kept: Integers = order[np.arange(len(order)) - first < settings.max_terms]
    return kept


def _word(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


def _mixed(words: Words64) -> Words64:
    """Mix words as SplitMix64 does: quick, and no privacy rests on it."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _exact_sizes(joined: JoinedContents, settings: NoisyStatisticsSettings) -> Integers:
    """Count the units that are at least so long, for each step; then documents and pods.

    A unit moves each of the counters by one at most, and the sum of the first times a step is the
    number of tokens. Where the unit is a pod, row j counts the pods with more than j documents.
    """
    n_pods = joined.n_entities["pod"]
    lengths, pod_of = joined.lengths, joined.entities["pod"]
    if settings.unit == "pod":
        lengths = np.bincount(pod_of, lengths, n_pods).astype(np.float64)
        n_documents = np.bincount(pod_of, minlength=n_pods)
        numbers = [int((n_documents > j).sum()) for j in range(settings.max_documents)]
    else:
        numbers = [len(lengths), n_pods]
    steps = (np.arange(settings.n_lengths) + 0.5) * (settings.max_length / settings.n_lengths)
    long = [int((lengths >= step).sum()) for step in steps]
    return np.array(long + numbers, np.int64)


def _read(
    vocabulary: Sequence[str],
    noised: Mapping[str, Integers],
    sizes: Integers,
    planned: PlannedStatistics,
    settings: NoisyStatisticsSettings,
    n_servers: int,
) -> PublishedStatistics:
    """Make tables of noisy numbers only."""
    step = settings.max_length / settings.n_lengths
    n_tokens = max(0.0, step * float(sizes[: settings.n_lengths].sum()))
    numbers = sizes[settings.n_lengths :]
    pods_alone = settings.unit == "pod"
    n: dict[Level, float] = {
        "document": float(max(1, numbers.sum() if pods_alone else numbers[0])),
        "pod": float(max(1, numbers[0] if pods_alone else numbers[1])),
        "server": float(n_servers),
    }
    sigma = {table.name: table.sigma for table in planned.tables.tables}
    least = max(
        FLOOR_SIGMAS * sigma["terms"] * math.sqrt(len(noised["terms"])), planned.threshold / 2
    )
    documents = noised["terms"].sum(0)
    found: dict[Level, Integers] = {
        "document": documents,
        "pod": noised["terms" if pods_alone else "pods"][0],
    }
    floors: dict[Level, float] = {"document": least, "pod": least, "server": 0.5}
    if n_servers > 1:
        found["server"] = noised["servers"][0]
        floors["server"] = min(FLOOR_SIGMAS * sigma["servers"], n_servers / 2)
    else:
        found["server"] = (documents > least).astype(np.int64)

    def table(level: Level) -> PublishedTable:
        values = found[level].astype(np.float64)
        listed = dict(zip(vocabulary, values.tolist(), strict=True))
        n_pairs = max(1.0, float(values.sum()))
        return PublishedTable(n[level], n_tokens / n[level], n_pairs, listed, floors[level])

    return PublishedStatistics(
        "noisy", {"document": table("document"), "pod": table("pod"), "server": table("server")}
    )
