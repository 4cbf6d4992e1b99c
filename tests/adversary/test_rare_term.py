from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from typer.testing import CliRunner

from cloister.adversary import rare_term
from cloister.adversary.guesses import joined, normal_accuracy
from cloister.adversary.rare_term import (
    Publish,
    know_all_but_one,
    name_pods,
    name_servers,
    without_pods,
)
from cloister.app import attack_rare_term
from cloister.app.attack_command import app
from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.core.random import stream
from cloister.index.term_counts import count_terms
from cloister.privacy.mechanisms.aes_noise import SeededWords
from cloister.search.noisy_statistics import noisy_statistics
from cloister.search.noisy_statistics_settings import NoisyStatisticsSettings
from cloister.search.planned_statistics import planned_statistics
from cloister.search.published_statistics import (
    PublishedStatistics,
    exact_statistics,
    threshold_statistics,
)
from cloister.search.server_contents import ServerContents

N_PODS, N_OWN, THRESHOLD = 60, 5, 4


def server(name: str, *, shared: int = 3) -> ServerContents:
    """Each pod has words of its own; some words are in `THRESHOLD` pods each."""
    texts = []
    for pod in range(N_PODS):
        own = [f"own{i}of{pod}at{name}" for i in range(N_OWN)]
        group = [f"group{i}of{(pod + i) % (N_PODS // THRESHOLD)}at{name}" for i in range(shared)]
        texts.append(" ".join(["cough", *own, *group]))
    return ServerContents(ServerId(name), count_terms(texts), np.arange(N_PODS))


def exact(contents: ServerContents) -> PublishedStatistics:
    return exact_statistics([contents])


def threshold(contents: ServerContents) -> PublishedStatistics:
    return threshold_statistics([contents], threshold=THRESHOLD)


def noisy(epsilon: float, words: list[str] | None) -> Publish:
    """Publish with new noise each time."""
    settings = NoisyStatisticsSettings(epsilon=epsilon, unit="document", max_terms=20)
    rng = stream(9, "noise", int(1000 * epsilon))

    def publish(contents: ServerContents) -> PublishedStatistics:
        source = SeededWords(int(rng.integers(2**63)))
        return noisy_statistics([contents], settings, word_list=words, words=source).statistics

    return publish


def word_list(*servers: ServerContents) -> list[str]:
    words = {word for one in servers for word in one.counts.vocabulary}
    return sorted(words | {f"secret{i}" for i in range(20)})


def rng() -> np.random.Generator:
    return stream(3, "rare terms")


def test_exact_tables_name_the_server_and_the_pod_of_every_rare_term() -> None:
    servers = [server("a"), server("b"), server("c")]
    assert name_servers(servers, exact, n_terms=20, rng=rng()).found.accuracy == 1
    named = name_pods(servers[0], exact, n_joiners=12, n_terms=5, rng=rng())
    assert named.found.accuracy == 1
    assert named.found.n_trials == 60
    assert named.chance == pytest.approx(1 / 12)


def test_a_threshold_hides_rare_terms_and_betrays_the_pod_that_reaches_it() -> None:
    servers = [server("a"), server("b"), server("c"), server("d")]
    by_server = name_servers(servers, threshold, n_terms=40, rng=rng())
    assert by_server.found.low < by_server.chance < by_server.found.high
    hidden = name_pods(servers[0], threshold, n_joiners=12, n_terms=5, rng=rng())
    assert hidden.found.low < hidden.chance < hidden.found.high
    reached = name_pods(
        servers[0], threshold, n_joiners=12, n_terms=5, frequency=THRESHOLD, rng=rng()
    )
    assert reached.found.accuracy == 1
    assert reached.found.accuracy > 2 * reached.chance


@pytest.mark.parametrize("listed", [True, False])
def test_noise_hides_the_server_and_the_pod(listed: bool) -> None:
    servers = [server("a"), server("b"), server("c"), server("d")]
    publish = noisy(1.0, word_list(*servers) if listed else None)
    by_server = name_servers(servers, publish, n_terms=40, rng=rng())
    assert by_server.found.low < by_server.chance + 0.05
    by_pod = name_pods(servers[0], publish, n_joiners=12, n_terms=5, rng=rng())
    assert by_pod.found.low < by_pod.chance + 0.05


def test_the_attack_sees_through_noise_that_is_too_small() -> None:
    contents = server("a")
    publish = noisy(1000.0, word_list(contents))
    named = name_pods(contents, publish, n_joiners=12, n_terms=5, rng=rng())
    assert named.found.low > 3 * named.chance


def test_who_knows_all_but_one_document_reads_it_from_exact_tables() -> None:
    contents = server("a")
    for frequency in (1, THRESHOLD + 1):
        found = know_all_but_one(contents, exact, n_terms=20, frequency=frequency, rng=rng())
        assert found.accuracy == 1


def test_who_knows_all_but_one_document_reads_what_a_threshold_lists() -> None:
    contents = without_pods(server("a"), np.array([0]))  # some words are in one pod fewer now
    generator = rng()
    hidden = joined(
        [know_all_but_one(contents, threshold, n_terms=20, rng=generator) for _ in range(10)]
    )
    assert hidden.low < 0.5 < hidden.high
    for frequency in (THRESHOLD, THRESHOLD + 1):
        found = know_all_but_one(contents, threshold, n_terms=20, frequency=frequency, rng=rng())
        assert found.accuracy == 1


@pytest.mark.parametrize("epsilon", [2.0, 100.0])
def test_who_knows_all_but_one_document_guesses_as_well_as_the_noise_predicts(
    epsilon: float,
) -> None:
    contents = server("a")
    words = word_list(contents)
    publish, generator = noisy(epsilon, words), rng()
    found = joined(
        [know_all_but_one(contents, publish, n_terms=20, rng=generator) for _ in range(40)]
    )
    settings = NoisyStatisticsSettings(epsilon=epsilon, unit="document", max_terms=20)
    sigma = planned_statistics(settings, n_words=len(words)).tables.tables[0].sigma
    assert found.agrees_with(normal_accuracy(2**0.5 / sigma))  # two tables, a step of 1 in each


def test_the_likeliest_step_is_the_true_one() -> None:
    true = np.arange(9)
    seen = np.where(np.arange(10) > true[:, None], 8.0, 7.0)
    assert np.argmax(rare_term._step_likelihood(seen), axis=1).tolist() == true.tolist()


@pytest.mark.parametrize(
    ("attack", "where"),
    [
        (lambda: name_pods(server("a"), exact, n_joiners=60, n_terms=1, rng=rng()), "n_joiners"),
        (
            lambda: name_pods(server("a"), exact, n_joiners=5, n_terms=1, frequency=999, rng=rng()),
            "rare terms",
        ),
        (
            lambda: know_all_but_one(server("a"), exact, n_terms=1, frequency=999, rng=rng()),
            "frequency",
        ),
    ],
)
def test_a_question_without_an_answer_is_refused(attack: Callable[[], object], where: str) -> None:
    with pytest.raises(DataError, match=where):
        attack()


SMALL = "world:clinic?servers=2&pods=40&document_bytes=0&queries=0"


def test_the_command_prints_what_each_form_gives_away() -> None:
    options = ["rare-term", "--world", SMALL, "--joiners", "6", "--threshold", "3", "--json"]
    outcome = CliRunner().invoke(app, options)
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads(outcome.stdout)["attacks"]
    assert {row["form"].split()[0].strip(",") for row in rows} == {"exact", "threshold", "noisy"}
    for row in rows:
        assert row["low"] <= row["accuracy"] <= row["high"]
        if row["form"] == "exact" or (row["form"] == "threshold 3" and row["frequency"] == 3):
            assert row["accuracy"] == 1
            assert row["epsilon"] is None
        else:
            assert row["low"] < row["chance"] + 0.1
        if row["form"].startswith("noisy"):
            assert row["epsilon"] > 1.8  # by the report
            assert row["epsilon"] <= 2.0 or row["n_tables_seen"] > 1


def test_people_see_tables(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "attack": "pod", "form": "exact", "frequency": 1, "accuracy": 1.0, "low": 0.9, "high": 1.0,
        "chance": 0.1, "epsilon": None,
    }  # fmt: skip
    attack_rare_term._show(
        {"attacks": [row], "settings": {"world": SMALL, "joiners": 4}, "seconds": 1.0}
    )
    shown = capsys.readouterr().out
    assert "which pod brought it" in shown
    assert "1.000 (0.900-1.000)" in shown


def test_another_world_is_wrong_usage() -> None:
    assert CliRunner().invoke(app, ["rare-term", "--world", "world:features"]).exit_code == 2
