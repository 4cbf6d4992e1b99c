"""Global statistics with noise: one differentially private release of frequencies and sizes.

A document is in as many counters as it has different terms. So each unit (a document, or a pod)
brings in at most ``max_terms`` terms (`cloister.search.contribution_bounding`), and every counter
gets discrete normal noise of a width for that many (`cloister.search.planned_statistics`). Whose
tables: those of one server, which then trusts nobody; or of several servers together, made by
somebody who sees the exact counts of all of them.

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

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from cloister.index.entity_view import LEVELS, Level
from cloister.privacy.accounting import composed_epsilon, losses_of
from cloister.privacy.ledger.entry import Label, Receipt
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.mechanisms.aes_noise import AesWords, Words, add_noise
from cloister.privacy.mechanisms.noise_table import noise_table
from cloister.privacy.release import Release
from cloister.privacy.releases.noisy_tables import NoisyTablesRelease
from cloister.search.contribution_bounding import bounded_sizes, bounded_tables, on_word_list
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.planned_statistics import (
    PlannedStatistics,
    planned_statistics,
    sized_tables,
    table_names,
)
from cloister.search.published_statistics import PublishedStatistics, PublishedTable
from cloister.search.server_contents import JoinedContents, ServerContents, joined_contents

__all__ = ["NoisyStatistics", "noisy_statistics"]

Integers = NDArray[np.int64]

FLOOR_SIGMAS: Final = 2.0  # less than that is read as noise


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
        """Record all of it on a ledger or be refused; send nothing before this returns."""
        label = Label(party_id, recipient, purpose)
        return ledger.database.run(lambda connection: self.record_in(connection, ledger, label))

    def record_in(self, connection: sa.Connection, ledger: Ledger, label: Label) -> list[Receipt]:
        """Record all of it inside a caller's transaction.

        The ledger keeps the digest and the size of the tables, not the tables.
        """
        payload = self.statistics.statement()
        return [
            ledger.release_in(connection, one, payload, **label._asdict()) for one in self.releases
        ]


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
        joined = on_word_list(joined, word_list)
    names = table_names(settings, len(listed))
    counters = _counted(joined, settings, names, found_only=word_list is None)
    _add_noise({**counters.tables, "sizes": counters.sizes}, planned.tables, words)
    if word_list is None:
        counters = _reaching(counters, planned.threshold)
    statistics = _read(counters, planned, settings, len(listed))
    sized = sized_tables(planned.tables.tables, len(counters.vocabulary), len(counters.sizes))
    made = planned.tables.model_copy(update={"tables": sized})
    return NoisyStatistics(settings, statistics, planned.threshold, (made, *planned.releases[1:]))


class _Counters(NamedTuple):
    """All numbers of a release: tables of one or more rows, one column a term; and the sizes."""

    vocabulary: Sequence[str]
    tables: Mapping[str, Integers]
    sizes: Integers


def _counted(
    joined: JoinedContents,
    settings: NoisyStatisticsSettings,
    names: Sequence[str],
    *,
    found_only: bool,
) -> _Counters:
    """Count exactly; terms are sorted, for the order in which they were found tells of documents.

    ``found_only`` leaves out terms of which nothing is counted.
    """
    exact = bounded_tables(joined, settings)
    places = sorted(range(len(joined.vocabulary)), key=joined.vocabulary.__getitem__)
    if found_only:
        places = [place for place in places if exact["terms"][0, place]]
    tables = {name: np.ascontiguousarray(exact[name][:, places]) for name in names}
    vocabulary = [joined.vocabulary[place] for place in places]
    return _Counters(vocabulary, tables, bounded_sizes(joined, settings))


def _add_noise(values: Mapping[str, Integers], release: NoisyTablesRelease, words: Words) -> None:
    """Add to each table the noise that the release states, in place."""
    for purpose, table in enumerate(release.tables, start=1):  # no two values share a word
        if values[table.name].size:
            noise = noise_table(table.family, table.width)
            add_noise(values[table.name].reshape(-1), noise, words, purpose=purpose)


def _reaching(counters: _Counters, threshold: int) -> _Counters:
    """Leave out the terms whose noisy number is below a threshold."""
    chosen = np.flatnonzero(counters.tables["terms"][0] >= threshold)
    return counters._replace(
        vocabulary=[counters.vocabulary[place] for place in chosen.tolist()],
        tables={name: table[:, chosen] for name, table in counters.tables.items()},
    )


def _read(
    noised: _Counters,
    planned: PlannedStatistics,
    settings: NoisyStatisticsSettings,
    n_servers: int,
) -> PublishedStatistics:
    """Make tables of noisy numbers only."""
    floors = _floors(noised, planned, n_servers)
    numbers = _numbers_of_entities(noised.sizes, settings, n_servers)
    step = settings.max_length / settings.n_lengths
    n_tokens = max(0.0, step * float(noised.sizes[: settings.n_lengths].sum()))
    documents = noised.tables["terms"].sum(0)
    servers = noised.tables["servers"][0] if n_servers > 1 else documents > floors["document"]
    found: dict[Level, NDArray[np.generic]] = {
        "document": documents,
        "pod": noised.tables["terms" if settings.unit == "pod" else "pods"][0],
        "server": servers,
    }
    tables: dict[Level, PublishedTable] = {}
    for level in LEVELS:
        values, n = found[level].astype(np.float64), numbers[level]
        listed = dict(zip(noised.vocabulary, values.tolist(), strict=True))
        n_pairs = max(1.0, float(values.sum()))
        tables[level] = PublishedTable(n, n_tokens / n, n_pairs, listed, floors[level])
    return PublishedStatistics("noisy", tables)


def _numbers_of_entities(
    sizes: Integers, settings: NoisyStatisticsSettings, n_servers: int
) -> dict[Level, float]:
    """Read how many entities there are; see `bounded_sizes`."""
    numbers = sizes[settings.n_lengths :]
    pods_alone = settings.unit == "pod"
    return {
        "document": float(max(1, numbers.sum() if pods_alone else numbers[0])),
        "pod": float(max(1, numbers[0] if pods_alone else numbers[1])),
        "server": float(n_servers),
    }


def _floors(noised: _Counters, planned: PlannedStatistics, n_servers: int) -> dict[Level, float]:
    """Return below what a number is read as noise; a sum of rows has the noise of all of them."""
    sigma = {table.name: table.sigma for table in planned.tables.tables}
    summed = FLOOR_SIGMAS * sigma["terms"] * math.sqrt(len(noised.tables["terms"]))
    least = max(summed, planned.threshold / 2)
    servers = min(FLOOR_SIGMAS * sigma["servers"], n_servers / 2) if n_servers > 1 else 0.5
    return {"document": least, "pod": least, "server": servers}
