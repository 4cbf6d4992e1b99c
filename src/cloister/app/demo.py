"""The steps of the demo: each does a part of the work and says what came out.

Every figure is measured in the run that shows it. Later parts of Cloister add their steps here.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from cloister.app.demo_attacks import forget_client, poison
from cloister.app.demo_cloud import rank_privately
from cloister.app.demo_pods import search_pods
from cloister.app.demo_privacy import add_up_unseen, learn_privately
from cloister.app.demo_sketches import search_by_sketch
from cloister.app.demo_state import DemoState, Step, StepOutcome, run_step
from cloister.core.random import stream
from cloister.core.rights import STRANGER
from cloister.data.clicks import click_model, fit_cascade, sample_clicks
from cloister.data.partitions import ClientView, by_label, iid
from cloister.federate.evaluation import Evaluation
from cloister.federate.fpdgd import FPDGD
from cloister.federate.population import Population
from cloister.measure.bootstrap import mean_difference_interval
from cloister.measure.mean import mean
from cloister.measure.named import evaluate
from cloister.measure.ranking import rank_rows
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.store.database import Database
from cloister.store.files import Files
from cloister.store.keyed_state import KeyedState

__all__ = ["STEPS", "DemoState", "Step", "run_step"]

PAGE: Final = 10
N_GRADES: Final = 5


def _make_clinic(state: DemoState) -> StepOutcome:
    world = state.clinic
    n_bytes = sum(len(document.text.encode()) for document in world.documents())
    query = world.queries[0]
    grades = world.grades(query)
    best = world.document(int(np.argmax(grades)))
    passage = " ".join(best.text.split())[:160]
    return StepOutcome(
        {
            "organisations": len(world.organisations),
            "servers": len(world.servers),
            "pods": world.n_pods,
            "bytes": n_bytes,
            "queries": len(world.queries),
            "relevant_pods_of_first_query": int((grades > 0).sum()),
        },
        [
            f"{len(world.organisations)} organisations, {len(world.servers)} servers, "
            f"{world.n_pods} pods, {n_bytes / 1e6:.1f} MB of notes",
            f"query {query.text!r}: relevant in {int((grades > 0).sum())} pods",
            f"one of them begins: {passage} ...",
        ],
    )


def _look_at_rights(state: DemoState) -> StepOutcome:
    world = state.clinic
    pods = list(world.pods())
    doctor, party = world.staff[0], world.search_parties[1]
    people = {
        f"patient {pods[0].patient.name}": world.reader(pods[0].patient.agent_id),
        f"{doctor.role} {doctor.name}": doctor.reader,
        f"search party at {party.access_percent} %": party.reader,
        "a stranger": STRANGER,
    }
    counts = {
        name: sum(pod.rights.allow(reader) for pod in pods) for name, reader in people.items()
    }
    lines = [f"{name} may read {count} of {len(pods)} pods" for name, count in counts.items()]
    return StepOutcome({"pods": len(pods), "readable": list(counts.values())}, lines)


def _rank(state: DemoState) -> StepOutcome:
    test = state.ranking_data().test
    rng = stream(state.seed, "demo", "chance")
    chance = evaluate(rng.random(test.n_rows), test, ["nDCG@10"])["nDCG@10"]
    best, values = _best_feature(state)
    interval = mean_difference_interval(values, chance, rng=rng)
    return StepOutcome(
        {"queries": test.n_queries, "chance_ndcg@10": mean(chance), "feature": best + 1,
         "feature_ndcg@10": mean(values), "gain_low": interval.low, "gain_high": interval.high},
        [
            f"{test.n_queries} queries of about {test.n_rows // test.n_queries} documents",
            f"nDCG@10 by chance {mean(chance):.3f}, by feature {best + 1} alone {mean(values):.3f}",
            f"the difference lies between {interval.low:.3f} and {interval.high:.3f} (95 %)",
        ],
    )  # fmt: skip


def _best_feature(state: DemoState) -> tuple[int, Any]:
    """Choose the best single feature on the training part; measure it on the test part."""
    fold = state.ranking_data()
    scored = [
        mean(evaluate(fold.train.features[:, i], fold.train, ["nDCG@10"])["nDCG@10"])
        for i in range(fold.train.n_features)
    ]
    best = int(np.argmax(scored))
    return best, evaluate(fold.test.features[:, best], fold.test, ["nDCG@10"])["nDCG@10"]


def _click(state: DemoState) -> StepOutcome:
    train = state.ranking_data().train
    rng = stream(state.seed, "demo", "pages")
    long_enough = np.flatnonzero(train.lengths >= PAGE)
    shown = rank_rows(rng.random(train.n_rows), train.offsets, depth=PAGE)
    starts = shown.offsets[long_enough]
    pages = train.labels[shown.rows[starts[:, None] + np.arange(PAGE)]]
    pages = np.tile(pages, (25, 1))
    figures: dict[str, Any] = {}
    lines = []
    for name in ("perfect", "navigational", "informational"):
        clicks = sample_clicks(click_model(name, N_GRADES), pages, seed=state.seed)
        wasted = float(clicks[pages == 0].sum() / max(clicks.sum(), 1))
        figures[f"{name}_clicks_per_page"] = float(clicks.sum(axis=1).mean())
        figures[f"{name}_share_on_irrelevant"] = wasted
        lines.append(
            f"{name} users: {clicks.sum(axis=1).mean():.2f} clicks a page, "
            f"{wasted:.0%} of them on irrelevant documents"
        )
    fitted = fit_cascade(pages, clicks, N_GRADES).model.click_probability
    known = [chance if chance is not None else float("nan") for chance in fitted]
    figures["informational_fitted_click_probability"] = known
    shown_chances = " ".join(f"{chance:.2f}" for chance in known)
    lines.append(
        f"chances by grade, fitted to the last: {shown_chances} (true .40 .60 .70 .80 .90)"
    )
    return StepOutcome(figures, lines)


def _split(state: DemoState) -> StepOutcome:
    train = state.ranking_data().train
    everyone = iid(train, 1_000_000)
    skewed = by_label(train, n_labels_per_client=1, seed=state.seed)
    held = [sorted(set(np.concatenate(_labels(view)).tolist())) for view in skewed]
    own_bytes = sum(_own_bytes(view) for view in skewed)
    return StepOutcome(
        {"iid_clients": len(everyone), "label_clients": len(skewed), "labels_held": held,
         "bytes_of_views": own_bytes, "bytes_of_features": train.features.nbytes},
        [
            f"{len(everyone):,} equal clients, and {len(skewed)} who hold one grade each",
            f"the {len(skewed)} views take {own_bytes / 1e3:,.0f} KB of row numbers beside "
            f"{train.features.nbytes / 1e3:,.0f} KB of features",
        ],
    )  # fmt: skip


def _learn(state: DemoState) -> StepOutcome:
    fold = state.ranking_data()
    clients = Population(iid(fold.train, 200), click_model("informational", N_GRADES))
    evaluation = Evaluation(
        iid(fold.test, 200), click_model("informational", N_GRADES), seed=state.seed
    )
    learner = FPDGD(
        clients, Ranker.initial(RankerSettings(n_features=fold.train.n_features)), seed=state.seed
    )
    before = evaluation.measure(learner.client_rankers()).ndcg
    n_interactions = sum(learner.step().n_interactions for _ in range(100))
    after = evaluation.measure(learner.client_rankers()).ndcg
    return StepOutcome(
        {"clients": clients.n_clients, "rounds": learner.n_rounds, "interactions": n_interactions,
         "offline_ndcg@10_before": before, "offline_ndcg@10_after": after},
        [
            f"{clients.n_clients} clients, {learner.n_rounds} rounds, {n_interactions:,} searches "
            "by users who click on much that is irrelevant",
            f"nDCG@10 of unseen queries: {before:.3f} before, {after:.3f} after",
            "what left the clients: changes of weights, which nothing protects in this step",
        ],
    )  # fmt: skip


def _own_bytes(view: ClientView) -> int:
    """Count the bytes of the arrays that a view does not share with its data set."""
    arrays = (view.queries, view.rows, view.offsets, view.labels)
    shared = (view.data.features, view.data.labels, view.data.offsets)
    return sum(
        array.nbytes
        for array in arrays
        if array is not None and not any(np.shares_memory(array, other) for other in shared)
    )


def _labels(view: ClientView) -> list[Any]:
    return [view.query_labels(i) for i in range(view.n_queries)]


def _keep(state: DemoState) -> StepOutcome:
    files = Files(state.folder / "files")
    record = json.dumps(state.figures, sort_keys=True).encode()
    steps = KeyedState("demo")
    with Database.open(state.folder / "state.db") as database:
        database.migrate(KeyedState.schema)
        with database.transaction() as connection:
            stored = files.put(record)
            steps.put(connection, "figures", {"digest": stored.digest}, expected_version=0)
        with database.reading() as connection:
            entry = steps.get(connection, "figures")
    intact = entry is not None and files.read(entry.value["digest"]) == record
    return StepOutcome(
        {"bytes": stored.size_bytes, "digest": stored.digest, "intact": intact},
        [
            f"{stored.size_bytes} bytes of figures as file {stored.digest[:12]}..., "
            f"read back {'intact' if intact else 'DAMAGED'}"
        ],
    )


STEPS: Final = (
    Step("clinic", "A clinic world: organisations, servers, a pod for each patient", _make_clinic),
    Step("rights", "Who may read what", _look_at_rights),
    Step("ranking", "Rank, and measure", _rank),
    Step("clicks", "Users click", _click),
    Step("clients", "The same data seen by many clients", _split),
    Step("learning", "Clients learn to rank together, from clicks that stay at home", _learn),
    Step("privacy", "The same with a guarantee that holds, on the ledger", learn_privately),
    Step("secure-sum", "A sum that shows no single client's part", add_up_unseen),
    Step("poisoning", "Malicious clients, and a rule that finds them", poison),
    Step("forgetting", "A client is forgotten, with a certificate", forget_client),
    Step("sketches", "Search another's records by a noisy sketch", search_by_sketch),
    Step("pods", "Search patients' pods; each finds what they may read", search_pods),
    Step("private_cloud", "Rank by an encrypted index on somebody else's server", rank_privately),
    Step("store", "Keep the figures", _keep),
)
