"""``cloister attack term-frequency``, ``leakage-abuse`` and ``code-order`` on a small world."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.outcome import Run

WORLD = "world:clinic?servers=1&pods=50&document_bytes=0&queries=30&staff=1"
ATTACK = ("--data", WORLD, "--seed", "2")


def test_frequencies_are_read_from_plain_unmasked_values_and_not_from_levels(call: Run) -> None:
    options = ("--documents", "12", "--all-views")
    result = call("attack", "term-frequency", *ATTACK, *options, "--json").json
    attacks = result["attacks"]
    best: dict[str, float] = {}
    for one in attacks:
        before = best.get(one["design"], 0.0)
        best[one["design"]] = max(before, one["exact_occurring"]["value"])
    assert set(best) == {
        "no values", "unmasked, plain", "unmasked, r = 5", "unmasked, r = 10",
        "masked, plain", "masked, r = 5", "masked, r = 10",
    }  # fmt: skip
    assert best["unmasked, plain"] > 0.4
    assert best["masked, r = 10"] < 0.3
    views = {one["view"] for one in attacks}
    assert views == {"vector", "length", "document", "closure", "label"}
    assert len({one["bounds"]["prior"] for one in attacks}) == 1
    for one in attacks:
        assert one["bounds"]["bayes"] <= one["bounds"]["ceiling"] + 1e-9
        if one["base"] and one["view"] == "vector":
            assert one["exact"]["value"] <= one["bounds"]["ceiling"] + 1e-9
    assert result["scene"]["n_documents"] == 12


def test_labels_are_named_without_closures_and_less_often_with_them(call: Run) -> None:
    options = ("--share", "1.0", "--labels", "25", "--draws", "2")
    outcome = call("attack", "leakage-abuse", *ATTACK, *options, "--json")
    named = {one["protection"]: one["attack"] for one in outcome.json["attacks"]}
    assert set(named) == {"none, or codes opened", "adaptive p = 5, known", "adaptive p = 5"}
    plain = named["none, or codes opened"]["exact"]["value"]
    assert plain > 0.6
    assert named["adaptive p = 5"]["exact"]["value"] < plain / 2
    assert named["adaptive p = 5, known"]["exact"]["value"] < plain
    assert all(one["share"] == 1.0 for one in outcome.json["attacks"])
    assert all(one["linked_right"] is None for one in outcome.json["attacks"])


def test_larger_closures_hide_more_words_from_one_who_can_link_documents(call: Run) -> None:
    options = ("--share", "1.0", "--labels", "25", "--draws", "2", "--linked", "--worst-case")
    forms = ("--min-size", "5", "--min-size", "20", "--fixed", "0.7")
    attacks = call("attack", "leakage-abuse", *ATTACK, *options, *forms, "--json").json["attacks"]
    named = {one["protection"]: one["attack"]["exact"]["value"] for one in attacks}
    assert set(named) == {
        "none, or codes opened", "adaptive p = 5, known", "adaptive p = 20, known",
        "fixed 0.7, known",
    }  # fmt: skip
    small, large = named["adaptive p = 5, known"], named["adaptive p = 20, known"]
    assert named["none, or codes opened"] > small > large
    assert {(one["links"], one["linked_right"]) for one in attacks} == {("all right", 1.0)}


def test_codes_of_priors_link_documents_and_stand_beside_no_links_and_right_ones(call: Run) -> None:
    options = ("--share", "1.0", "--labels", "25", "--draws", "2", "--worst-case")
    linking = ("--link-by-priors", "--trees", "20")
    result = call("attack", "leakage-abuse", *ATTACK, *options, *linking, "--json").json
    found = {
        one["links"]: one
        for one in result["attacks"]
        if one["protection"] == "none, or codes opened"
    }
    assert list(found) == ["none", "by priors", "all right"]
    assert found["none"]["linked_right"] is None
    assert found["all right"]["linked_right"] == 1.0
    by_chance = 1 / result["scene"]["documents"]
    assert 10 * by_chance < found["by priors"]["linked_right"] < 1
    right = found["all right"]["attack"]["exact"]["value"]
    assert 0 < found["by priors"]["attack"]["exact"]["value"] <= right
    assert result["settings"]["wrong_links"] == 0.3


def test_codes_tell_occurrence_and_nearly_the_order(call: Run) -> None:
    options = ("--trees", "10", "--features", "T2")
    (found,) = call("attack", "code-order", *ATTACK, *options, "--json").json["attacks"]
    assert found["trees"] == 10
    assert found["features"] == "T2"
    assert found["by_codes"] > 0.7
    assert found["by_intervals"] > 0.7
    occurrence = found["occurrence"]
    assert occurrence["found"]["accuracy"] > 0.95 > occurrence["without_codes"]


def test_both_kinds_of_features_are_attacked_unless_one_is_named(call: Run) -> None:
    options = ("--trees", "2", "--trees", "4", "--queries", "10")
    attacks = call("attack", "code-order", *ATTACK, *options, "--json").json["attacks"]
    assert [(one["features"], one["trees"]) for one in attacks] == [
        ("T1", 2), ("T1", 4), ("T2", 2), ("T2", 4),
    ]  # fmt: skip
    assert {one["queries"] for one in attacks} == {10}


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (
            ("leakage-abuse", "--share", "0.5", "--labels", "10", "--draws", "1"),
            "by frequency alone",
        ),
        (("code-order", "--trees", "3", "--features", "T2"), "by intervals"),
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
        assert missing.code == 2
        assert "no such folder" in missing.json["error"]
    assert call("attack", "leakage-abuse", "--share", "1.5").code == 2
