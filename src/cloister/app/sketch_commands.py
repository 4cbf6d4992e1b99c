"""``cloister sketch key``, ``build``, ``release``, ``query``, ``show``, ``add`` and ``delete``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, console
from cloister.app.sketch_options import (
    Collection,
    FieldName,
    FieldOption,
    Force,
    KeyFile,
    Kind,
    Out,
    ScoreName,
    SketchFile,
    checked_usage,
    positive,
    probability,
    refuse_nothing,
    refuse_unrecorded,
)
from cloister.app.sketch_output import (
    show_answer,
    show_built,
    show_changed,
    show_key,
    show_released,
    show_sketch,
)

if TYPE_CHECKING:
    from cloister.app.sketch_collection import Counted
    from cloister.app.sketch_release import Say
    from cloister.sketch.rtk_sketch import RtkSketch

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Sketches of documents: exact ones that stay at home, noisy ones that may leave.",
    no_args_is_help=True,
)


@contextmanager
def _doing(what: str) -> Iterator[Say]:
    """Show on standard error what is being done, where that is a terminal."""
    with console(err=True).status(what) as status:
        yield status.update


def _refuse_existing(out: Path, *, force: bool) -> None:
    from cloister.core.errors import NotFound, StoreError
    from cloister.sketch.sketch_file import is_sketch_file

    if out.is_dir() or (out.exists() and not force):
        raise StoreError(
            "a folder has this name" if out.is_dir() else "the file is there already",
            where=str(out),
            remedy="choose another name" if out.is_dir() else "choose another name, or add --force",
        )
    if out.exists() and not is_sketch_file(out):  # a key or a ledger, say
        raise StoreError(
            "the file that is there is no sketch, and is not replaced",
            where=str(out),
            remedy="choose another name",
        )
    if not out.absolute().parent.is_dir():
        raise NotFound(
            "no such folder", where=str(out.absolute().parent), remedy="make the folder first"
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
    kind: Annotated[
        Kind,
        typer.Option(help="rtk: which documents have a term; the others: how often it occurs."),
    ] = Kind.RTK,
    rows: Annotated[int, typer.Option(help="Rows of the sketch.", min=1, max=1000)] = 5,
    columns: Annotated[int, typer.Option(help="Columns of the sketch.", min=1, max=1 << 20)] = 1200,
    cell_size: Annotated[
        int | None,
        typer.Option(
            help="Of rtk: documents on each side of a cell.",
            min=1,
            max=1 << 24,
            show_default="so many that the file is an eighth of per-document sketches, 50 or more",
        ),
    ] = None,
    force: Force = False,
    as_json: JsonFlag = False,
) -> Result:
    """Sketch a collection exactly, for use at home: whoever has the key reads counts from it."""
    from cloister.app.sketch_building import build_sketch
    from cloister.sketch.key_file import read_key
    from cloister.sketch.keyed_hash import SketchShape

    _refuse_existing(out, force=force)
    secret = read_key(key_file)
    with _doing(f"reading {collection}") as say:
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
    epsilon: Annotated[
        float,
        typer.Option(help="What all of it may cost for one token.", callback=positive, max=1000),
    ],
    delta: Annotated[
        float, typer.Option(help="The chance with which that may fail.", callback=probability)
    ] = 1e-6,
    field: FieldOption = FieldName.BODY,
    memory_mb: Annotated[
        float | None,
        typer.Option(
            help="What the release may take, in millions of bytes.",
            callback=positive,
            show_default="an eighth of per-document sketches, 16 or more",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="How many documents a query will ask for.",
            min=1,
            max=1 << 20,
            show_default="150, or a twentieth of the documents where that is less",
        ),
    ] = None,
    mean_length: Annotated[
        float | None,
        typer.Option(
            help="About how long documents are, in tokens: a guess, not a measured mean.",
            callback=positive,
            show_default="1000 for bodies, 10 for titles",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Cut documents to so many tokens: a whole document then has a stated cost, and "
            "noise is twice as wide.",
            min=1,
            max=1 << 30,
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            envvar="CLOISTER_LEDGER",
            help="Where it is recorded: a SQLite file, or postgresql://USER@HOST/DATABASE.",
        ),
    ] = None,
    party: Annotated[str | None, typer.Option(help="Whose privacy it costs.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Who gets it.")] = None,
    purpose: Annotated[str | None, typer.Option(help="Why; it is recorded.")] = None,
    unrecorded: Annotated[
        bool, typer.Option("--unrecorded", help="Record nothing: the file must not leave home.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Noise from a seed, for experiments: it protects nobody.",
            min=0,
            max=(1 << 64) - 1,
        ),
    ] = None,
    force: Force = False,
    as_json: JsonFlag = False,
) -> Result:
    """Make a noisy sketch that may leave: noise on every cell once, then any number of queries.

    It is recorded on the ledger before the file has its name; over the limit there is no file.
    """
    from cloister.app.sketch_release import Recording, plan, release_sketch
    from cloister.sketch.key_file import read_key

    recording = None
    if ledger and party and to:
        recording = Recording(ledger, party, to, purpose or f"noisy sketch of {field.value}")
    _refuse_existing(out, force=force)
    secret = read_key(key_file)
    with _doing(f"reading {collection}") as say:
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
    words: Annotated[list[str], typer.Argument(metavar="TERM...", help="What to look for.")],
    key_file: KeyFile,
    k: Annotated[int, typer.Option("-k", help="How many documents.", min=1, max=1 << 20)] = 10,
    score: Annotated[
        ScoreName,
        typer.Option(help="Of several terms: the sum of estimated counts, or BM25 (releases)."),
    ] = ScoreName.COUNTS,
    ids: Annotated[
        str | None,
        typer.Option(
            metavar="COLLECTION", help="Show document ids of this collection, which was sketched."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Find the documents in which terms occur most, by estimate. Nobody learns of the query."""
    from cloister.app.sketch_answer import answer
    from cloister.app.sketch_opening import open_sketch, require_key
    from cloister.app.sketch_query import query_terms
    from cloister.sketch.key_file import read_key

    terms = query_terms(words)
    secret = read_key(key_file)
    with _doing("reading the sketch"):
        opened = open_sketch(file)
        require_key(opened, secret, file)
        found = answer(opened, secret, terms, k, score=score.value, ids_of=ids)
    return {"file": str(file)} | found


@app.command("show")
@command_result(show_sketch)
def show(file: SketchFile, as_json: JsonFlag = False) -> Result:
    """Say what a sketch file is, how large, and what it costs; every checksum is compared."""
    from cloister.app.sketch_opening import describe, open_sketch

    with _doing("reading the sketch"):
        opened = open_sketch(file)
        about = describe(opened)
    return about | {"file": str(file), "file_bytes": file.stat().st_size, "checksums": "match"}


@app.command("add")
@command_result(show_changed)
def add(
    file: SketchFile,
    documents: Annotated[
        Path,
        typer.Argument(metavar="DOCUMENTS", help="JSON lines with _id, text and perhaps title."),
    ],
    key_file: KeyFile,
    field: Annotated[
        FieldName, typer.Option("--field", help="Which part; as when the sketch was built.")
    ] = FieldName.BODY,
    as_json: JsonFlag = False,
) -> Result:
    """Add documents to an exact RTK-Sketch. What was released before does not change."""
    from cloister.app.sketch_building import add_documents, changing
    from cloister.app.sketch_collection import count_field, read_documents
    from cloister.app.sketch_opening import require_key
    from cloister.sketch.key_file import read_key

    secret = read_key(key_file)
    with _doing("reading the sketch") as say, changing(file):
        sketch = _exact(file)
        require_key(sketch, secret, file)
        counted = count_field(read_documents(documents), field.value, str(documents))
        say(f"adding {len(counted.doc_ids):,} documents")
        add_documents(sketch, counted, secret)
        sketch.save(file)
    return _changed(file, sketch) | {"added": list(counted.doc_ids), "removed": []}


@app.command("delete")
@checked_usage(refuse_nothing)
@command_result(show_changed)
def delete(
    file: SketchFile,
    doc_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[DOC_ID]...", help="Documents by id.")
    ] = None,
    number: Annotated[
        list[int] | None, typer.Option(help="Documents by number. May be given often.", min=0)
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Delete documents from an exact RTK-Sketch. What was released before stays released."""
    from cloister.app.sketch_building import changing, delete_documents

    with _doing("reading the sketch"), changing(file):
        sketch = _exact(file)
        removed = delete_documents(sketch, doc_ids or [], number or [], file)
        sketch.save(file)
    return _changed(file, sketch) | {"added": [], "removed": removed}


def _exact(file: Path) -> RtkSketch:
    """Open a sketch that can be changed."""
    from cloister.app.sketch_opening import open_sketch
    from cloister.core.errors import DataError
    from cloister.sketch.rtk_sketch import RtkSketch

    opened = open_sketch(file)
    if not isinstance(opened, RtkSketch):
        raise DataError(
            "only an exact RTK-Sketch can be changed",
            where=str(file),
            remedy="make the file anew from the changed collection; a release is a new release",
        )
    return opened


def _changed(file: Path, sketch: RtkSketch) -> Result:
    from cloister.app.sketch_opening import describe

    return describe(sketch) | {"file": str(file), "file_bytes": file.stat().st_size}
