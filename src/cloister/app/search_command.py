"""``cloister search``: one user's search over all pods of a home folder."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, checked_usage, command_result, console, say
from cloister.app.pods_options import HomeOption, open_home

__all__ = ["search"]

Result = dict[str, Any]


class Model(StrEnum):
    """Which model ranks."""

    BM25 = "bm25"
    LM = "lm"
    TFIDF_COSINE = "tfidf-cosine"
    TFIDF_EUCLIDEAN = "tfidf-euclidean"
    W2V_COSINE = "w2v-cosine"
    W2V_EUCLIDEAN = "w2v-euclidean"


class StatisticsKind(StrEnum):
    """Whose statistics."""

    USER = "user"
    GLOBAL = "global"


class SelectionKind(StrEnum):
    """How servers are chosen."""

    BEST_IMPACT = "best-impact"
    ENTITY = "entity"


def _show(result: Result) -> None:
    from rich.markup import escape

    out = console()
    for place, one in enumerate(result["results"], 1):
        out.print(f"[bold]{place}. {escape(one['doc_id'])}[/bold]  {one['score']:.4f}")
        out.print(f"   [dim]{escape(one['pod'])} on {escape(one['server'])}[/dim]")
        if one["snippet"]:
            out.print(f"   {escape(one['snippet'])}")
        for line in one.get("explanation_lines", ()):
            out.print(f"   [dim]{escape(line)}[/dim]")
    missing = [*result["missing_nodes"], *result["missing_pods"]]
    if not result["results"]:
        answered = ", at the servers and pods that answered" if missing else ""
        say(f"nothing found in what this user may read{answered}")
    if result.get("servers_without_table"):
        say(f"no table of this user on: {', '.join(result['servers_without_table'])}")
    if result["missing_nodes"]:
        say(f"no answer from: {', '.join(result['missing_nodes'])}")
    if result["missing_pods"]:
        say(f"no answer from the pods: {', '.join(result['missing_pods'])}")


def _check(options: Mapping[str, Any]) -> None:
    _check_tables(options)
    if not options["model"].startswith("w2v"):
        if options["vectors"] is not None:
            raise typer.BadParameter("--vectors needs the model w2v-cosine or w2v-euclidean")
        return
    if options["statistics"] != StatisticsKind.USER:
        raise typer.BadParameter("word vectors need no statistics: leave --statistics out")
    if options["selection"] == SelectionKind.BEST_IMPACT:
        raise typer.BadParameter("word vectors choose servers by --selection entity")


def _check_tables(options: Mapping[str, Any]) -> None:
    if not options["from_pods"]:
        if options["credentials"] is not None:
            raise typer.BadParameter("--credentials are for tables: add --from-pods")
        return
    if options["servers"] is None:
        raise typer.BadParameter("--from-pods needs --servers: with tables, servers are chosen")
    if options["model"] not in (Model.BM25, Model.LM):
        raise typer.BadParameter("--from-pods needs the model bm25 or lm")
    if options["group"]:
        raise typer.BadParameter("tables are made for users alone: --from-pods takes no --group")


@checked_usage(_check)
@command_result(_show)
def search(
    query: Annotated[str, typer.Argument(help="What to search for.")],
    user: Annotated[
        str, typer.Option("--as", metavar="USER", help="Who searches: a name or WebID.")
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="A group the user belongs to; may be repeated.")
    ] = None,
    model: Annotated[Model, typer.Option(help="How documents are ranked.")] = Model.BM25,
    statistics: Annotated[
        StatisticsKind,
        typer.Option(
            help="user: exact, over what the user may read; global: over all documents, words in "
            "fewer than --threshold documents or pods left out."
        ),
    ] = StatisticsKind.USER,
    threshold: Annotated[int, typer.Option(help="Of global statistics.", min=2)] = 5,
    selection: Annotated[
        SelectionKind | None,
        typer.Option(
            help="How servers are chosen where not all are asked.",
            show_default="best-impact; entity for word vectors",
        ),
    ] = None,
    servers: Annotated[
        int | None,
        typer.Option(
            "--servers", "-S", help="Ask so many servers at most.", min=1, show_default="all"
        ),
    ] = None,
    from_pods: Annotated[
        bool,
        typer.Option(
            "--from-pods",
            help="Choose servers by the user's tables in the servers' own pods, and ask no others.",
        ),
    ] = False,
    credentials: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The user's own, for tables in pods on Solid servers."),
    ] = None,
    pods: Annotated[
        int | None, typer.Option(help="Pods of a server at most.", min=1, show_default="all")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many documents.", min=1, max=1000)] = 10,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The user's word vectors, for w2v-cosine and w2v-euclidean; those in the user's "
            "pod (cloister vectors train) unless given.",
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Take scores apart.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for servers.", min=0.01)] = 10.0,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Search the pods of this machine as somebody.

    Whoever can run this can read the home folder: --as shows what a user would find, and proves
    nothing. Over a network, who asks is shown by a token that each node verifies.
    """
    from cloister.app.searching import search_home

    usual = SelectionKind.ENTITY if model.startswith("w2v") else SelectionKind.BEST_IMPACT
    with open_home(home) as registry:
        return search_home(
            registry,
            query,
            user,
            groups=group or [],
            model=model.value,
            statistics=statistics.value,
            threshold=threshold,
            selection=(selection or usual).value,
            n_servers=servers,
            n_pods=pods,
            k=k,
            vectors_file=vectors,
            explain=explain,
            timeout_s=timeout,
            from_pods=from_pods,
            credentials=credentials,
        )
