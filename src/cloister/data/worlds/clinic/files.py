"""Puts a clinic world on disk, in the layout of BEIR collections, with the rights beside it.

``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv`` are what any BEIR reader knows;
``rights.jsonl`` says for each pod where it lies and who may read it; ``world.json`` carries the
settings from which all of it can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import cloister
from cloister.data.worlds.clinic.queries import ClinicQuery
from cloister.data.worlds.clinic.world import ClinicWorld, Pod

__all__ = ["write_clinic"]

Progress = Callable[[int, int], None]
REPORT_EVERY: Final = 256  # pods between two calls of the progress function


def write_clinic(
    world: ClinicWorld, folder: str | Path, *, progress: Progress | None = None
) -> None:
    """Write a world into a folder; memory stays bounded whatever its size.

    Parameters
    ----------
    world
        What to write.
    folder
        Made if it does not exist; files of the same names are replaced.
    progress
        Called with the number of pods written and the number of all pods.
    """
    folder = Path(folder)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "queries.jsonl", (_query_line(query) for query in world.queries))
    with (
        (folder / "corpus.jsonl").open("w", encoding="utf-8") as corpus,
        (folder / "rights.jsonl").open("w", encoding="utf-8") as rights,
        (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as qrels,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        for start in range(0, world.n_pods, REPORT_EVERY):
            stop = min(start + REPORT_EVERY, world.n_pods)
            for document in world.documents(start, stop):
                fields = {"_id": document.doc_id, "title": document.title, "text": document.text}
                corpus.write(json.dumps(fields) + "\n")
            for pod in world.pods(start, stop):
                rights.write(json.dumps(_rights_of(pod)) + "\n")
            for judgement in world.judgements(start=start, stop=stop):
                qrels.write("\t".join(map(str, judgement)) + "\n")
            if progress is not None:
                progress(stop, world.n_pods)
    # Last: its presence says that the others are complete.
    (folder / "world.json").write_text(json.dumps(_described(world), indent=2) + "\n", "utf-8")


def _query_line(query: ClinicQuery) -> Mapping[str, Any]:
    facets = [facet._asdict() for facet in query.facets]
    metadata = {"kind": query.kind, "condition": query.condition, "facets": facets}
    return {"_id": query.query_id, "text": query.text, "metadata": metadata}


def _rights_of(pod: Pod) -> Mapping[str, Any]:
    return {
        "pod": pod.pod_id,
        "document": pod.doc_id,
        "server": pod.server_id,
        "organisation": pod.organisation,
        "owner": pod.rights.owner,
        "agents": sorted(pod.rights.agents),
        "groups": sorted(pod.rights.groups),
    }


def _described(world: ClinicWorld) -> Mapping[str, Any]:
    return {
        "world": "clinic",
        "cloister": cloister.__version__,
        "settings": world.settings.model_dump(mode="json"),
        "settings_digest": world.settings.digest(),
        "organisations": [organisation._asdict() for organisation in world.organisations],
        "servers": [server._asdict() for server in world.servers],
        "staff": [member._asdict() | {"groups": sorted(member.groups)} for member in world.staff],
        "search_parties": [party._asdict() for party in world.search_parties],
    }


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record) + "\n")
