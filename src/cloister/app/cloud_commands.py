"""``cloister cloud``: ``train``, ``build``, ``serve``, ``upload``, ``search`` and ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.cloud_options import (
    Base,
    BehindProxy,
    CaFile,
    ClientFile,
    ClosureKind,
    Closures,
    Data,
    Filters,
    Host,
    IndexArgument,
    K,
    LedgerAddress,
    MinSize,
    ModelFolder,
    OutFile,
    OutModel,
    PartyName,
    Passes,
    Port,
    Purpose,
    Recipient,
    Seed,
    ServerFolder,
    ServerUrl,
    Threshold,
    TlsCertificate,
    TlsKey,
    TokenFile,
    TreeKind,
    Trees,
    Vectors,
    WithTexts,
    check_serving,
    check_training,
    check_uploading,
)
from cloister.app.cloud_output import (
    show_built,
    show_found,
    show_index,
    show_trained,
    show_uploaded,
)
from cloister.app.output import ForceFlag, JsonFlag, checked_usage, command_result, progress

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Neural ranking of an encrypted index on somebody else's server.", no_args_is_help=True
)


@app.command("train")
@checked_usage(check_training)
@command_result(show_trained)
def train(
    data: Data,
    out: OutModel,
    vectors: Vectors = None,
    trees: Trees = TreeKind.T2,
    base: Base = 10.0,
    closures: Closures = ClosureKind.ADAPTIVE,
    threshold: Threshold = 0.3,
    min_size: MinSize = 5,
    filters: Filters = 64,
    passes: Passes = 8,
    seed: Seed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Train a C-KNRM* and trees on a judged collection, for `cloister cloud build`.

    Needs the extra `neural`. The model is plain and stays at home.
    """
    from cloister.app.cloud_training import TrainingChoices, train_model

    choices = TrainingChoices(
        trees=trees.value,
        base=base or None,
        closures=closures.value,
        threshold=threshold,
        min_size=min_size,
        n_filters=filters,
        n_passes=passes,
    )
    with progress("training") as advance:
        return train_model(data, out, choices, vectors=vectors, seed=seed, advance=advance)


@app.command("build")
@command_result(show_built)
def build(
    data: Data,
    model: ModelFolder,
    client: ClientFile,
    out: OutFile,
    with_texts: WithTexts = False,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> Result:
    """Build the index that may be uploaded, and the client's file with its keys.

    The server can open a box of the index only after a query named it.
    """
    from cloister.app.cloud_building import build_index, check_targets

    check_targets(client, out, force=force)
    with progress("building") as advance:
        return build_index(data, model, client, out, with_texts=with_texts, advance=advance)


@app.command("serve")
@checked_usage(check_serving)
def serve(
    folder: ServerFolder,
    token_file: TokenFile,
    host: Host = "127.0.0.1",
    port: Port = 8470,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    as_json: JsonFlag = False,
) -> None:
    """Keep private indexes in a folder and rank by them, until told to end.

    Needs the extra `cloud`. Whoever has the token may put, ask and remove indexes; it opens none.
    """
    from cloister.app.cloud_serving import serve_folder

    serve_folder(
        folder,
        token_file,
        host=host,
        port=port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        as_json=as_json,
    )


@app.command("upload")
@checked_usage(check_uploading)
@command_result(show_uploaded)
def upload(
    index_file: IndexArgument,
    server: ServerUrl,
    token_file: TokenFile,
    ledger: LedgerAddress = None,
    party: PartyName = None,
    to: Recipient = None,
    purpose: Purpose = "private ranking",
    ca_file: CaFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Send an index to its server; with a ledger, on record.

    The record has no finite epsilon: the index is sealed, not differentially private. A party with
    a limit is refused.
    """
    from cloister.app.cloud_uploading import UploadRecording, upload_index

    recording = None
    if ledger and party:
        recording = UploadRecording(ledger, party, to or "", purpose)
    return upload_index(index_file, server, token_file, recording, ca_file=ca_file)


@app.command("search")
@command_result(show_found)
def search(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    client: ClientFile,
    server: ServerUrl,
    token_file: TokenFile,
    k: K = 10,
    text: Annotated[
        bool, typer.Option("--text", help="Fetch the texts, if the index has them.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Tell what the server saw of this query.")
    ] = False,
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="INDEX_FILE", help="For --trace: the file that was uploaded, to look into."
        ),
    ] = None,
    ca_file: CaFile = None,
    as_json: JsonFlag = False,
) -> Result:
    """Rank the documents of an index for a query.

    The server does not learn the words. It learns which boxes are opened, and so whether the same
    words were asked for before, the length of the query, the documents of the words' closures,
    coded features, and scores.
    """
    from cloister.app.cloud_searching import search_index

    return search_index(
        query,
        client,
        server,
        token_file,
        k=k,
        with_text=text,
        trace=trace or index is not None,
        index=index,
        ca_file=ca_file,
    )


@app.command("show")
@command_result(show_index)
def show(index_file: IndexArgument, as_json: JsonFlag = False) -> Result:
    """Say what a server sees of an index before any query."""
    from cloister.app.cloud_building import show_index as described

    return described(index_file)
