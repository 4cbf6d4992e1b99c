"""``cloister attack term-frequency``, ``leakage-abuse`` and ``code-order`` on a small world."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.outcome import Run

WORLD = "world:clinic?servers=1&pods=50&document_bytes=0&queries=30&staff=1"
ATTACK = ("--data", WORLD, "--seed", "2")


def test_frequencies_are_read_from_plain_unmasked_values_and_not_from_levels(call: Run) -> None:
    result = call("attack", "term-frequency", *ATTACK, "--documents", "20", "--json").json
    best = {
        (one["masked"], one["base"]): max(
            other["exact_occurring"]["value"]
            for other in result["attacks"]
            if (other["masked"], other["base"]) == (one["masked"], one["base"])
        )
        for one in result["attacks"]
    }
    assert best[False, None] > 0.4
    assert best[True, 10] < 0.1
    for one in result["attacks"]:
        if one["base"] and one["view"] == "vector":
            assert one["exact"]["value"] <= one["bounds"]["ceiling"] + 1e-9
    assert result["scene"]["n_documents"] == 20


def test_labels_are_named_without_closures_and_less_often_with_them(call: Run) -> None:
    options = ("--share", "1.0", "--labels", "25", "--draws", "2")
    outcome = call("attack", "leakage-abuse", *ATTACK, *options, "--json")
    named = {one["protection"]: one["attack"] for one in outcome.json["attacks"]}
    assert set(named) == {"none", "of 5, known to it", "of 5"}
    plain = named["none"]["exact"]["value"]
    assert plain > 0.6
    assert named["of 5"]["exact"]["value"] < plain / 2
    assert named["of 5, known to it"]["exact"]["value"] < plain
    assert all(one["share"] == 1.0 for one in outcome.json["attacks"])


def test_codes_tell_occurrence_and_nearly_the_order(call: Run) -> None:
    options = ("--trees", "10", "--features", "T2")
    (found,) = call("attack", "code-order", *ATTACK, *options, "--json").json["attacks"]
    assert found["trees"] == 10
    assert found["by_codes"] > 0.7
    assert found["by_intervals"] > 0.7
    occurrence = found["occurrence"]
    assert occurrence["found"]["accuracy"] > 0.95 > occurrence["without_codes"]


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (("leakage-abuse", "--share", "0.5", "--labels", "10", "--draws", "1"), "word named"),
        (("code-order", "--trees", "3"), "no codes"),
    ],
)
def test_people_get_a_table_and_what_it_means(
    call: Run, attack: tuple[str, ...], said: str
) -> None:
    outcome = call("attack", *attack, *ATTACK)
    assert outcome.code == 0
    assert said in outcome.out
    assert "without trees" in outcome.out.lower() or "with trees" in outcome.out.lower()


def test_wrong_input_is_told(call: Run, tmp_path: Path) -> None:
    for attack in ("term-frequency", "leakage-abuse", "code-order"):
        missing = call("attack", attack, "--data", str(tmp_path / "none"), "--json")
        assert missing.code == 1
        assert "no such folder" in missing.json["error"]
    assert call("attack", "leakage-abuse", "--share", "1.5").code == 2
