"""What is kept of a run: its curves as Parquet, all else as JSON, its ranker as safetensors.

Where clients have rankers of their own, all of them are in an npz file beside it.

A folder of results has ``runs/`` with three files a run, named by the digest of its settings, and
``incoming/`` for files being written. Each file is complete before it has its name, and the JSON,
which holds checksums of itself and of the others, comes last: a run is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cloister
from cloister.core.errors import CloisterError, Damaged, DataError
from cloister.core.file_errors import writing
from cloister.lab.simulation.run import SimulationResult
from cloister.lab.simulation.settings import SimulationSettings
from cloister.rank.saving import save_ranker
from cloister.store.incoming import incoming_file, sweep, sync_folder

__all__ = ["KeptRun", "load_runs", "prepare_folder", "read_run", "rename_run", "write_run"]

Curves = dict[str, NDArray[np.float64]]

FORMAT: Final = 3  # change it when the layout of a run's files changes, or what runs give
METADATA_KEY: Final = b"cloister"


class KeptRun(NamedTuple):
    """A run that was kept.

    Parameters
    ----------
    path
        Its JSON file; its curves and its ranker lie beside it.
    settings
        What decided it.
    system
        The name of its variant, if it has one.
    position
        Where it stood in its grid, from 0.
    summary
        Its figures, as :meth:`cloister.lab.simulation.run.SimulationResult.summary` gives them.
    by_query
        Offline nDCG of each test query at the end; NaN where nothing is relevant.
    versions
        Of Cloister, Python, NumPy and numba.
    """

    path: Path
    settings: SimulationSettings
    system: str
    position: int
    summary: dict[str, Any]
    by_query: NDArray[np.float64]
    versions: dict[str, str]

    def curves(self) -> Curves:
        """Read the curves, one number a round."""
        from pyarrow import parquet

        table = parquet.read_table(self.path.with_suffix(".parquet"))
        return {name: table[name].to_numpy() for name in table.column_names}


def prepare_folder(folder: Path) -> None:
    """Make a folder for results, and remove what killed writers have left in it."""
    with writing(folder):
        for inner in (folder / "runs", folder / "incoming"):
            inner.mkdir(parents=True, exist_ok=True)
        sweep(folder / "incoming")


def write_run(
    folder: Path, result: SimulationResult, *, system: str = "", position: int = 0
) -> KeptRun:
    """Keep a run in a prepared folder, in the place of one with the same settings."""
    path = _path(folder, result.settings)
    curves = _encoded_curves(result)
    write_aside(folder, path.with_suffix(".parquet"), curves)
    rankers = _write_rankers(folder, result, path)
    record = {
        "format": FORMAT,
        "versions": versions(),
        "system": system,
        "position": position,
        "settings": result.settings.model_dump(mode="json"),
        "summary": {name: finite_or_none(value) for name, value in result.summary().items()},
        "by_query": [finite_or_none(value) for value in result.final.by_query.tolist()],
        "curves_sha256": hashlib.sha256(curves).hexdigest(),
        "rankers_sha256": {
            file.suffix: hashlib.sha256(file.read_bytes()).hexdigest() for file in rankers
        },
    }
    _write_record(folder, path, record)
    return _kept(path, record)


def rename_run(folder: Path, run: KeptRun, *, system: str, position: int) -> None:
    """Give a run that is kept the name and place that it has in another grid."""
    if (run.system, run.position) != (system, position):
        record = _read_record(run.path)
        _write_record(folder, run.path, record | {"system": system, "position": position})


def read_run(folder: Path, settings: SimulationSettings) -> KeptRun | None:
    """Return what was kept of these settings; None where it is missing, damaged or half there."""
    path = _path(folder, settings)
    try:
        kept = _kept(path, _read_record(path))
    except (OSError, CloisterError):
        return None
    return kept if kept.settings == settings else None


def load_runs(folder: str | Path) -> list[KeptRun]:
    """Return every whole run of a folder, in the order of its grid."""
    found: dict[str, KeptRun] = {}
    for path in sorted(Path(folder, "runs").glob("*.json")):
        with suppress(OSError, CloisterError):  # damaged, or another version's
            kept = _kept(path, _read_record(path))
            found[kept.settings.digest()] = kept
    in_order = sorted(found.values(), key=lambda run: (run.position, run.settings.canonical()))
    if not in_order:
        raise DataError(
            "no whole run lies here", where=str(folder), remedy="run `cloister simulate` first"
        )
    return in_order


def write_aside(folder: Path, path: Path, content: bytes) -> None:
    """Write a file of a prepared folder whole or not at all."""
    with writing(path), incoming_file(folder / "incoming") as incoming:
        incoming.stream.write(content)
        incoming.stream.flush()
        os.fchmod(incoming.stream.fileno(), 0o666 & ~_umask())
        os.fsync(incoming.stream.fileno())
        incoming.path.replace(path)
        sync_folder(path.parent)


def versions() -> dict[str, str]:
    """Say what made a result."""
    import numba

    return {
        "cloister": cloister.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def parquet_bytes(columns: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    """Return a Parquet file of these columns that says of itself what it is about."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(dict(columns))
    text = json.dumps(dict(about), sort_keys=True)
    stream = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({METADATA_KEY: text.encode()}), stream)
    return stream.getvalue()


def _path(folder: Path, settings: SimulationSettings) -> Path:
    return folder / "runs" / f"{settings.digest()}.json"


def _encoded_curves(result: SimulationResult) -> bytes:
    about = {"settings": result.settings.model_dump(mode="json"), "versions": versions()}
    return parquet_bytes(result.curves, about)


def _write_rankers(folder: Path, result: SimulationResult, path: Path) -> list[Path]:
    """Keep the ranker that a new client would get, and all of them where clients differ."""
    for old in (path.with_suffix(".safetensors"), path.with_suffix(".npz")):
        old.unlink(missing_ok=True)
    clients = result.learner.client_rankers()
    if not all(np.isfinite(ranker.parameters).all() for ranker in clients.rankers):
        return []
    files = [path.with_suffix(".safetensors")]
    extra = {"settings": result.settings.model_dump(mode="json")}
    save_ranker(result.learner.ranker, files[0], extra=extra)
    if len(clients.rankers) > 1:
        stream = io.BytesIO()
        stacked = np.stack([ranker.parameters for ranker in clients.rankers])
        np.savez(stream, parameters=stacked, of_client=clients.of_client)
        files.append(path.with_suffix(".npz"))
        write_aside(folder, files[1], stream.getvalue())
    return files


def _write_record(folder: Path, path: Path, record: Mapping[str, Any]) -> None:
    whole = {name: value for name, value in record.items() if name != "sha256"}
    whole["sha256"] = _checksum(whole)
    write_aside(folder, path, (json.dumps(whole, indent=1) + "\n").encode())


def _read_record(path: Path) -> dict[str, Any]:
    """Read a run's JSON and compare it, and the curves beside it, with their checksums."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        curves = path.with_suffix(".parquet").read_bytes()
        told = record["sha256"], record["curves_sha256"], record["format"]
        for suffix, digest in record["rankers_sha256"].items():
            if hashlib.sha256(path.with_suffix(suffix).read_bytes()).hexdigest() != digest:
                raise Damaged("a ranker does not match its checksum", where=str(path))
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"cannot be read ({error})", where=str(path)) from None
    without = {name: value for name, value in record.items() if name != "sha256"}
    if told != (_checksum(without), hashlib.sha256(curves).hexdigest(), FORMAT):
        raise Damaged("the content does not match its checksum", where=str(path))
    return record


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _kept(path: Path, record: Mapping[str, Any]) -> KeptRun:
    return KeptRun(
        path=path,
        settings=SimulationSettings(**record["settings"]),
        system=record["system"],
        position=record["position"],
        summary=dict(record["summary"]),
        by_query=np.array(record["by_query"], np.float64),
        versions=dict(record["versions"]),
    )


def finite_or_none(value: Any) -> Any:
    """Return what JSON can say: nothing in the place of NaN and infinity."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
