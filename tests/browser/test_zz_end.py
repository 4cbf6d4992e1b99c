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
    assert learnt["gain"] == learnt["ndcg@10_after"] - learnt["ndcg@10_before"]
    assert learnt["gain"] > 0
    assert figures["ledger"]["chains_hold"]
    assert 0 < figures["ledger"]["epsilon"] < figures["ledger"]["epsilon_agreed"]
    assert figures["poisoning"]["offline_ndcg@10_adaptive"] > (
        figures["poisoning"]["offline_ndcg@10_attacked"] + 0.3
    )
