"""Puts a clinic world on disk, in the layout of BEIR collections, with the rights beside it.

``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv`` are what any BEIR reader knows;
``rights.jsonl`` says for each pod where it lies and who may read it; ``world.json`` carries the
settings from which all of it can be made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import cloister
from cloister.core.errors import DataError
from cloister.core.ids import AgentId, GroupId, PodId
from cloister.core.rights import Rights
from cloister.data.json_lines import read_json_lines
from cloister.data.worlds.clinic.queries import ClinicQuery
from cloister.data.worlds.clinic.world import ClinicWorld, Pod

__all__ = ["read_rights", "write_clinic"]

Progress = Callable[[int, int], None]
PODS_A_STEP: Final = 256  # written together, then noted
GROWING: Final = ("corpus.jsonl", "rights.jsonl", "qrels/test.tsv")
NOTE: Final = "progress.json"


def write_clinic(
    world: ClinicWorld, folder: str | Path, *, progress: Progress | None = None
) -> None:
    """Write a world into a folder; memory stays bounded whatever its size.

    A call that was stopped or killed is resumed by calling again: ``progress.json`` says how much
    of each file is sound, and goes when all is written.

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
    start = _resume(folder, world)
    with ExitStack() as stack:
        files = [stack.enter_context((folder / name).open("ab")) for name in GROWING]
        for first in range(start, world.n_pods, PODS_A_STEP):
            stop = min(first + PODS_A_STEP, world.n_pods)
            for file, text in zip(files, _step(world, first, stop), strict=True):
                file.write(text.encode())
                file.flush()
            sizes = [file.tell() for file in files]
            _note(folder, {"digest": world.settings.digest(), "pods": stop, "sizes": sizes})
            if progress is not None:
                progress(stop, world.n_pods)
    # Last: its presence says that the others are complete.
    (folder / "world.json").write_text(json.dumps(_described(world), indent=2) + "\n", "utf-8")
    (folder / NOTE).unlink(missing_ok=True)


def _resume(folder: Path, world: ClinicWorld) -> int:
    """Cut the files to what is sound; return the first pod that is missing."""
    try:
        note = json.loads((folder / NOTE).read_text("utf-8"))
        if note["digest"] == world.settings.digest():
            for name, size in zip(GROWING, note["sizes"], strict=True):
                os.truncate(folder / name, size)
            return int(note["pods"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing to resume: begin anew
    for name in GROWING:
        (folder / name).write_text("", "utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n", "utf-8")
    _write_lines(folder / "queries.jsonl", (_query_line(query) for query in world.queries))
    return 0


def _step(world: ClinicWorld, start: int, stop: int) -> tuple[str, str, str]:
    """Return what a range of pods adds to the corpus, the rights and the judgements."""
    documents = (
        json.dumps({"_id": document.doc_id, "title": document.title, "text": document.text})
        for document in world.documents(start, stop)
    )
    rights = (json.dumps(_rights_of(pod)) for pod in world.pods(start, stop))
    judgements = ("\t".join(map(str, j)) for j in world.judgements(start=start, stop=stop))
    corpus_text, rights_text, qrels_text = (
        "".join(f"{line}\n" for line in lines) for lines in (documents, rights, judgements)
    )
    return corpus_text, rights_text, qrels_text


def _note(folder: Path, note: Mapping[str, Any]) -> None:
    partial = folder / f"{NOTE}.partial"
    partial.write_text(json.dumps(note), "utf-8")
    partial.replace(folder / NOTE)


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


def read_rights(folder: str | Path) -> Iterator[tuple[PodId, Rights]]:
    """Read back who may read each pod of a world that was written."""
    for line in read_json_lines(Path(folder, "rights.jsonl")):
        fields = line.fields
        try:
            rights = Rights(
                AgentId(fields["owner"]),
                frozenset(map(AgentId, fields["agents"])),
                frozenset(map(GroupId, fields["groups"])),
            )
            yield PodId(fields["pod"]), rights
        except (KeyError, TypeError) as error:
            raise DataError(
                f"no rights of a pod: {error}", where=f"{line.path}:{line.number}"
            ) from None


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
