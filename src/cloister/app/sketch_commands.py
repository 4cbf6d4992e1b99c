"""``cloister sketch``: ``key``, ``build``, ``release``, ``query``, ``show``, and the changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.output import ForceFlag, JsonFlag, checked_usage, command_result
from cloister.app.sketch_changing import add, delete
from cloister.app.sketch_options import (
    AnswerK,
    CellSize,
    Collection,
    Columns,
    Delta,
    Epsilon,
    FieldName,
    FieldOption,
    IdsOf,
    KeyFile,
    Kind,
    KindOption,
    LedgerAddress,
    MaxLength,
    MeanLength,
    MemoryMb,
    NoiseSeed,
    Out,
    PartyName,
    PlannedK,
    Purpose,
    QueryWords,
    Recipient,
    Rows,
    ScoreName,
    ScoreOption,
    SketchFile,
    Unrecorded,
    refuse_unrecorded,
)
from cloister.app.sketch_output import (
    doing,
    show_answer,
    show_built,
    show_key,
    show_released,
    show_sketch,
)
from cloister.core.file_errors import refuse_existing

if TYPE_CHECKING:
    from cloister.app.sketch_collection import Counted

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Sketches of documents: exact ones that stay at home, noisy ones that may leave.",
    no_args_is_help=True,
)


def _counted(address: str, field: FieldName) -> Counted:
    from cloister.app.sketch_collection import count_field, iter_documents

    return count_field(iter_documents(address), field.value, address)


@app.command("key")
@command_result(show_key)
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")],
    show: Annotated[
        bool, typer.Option("--show", help="Show the fingerprint of a key that is there.")
    ] = False,
    as_json: JsonFlag = False,
) -> Result:
    """Make a new hash key, or show a key's fingerprint; the secret is never shown.

    Sketches can be compared if they have the same key. Parties agree on one, past their server,
    with the library: cloister.sketch.key_agreement.
    """
    from cloister.sketch.key_file import read_key, write_key
    from cloister.sketch.keyed_hash import HashKey

    if not show:
        write_key(file, HashKey.random())
    return {"file": str(file), "key_fingerprint": read_key(file).fingerprint, "made": not show}


@app.command("build")
@command_result(show_built)
def build(
    collection: Collection,
    key_file: KeyFile,
    out: Out,
    field: FieldOption = FieldName.BODY,
    kind: KindOption = Kind.RTK,
    rows: Rows = 5,
    columns: Columns = 1200,
    cell_size: CellSize = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> Result:
    """Sketch a collection exactly, for use at home: whoever has the key reads counts from it."""
    from cloister.app.sketch_building import build_sketch
    from cloister.app.sketch_opening import sketch_kind
    from cloister.sketch.key_file import read_key
    from cloister.sketch.keyed_hash import SketchShape

    refuse_existing(out, force=force, ours=sketch_kind)
    secret = read_key(key_file)
    with doing(f"reading {collection}") as say:
        start = time.perf_counter()
        counted = _counted(collection, field)
        read_seconds = time.perf_counter() - start
        say(f"sketching {counted.counts.n_documents:,} documents")
        shape = SketchShape(n_rows=rows, n_columns=columns)
        made, about = build_sketch(counted, secret, shape, kind.value, cell_size)
        made.save(out)
    return about | {
        "file": str(out),
        "file_bytes": out.stat().st_size,
        "collection": collection,
        "field": field.value,
        "read_seconds": read_seconds,
    }


@app.command("release")
@checked_usage(refuse_unrecorded)
@command_result(show_released)
def release(
    collection: Collection,
    key_file: KeyFile,
    out: Out,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    field: FieldOption = FieldName.BODY,
    memory_mb: MemoryMb = None,
    k: PlannedK = None,
    mean_length: MeanLength = None,
    max_length: MaxLength = None,
    ledger: LedgerAddress = None,
    party: PartyName = None,
    to: Recipient = None,
    purpose: Purpose = None,
    unrecorded: Unrecorded = False,
    seed: NoiseSeed = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> Result:
    """Make a noisy sketch that may leave: noise on every cell once, then any number of queries.

    It is recorded on the ledger before the file has its name; over the limit there is no file.
    """
    from cloister.app.sketch_opening import sketch_kind
    from cloister.app.sketch_release import Recording, plan, release_sketch
    from cloister.sketch.key_file import read_key

    recording = None
    if ledger and party and to:
        recording = Recording(ledger, party, to, purpose or f"noisy sketch of {field.value}")
    refuse_existing(out, force=force, ours=sketch_kind)
    secret = read_key(key_file)
    with doing(f"reading {collection}") as say:
        start = time.perf_counter()
        counted = _counted(collection, field)
        read_seconds = time.perf_counter() - start
        say("planning the release")
        chosen = plan(
            counted.counts.n_documents,
            epsilon=epsilon,
            delta=delta,
            mean_length=mean_length or (10 if field is FieldName.TITLE else 1000),
            memory_mb=memory_mb,
            k=k,
            max_length=max_length,
        )
        about = release_sketch(
            counted, secret, chosen, out, recording=recording, seed=seed, say=say
        )
    return about | {
        "collection": collection,
        "field": field.value,
        "epsilon_asked": epsilon,
        "read_seconds": read_seconds,
    }


@app.command("query")
@command_result(show_answer)
def query(
    file: SketchFile,
    words: QueryWords,
    key_file: KeyFile,
    k: AnswerK = 10,
    score: ScoreOption = ScoreName.COUNTS,
    ids: IdsOf = None,
    as_json: JsonFlag = False,
) -> Result:
    """Find the documents in which terms occur most, by estimate. Nobody learns of the query."""
    from cloister.app.sketch_answer import answer
    from cloister.app.sketch_opening import open_sketch, require_key
    from cloister.app.sketch_query import query_terms
    from cloister.sketch.key_file import read_key

    terms = query_terms(words)
    secret = read_key(key_file)
    with doing("reading the sketch"):
        opened = open_sketch(file)
        require_key(opened, secret, file)
        found = answer(opened, secret, terms, k, score=score.value, ids_of=ids)
    return {"file": str(file)} | found


@app.command("show")
@command_result(show_sketch)
def show(file: SketchFile, as_json: JsonFlag = False) -> Result:
    """Say what a sketch file is, how large, and what it costs; every checksum is compared."""
    from cloister.app.sketch_opening import describe, open_sketch

    with doing("reading the sketch"):
        opened = open_sketch(file)
        about = describe(opened)
    return about | {"file": str(file), "file_bytes": file.stat().st_size, "checksums": "match"}


app.command("add")(add)
app.command("delete")(delete)
