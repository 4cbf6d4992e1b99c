"""What is at an address: the counts that ``cloister data inspect`` prints."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from cloister.core.errors import DataError, NotFound
from cloister.data.irds import IRDS_PREFIX
from cloister.data.letor import LetorSettings, read_letor
from cloister.data.letor_folder import LetorFolder, find_letor
from cloister.data.ranking_data import RankingData
from cloister.data.text_layout import detect_text_layout, summarise_texts
from cloister.data.worlds.address import is_world, open_world
from cloister.data.worlds.clinic import ClinicWorld
from cloister.data.worlds.intents import IntentData, read_intents

__all__ = ["inspect"]

Summary = dict[str, Any]


def inspect(address: str, settings: LetorSettings | None = None) -> Summary:
    """Count what an address holds: a file, a folder, an ``irds:`` name or a ``world:``.

    Every summary has ``kind``, ``queries``, ``documents``, ``features`` and ``labels``.
    """
    if is_world(address):
        return _inspect_world(address)
    if not address:
        raise NotFound("an empty address", where="inspect", remedy="name a file, folder or world")
    path = Path(address)
    if not address.startswith(IRDS_PREFIX) and not path.exists():
        raise NotFound("no such file or folder", where=address)
    if address.startswith(IRDS_PREFIX) or detect_text_layout(path):
        texts = summarise_texts(address)
        return {"kind": texts["kind"], "queries": 0, "features": 0, "labels": {}} | texts
    try:
        found = find_letor(path)
    except DataError as error:
        kind = NotFound if path.is_dir() else DataError
        raise kind(
            "nothing here that Cloister can read",
            where=address,
            remedy="expected LETOR files, a BEIR folder, question-answer files or Synthea tables",
        ) from error
    return _inspect_letor(found, path, settings)


def _inspect_letor(found: LetorFolder, path: Path, settings: LetorSettings | None) -> Summary:
    parts = {file.name.split(".txt")[0]: read_letor(file, settings) for file in found.files}
    summary: Summary = {"kind": "letor", "layout": found.layout, "folds": len(found.folds)}
    summary |= _added([_counts(part) for part in parts.values()])
    if len(parts) > 1:
        summary["parts"] = {name: _counts(part) for name, part in parts.items()}
    if path.is_dir() and list(path.glob("intents.tsv*")):
        summary["intents"] = _intent_counts(read_intents(path, settings))
    return summary


def _counts(data: RankingData) -> Summary:
    relevant = np.maximum.reduceat(data.labels, data.offsets[:-1]) > 0
    return {
        "queries": data.n_queries,
        "documents": data.n_rows,
        "features": data.n_features,
        "labels": data.label_counts(),
        "queries_with_relevant": int(relevant.sum()),
        "missing_values": int(np.isnan(data.features).sum()),
    }


def _added(parts: list[Summary]) -> Summary:
    labels: Counter[int] = Counter()
    for part in parts:
        labels.update(part["labels"])
    total = {name: sum(part[name] for part in parts) for name in parts[0] if name != "labels"}
    features = max(part["features"] for part in parts)
    return total | {"features": features, "labels": dict(sorted(labels.items()))}


def _intent_counts(data: IntentData) -> Summary:
    starts = data.data.offsets[:-1]
    relevant = np.maximum.reduceat(data.intent_labels, starts, axis=0) > 0
    return {
        f"intent{i}": {
            "relevant": int((data.intent_labels[:, i] > 0).sum()),
            "queries_with_relevant": int(relevant[:, i].sum()),
        }
        for i in range(data.n_intents)
    }


def _inspect_world(address: str) -> Summary:
    world = open_world(address)
    about = {"kind": "world", "address": address, "settings": world.settings.model_dump()}
    if isinstance(world, ClinicWorld):
        return about | _clinic_counts(world)
    data = world.data()
    if isinstance(data, IntentData):
        return about | _counts(data.data) | {"intents": _intent_counts(data)}
    return about | _counts(data)


def _clinic_counts(world: ClinicWorld) -> Summary:
    labels = Counter(judgement.grade for judgement in world.judgements())
    labels[0] = world.n_pods * len(world.queries) - labels.total()
    return {
        "organisations": len(world.organisations),
        "servers": len(world.servers),
        "staff": len(world.staff),
        "queries": len(world.queries),
        "documents": world.n_pods,
        "features": 0,
        "labels": dict(sorted(labels.items())),
    }
