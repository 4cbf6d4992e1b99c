"""Options that the commands of ``cloister cloud`` share, and what they refuse as wrong usage."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.web.addresses import is_loopback

__all__ = [
    "Base",
    "BehindProxy",
    "CaFile",
    "ClientFile",
    "ClosureKind",
    "Closures",
    "Data",
    "Filters",
    "Host",
    "IndexArgument",
    "K",
    "LedgerAddress",
    "MinSize",
    "ModelFolder",
    "OutFile",
    "OutModel",
    "PartyName",
    "Passes",
    "Port",
    "Purpose",
    "Recipient",
    "Seed",
    "ServerFolder",
    "ServerUrl",
    "Threshold",
    "TlsCertificate",
    "TlsKey",
    "TokenFile",
    "TreeKind",
    "Trees",
    "Vectors",
    "WithTexts",
    "check_serving",
    "check_training",
    "check_uploading",
]


class TreeKind(StrEnum):
    """Which features trees have."""

    T1 = "T1"
    T2 = "T2"
    NONE = "none"


class ClosureKind(StrEnum):
    """How terms are put together."""

    ADAPTIVE = "adaptive"
    FIXED = "fixed"


Data = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        help="A collection: a folder (BEIR, MEDIQA, WikiQA, ...), irds:NAME, or "
        "'world:clinic?setting=value&...'.",
    ),
]
Seed = Annotated[int, typer.Option(help="Of all that is drawn.", min=0)]

# Of `train`.
OutModel = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the model goes.")]
Vectors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Word vectors, as word2vec or GloVe write them.",
        show_default="trained on the collection by gensim",
    ),
]
Trees = Annotated[
    TreeKind,
    typer.Option(help="T1: term frequency, proximity, priors; T2: term frequency; or no trees."),
]
Base = Annotated[
    float,
    typer.Option(help="r of the levels in which kernel values are stored; 0 stores them plain."),
]
Closures = Annotated[
    ClosureKind,
    typer.Option(help="adaptive: by falling thresholds, up to a size; fixed: by one threshold."),
]
Threshold = Annotated[
    float,
    typer.Option(help="The (lowest) similarity of terms of one closure.", min=0.05, max=0.9),
]
MinSize = Annotated[int, typer.Option(help="p: terms of a closure.", min=1, max=1000)]
Filters = Annotated[int, typer.Option(help="Of the convolutions.", min=1, max=1024)]
Passes = Annotated[int, typer.Option(help="Over the training queries, at most.", min=1, max=1000)]

# Of `build`.
ModelFolder = Annotated[
    Path, typer.Option("--model", metavar="FOLDER", help="Made by `cloister cloud train`.")
]
ClientFile = Annotated[
    Path,
    typer.Option(
        "--client", metavar="FILE", help="The client's keys and dictionary; it stays at home."
    ),
]
OutFile = Annotated[Path, typer.Option("--out", metavar="FILE", help="The index to upload.")]
WithTexts = Annotated[
    bool, typer.Option("--with-texts", help="Put the documents' texts in, sealed.")
]

# Of `serve`, `upload`, `search` and `show`.
ServerFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where indexes are kept; made if not there.")
]
Host = Annotated[str, typer.Option(help="Where to listen.")]
Port = Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)]
TokenFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        envvar="CLOISTER_CLOUD_TOKEN_FILE",
        help="The server's token; only its owner may read the file.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Certificates to trust in the place of the system's, PEM."),
]
TlsCertificate = Annotated[Path | None, typer.Option(metavar="FILE", help="In PEM.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="In PEM.")]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy", help="A proxy does TLS: listen beyond this machine without a certificate."
    ),
]
IndexArgument = Annotated[
    Path, typer.Argument(metavar="INDEX_FILE", help="Made by `cloister cloud build`.")
]
ServerUrl = Annotated[
    str, typer.Option("--server", metavar="URL", help="https://..., or http:// on this machine.")
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="CLOISTER_LEDGER",
        help="Where the upload is recorded: a SQLite file, or postgresql://USER@HOST/DATABASE.",
    ),
]
PartyName = Annotated[str | None, typer.Option(help="Whose documents they are.")]
Recipient = Annotated[
    str | None,
    typer.Option("--to", help="Who gets it, on the ledger.", show_default="the server's host"),
]
Purpose = Annotated[str, typer.Option(help="Why; it is recorded.")]
K = Annotated[int, typer.Option("-k", help="How many documents.", min=1, max=1000)]


def check_training(given: Mapping[str, Any]) -> None:
    """Refuse a base between plain values and 2."""
    base = given["base"]
    if not (base == 0 or 2 <= base <= 1e6):
        raise typer.BadParameter("--base is 0, which protects nothing, or from 2 on")


def check_serving(given: Mapping[str, Any]) -> None:
    """Refuse half a certificate, and keys in the clear beyond this machine."""
    if (given["tls_certificate"] is None) != (given["tls_key"] is None):
        raise typer.BadParameter("--tls-certificate and --tls-key go together")
    secure = given["tls_certificate"] is not None or given["behind_proxy"]
    if not is_loopback(given["host"]) and not secure:
        raise typer.BadParameter(
            "beyond this machine keys of boxes need TLS: give --tls-certificate and --tls-key, or "
            "--behind-proxy where a proxy does it"
        )


def check_uploading(given: Mapping[str, Any]) -> None:
    """Have a ledger's entry name its party."""
    if given["ledger"] and not given["party"]:
        raise typer.BadParameter("what goes on a ledger has a party: give --party")
    if given["party"] and not given["ledger"]:
        raise typer.BadParameter("--party is for a ledger: give --ledger")
