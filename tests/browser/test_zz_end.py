"""The end of the demo: last, since nothing answers after it."""

from __future__ import annotations

import psutil

from cloister.lab.bench.served_demo import ServedDemo


def test_the_demo_told_its_story_and_ends_without_leaving_anything(demo: ServedDemo) -> None:
    below = psutil.Process(demo.process.pid).children(recursive=True)
    assert len(below) >= 7
    told = demo.end()
    assert demo.process.returncode == 0
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
    figures = {step["name"]: step["figures"] for step in told["steps"]}
    assert figures["index"]["organisations"] == 5
    found = {role: one["results"] for role, one in figures["search"]["found"].items()}
    assert found["patient"] <= 1 < found["doctor"] <= found["researcher"]
    assert figures["search"]["stranger"] == "this needs an identity"
    learnt = figures["learning"]
    assert learnt["clicks"] > 50
    # The noise is real, and one run in many may gain nothing: none may lose much.
    assert learnt["ndcg@10_after"] > learnt["ndcg@10_before"] - 0.03 > 0.5
    tried = figures["trial"]
    assert tried["outcome"] == ("promoted" if tried["margin"] > tried["threshold"] else "kept")
    assert (tried["served_ndcg@10_after"] != tried["served_ndcg@10_before"]) == (
        tried["outcome"] == "promoted"
    )
    assert figures["ledger"]["chains_hold"]
    ledger = figures["ledger"]
    assert 0 < ledger["epsilon"] < ledger["epsilon_agreed"]
    assert all(ledger["epsilon"] < one < ledger["limit_of_nodes"]
               for one in ledger["epsilon_of_nodes"].values())  # fmt: skip
    assert figures["poisoning"]["offline_ndcg@10_adaptive"] > (
        figures["poisoning"]["offline_ndcg@10_attacked"] + 0.3
    )
