"""``cloister attack rare-term``: what published statistics tell of who has a rare term."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cloister.app.output import JsonFlag, command_result, progress, table

if TYPE_CHECKING:
    import numpy as np

    from cloister.adversary.guesses import Guesses
    from cloister.adversary.rare_term import Publish
    from cloister.search.planned_statistics import PlannedStatistics
    from cloister.search.server_contents import ServerContents

__all__ = ["rare_term"]

Result = dict[str, Any]

WORLD: Final = "world:clinic?servers=4&pods=150&document_bytes=1500&queries=0"
DELTA: Final = 1e-6
N_TERMS: Final = 20  # asked of each server, each pod and each unknown document
N_ROUNDS: Final = 10  # unknown documents
QUESTIONS: Final = {
    "server": "which server holds it",
    "pod": "which pod brought it",
    "document": "does the unknown document hold it",
}


def _show(result: Result) -> None:
    for attack, question in QUESTIONS.items():
        rows = [
            [
                row["form"],
                row["frequency"],
                f"{row['accuracy']:.3f} ({row['low']:.3f}-{row['high']:.3f})",
                f"{row['chance']:.3f}",
                "-" if row["epsilon"] is None else row["epsilon"],
            ]
            for row in result["attacks"]
            if row["attack"] == attack
        ]
        columns = ["tables", "documents with the term", "right", "by chance", "epsilon"]
        table(question, columns, rows)
    settings = result["settings"]
    typer.echo(
        f"{settings['world']}; {settings['joiners']} pods came last, one a version; intervals at "
        f"95 %; epsilon of all releases seen, for a pod, at delta {DELTA:g} each; "
        f"{result['seconds']:.0f} s"
    )


def _clinic(address: str) -> str:
    if not address.removeprefix("world:").startswith("clinic"):
        raise typer.BadParameter("a clinic world is needed, as in world:clinic?servers=4&pods=150")
    return address


@command_result(_show)
def rare_term(
    world: Annotated[
        str, typer.Option(help="The clinic world that is attacked.", callback=_clinic)
    ] = WORLD,
    threshold: Annotated[
        int, typer.Option(help="Of the tables that leave rare terms out.", min=2, max=1000)
    ] = 5,
    epsilon: Annotated[
        float, typer.Option(help="Of each noisy release, for a pod.", min=0.01, max=1000)
    ] = 2.0,
    joiners: Annotated[
        int, typer.Option(help="Pods that are added one after the other.", min=2, max=100)
    ] = 10,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 1,
    as_json: JsonFlag = False,
) -> Result:
    """Find who has a rare term: in exact tables, above a threshold, and with noise."""
    start = time.perf_counter()
    settings = {
        "world": world, "threshold": threshold, "epsilon": epsilon, "joiners": joiners,
        "seed": seed, "delta": DELTA,
    }  # fmt: skip
    scene = _Scene(world, threshold, epsilon, joiners, seed)
    attacks = []
    with progress("attack published statistics") as advance:
        for done, form in enumerate(scene.forms):
            advance(done, len(scene.forms))
            attacks += list(scene.attacks(form))
    return {"attacks": attacks, "settings": settings, "seconds": time.perf_counter() - start}


class _Scene:
    """What is attacked: the servers of a clinic world, one document a pod."""

    def __init__(
        self, world: str, threshold: int, epsilon: float, n_joiners: int, seed: int
    ) -> None:
        from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings

        self.servers = _servers(world)
        self.n_joiners = n_joiners
        self.threshold = threshold
        self.seed = seed
        self.noisy = NoisyStatisticsSettings(epsilon=epsilon, delta=DELTA, unit="pod")
        self.forms = ("exact", f"threshold {threshold}", "noisy, word list", "noisy, found terms")

    def attacks(self, form: str) -> Iterator[Result]:
        """Attack the tables of one form; terms of one document, and of as many as the threshold."""
        from cloister.adversary.guesses import joined
        from cloister.adversary.rare_term import know_all_but_one, name_pods, name_servers

        publish, first = self._publish(form), self.servers[0]
        rng = self._rng("servers")  # the same terms and pods are asked for of every form
        named = name_servers(self.servers, publish, n_terms=N_TERMS, rng=rng)
        yield self._row("server", form, 1, named.found, named.chance, 1)
        for frequency in (1, self.threshold):
            rng = self._rng("pods", str(frequency))
            named = name_pods(
                first, publish,
                n_joiners=self.n_joiners, n_terms=N_TERMS, frequency=frequency, rng=rng,
            )  # fmt: skip
            yield self._row("pod", form, frequency, named.found, named.chance, self.n_joiners + 1)
            guesses = [
                know_all_but_one(first, publish, n_terms=N_TERMS, frequency=frequency, rng=rng)
                for _ in range(N_ROUNDS)
            ]
            yield self._row("document", form, frequency, joined(guesses), 0.5, 1)

    def _publish(self, form: str) -> Publish:
        """Return what publishes the tables of a server in one form; noise is drawn anew."""
        from cloister.privacy.mechanisms.aes_noise import SeededWords
        from cloister.search.noisy_statistics import noisy_statistics
        from cloister.search.published_statistics import (
            PublishedStatistics,
            exact_statistics,
            threshold_statistics,
        )

        rng = self._rng("noise", form)
        word_list = self._word_list() if form == "noisy, word list" else None

        def publish(contents: ServerContents) -> PublishedStatistics:
            if form == "exact":
                return exact_statistics([contents])
            if form.startswith("threshold"):
                return threshold_statistics([contents], threshold=self.threshold)
            words = SeededWords(int(rng.integers(2**63)))
            made = noisy_statistics([contents], self.noisy, word_list=word_list, words=words)
            return made.statistics

        return publish

    def _word_list(self) -> list[str]:
        """Return a list that has every word asked for: the best case for the adversary."""
        words = {word for server in self.servers for word in server.counts.vocabulary}
        return sorted(words | {f"secret{i}" for i in range(N_TERMS)})

    def _row(
        self, attack: str, form: str, frequency: int, found: Guesses, chance: float, n_seen: int
    ) -> Result:
        """Describe guesses, with what all releases that were seen cost together."""
        return {
            "attack": attack,
            "form": form,
            "frequency": frequency,
            **found._asdict(),
            "chance": chance,
            "n_tables_seen": n_seen,
            "epsilon": self._cost(form, n_seen),
            "predicted": self._predicted(form) if attack == "document" else None,
        }

    def _cost(self, form: str, n_releases: int) -> float | None:
        """Return epsilon of so many releases; None where nothing is guaranteed."""
        from cloister.privacy.accounting import composed_epsilon, losses_of

        if not form.startswith("noisy"):
            return None
        releases = self._planned(form).releases * n_releases
        losses = losses_of(releases, self.noisy.level)
        return composed_epsilon(losses, DELTA * n_releases).epsilon

    def _predicted(self, form: str) -> float | None:
        """Return how often the best guess from the noisy number is right."""
        from cloister.adversary.guesses import normal_accuracy

        if form != "noisy, word list":
            return None
        return normal_accuracy(1 / self._planned(form).tables.tables[0].sigma)

    def _planned(self, form: str) -> PlannedStatistics:
        from cloister.search.planned_statistics import planned_statistics

        n_words = len(self._word_list()) if form == "noisy, word list" else None
        return planned_statistics(self.noisy, n_words=n_words, simulated=True)

    def _rng(self, *purpose: str) -> np.random.Generator:
        from cloister.core.random import stream

        return stream(self.seed, "attack rare-term", *purpose)


def _servers(address: str) -> list[ServerContents]:
    """Count the terms of a clinic world's servers."""
    import numpy as np

    from cloister.core.errors import SettingsError
    from cloister.data.worlds.address import open_world
    from cloister.data.worlds.clinic import ClinicWorld
    from cloister.index.term_counts import count_terms
    from cloister.search.server_contents import ServerContents

    world = open_world(address)
    if not isinstance(world, ClinicWorld):
        raise SettingsError("a clinic world is needed", where=address)
    counts = count_terms(document.text for document in world.documents())
    lies_in = np.array([pod.server_id for pod in world.pods()])
    return [
        ServerContents(server, counts.select(here), np.arange(len(here)))
        for server in sorted(set(lies_in.tolist()))
        for here in (np.flatnonzero(lies_in == server),)
    ]
