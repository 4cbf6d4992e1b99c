"""How people are shown what ``cloister cloud`` trained, built, sent and found."""

from __future__ import annotations

from typing import Any, Final

import typer

from cloister.app.output import console, number, say, table

__all__ = ["show_built", "show_found", "show_index", "show_trained", "show_uploaded"]

Result = dict[str, Any]

SHOWN: Final = 200  # characters of a text; all of it with --json
STAYS: Final = (
    "It stays at home: it was learnt from texts, queries and judgements, and nothing protects it."
)
AT_REST: Final = (
    "Until a query comes, that is all the server sees. A query opens the boxes of its words, "
    "phrases and pairs to it, for ever; see `cloister cloud search --trace`."
)
CODES: Final = (
    "With trees it holds for words that were never asked for: the codes of the others nearly give "
    "the order of their frequencies, and tell in which documents of the closure they occur."
)


def show_trained(result: Result) -> None:
    """Say how well a model ranks."""
    rows = [
        [name, result[f"{part}_ndcg@10"], result[f"{part}_bm25_ndcg@10"], result[f"{part}_queries"]]
        for part, name in (("validation", "validation"), ("test", "test"))
    ]
    table("nDCG@10", ["queries", "C-KNRM*, as served", "BM25", "number"], rows)
    typer.echo(
        f"{result['model']}: {number(result['documents'])} documents, "
        f"{number(result['training_queries'])} training queries, trees {result['trees']}; "
        f"{result['seconds']:.0f} s"
    )
    typer.echo("Validation queries chose the weights: the test queries tell what to expect.")
    typer.echo(STAYS)


def show_built(result: Result) -> None:
    """Say what was built, in what time and of what size."""
    typer.echo(
        f"{result['file']}: {number(result['boxes'])} boxes, {_megabytes(result['bytes'])}, "
        f"{number(round(result['bytes_per_document']))} bytes a document "
        f"({number(result['documents'])} documents)"
    )
    typer.echo(
        f"{number(result['words'])} words in {number(result['closures'])} closures of "
        f"{result['closure_size_smallest']} to {number(result['closure_size_largest'])} (mean "
        f"{number(result['closure_size_mean'])}); {number(result['phrases'])} phrases, "
        f"{number(result['pairs'])} pairs"
    )
    typer.echo(
        "log2 of the collections with the same closures and documents: "
        f"{number(result['log2_deniability'])}. That is a count, no probability."
    )
    if result["trees"] != "none":
        typer.echo(CODES)
    typer.echo(f"built in {result['build_seconds']:.1f} s, read in {result['read_seconds']:.1f} s")
    typer.echo(f"{result['client']} holds the keys: whoever has it reads the index. Keep a copy.")


def show_index(result: Result) -> None:
    """Say what a server sees at rest."""
    typer.echo(
        f"{result['file']}: private index {result['index_id']}, {_megabytes(result['bytes'])}, "
        "all checksums match"
    )
    typer.echo(
        f"the server sees {number(result['documents'])} documents, {number(result['boxes'])} boxes "
        f"of {number(result['box_bytes_smallest'])} to {number(result['box_bytes_largest'])} bytes "
        f"in {number(result['box_sizes'])} sizes "
        f"({number(result['boxes_of_a_size_of_their_own'])} boxes have a size of their own)"
    )
    texts = f"{_megabytes(result['text_bytes_total'])} of sealed texts"
    typer.echo(
        f"and {number(result['name_bytes_total'])} bytes of sealed names, "
        f"{texts if result['has_texts'] else 'no texts'}"
    )
    typer.echo(f"labels begin {', '.join(result['labels'])} ...")
    typer.echo(AT_REST)


def show_uploaded(result: Result) -> None:
    """Say what was sent, and where it is recorded."""
    typer.echo(
        f"{result['server']} has the index {result['index_id']}: {_megabytes(result['bytes'])}, "
        f"{number(result['boxes'])} boxes; {result['seconds']:.1f} s"
    )
    entry = result["ledger"]
    if entry is None:
        typer.echo("Not recorded on a ledger (--ledger, --party).")
        return
    typer.echo(
        f"entry {entry['entry']} of {entry['address']}: {entry['party']}, {entry['purpose']}; it "
        "has no finite epsilon"
    )


def show_found(result: Result) -> None:
    """Show documents best first, and what the server saw."""
    from rich.markup import escape

    out = console()
    for place, one in enumerate(result["results"], 1):
        out.print(f"[bold]{place}. {escape(one['doc_id'])}[/bold]  {one['score']:.4f}")
        if one.get("text"):
            out.print(f"   {escape(_begin(one['text']))}")
    if not result["results"]:
        say("no document is held for the words of this query")
    if result["unknown_terms"]:
        say(f"in no document: {', '.join(result['unknown_terms'])}")
    if "trace" in result:
        _show_trace(result["trace"])


def _begin(text: str) -> str:
    """Return the first words of a text in one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."


def _show_trace(trace: Result) -> None:
    rows = [
        [
            one["kind"],
            one["label"][:12] + "...",
            "-" if one.get("closure") is None else one["closure"][:12] + "...",
            "-" if one.get("documents") is None else one["documents"],
            "-" if one.get("levels") is None else one["levels"],
            "-" if one.get("codes") is None else one["codes"],
        ]
        for one in trace["boxes"]
    ]
    columns = ["box", "label", "closure", "documents", "levels", "codes"]
    table("what the server saw of this query", columns, rows)
    typer.echo(
        f"{trace['n_terms']} different terms, {trace['k']} documents asked for, "
        f"{number(trace['bytes'])} bytes sent, of which the server keeps what it likes"
    )
    if trace["texts_fetched"]:
        typer.echo(f"then {trace['texts_fetched']} sealed texts were fetched, by secret number")
    if not trace["opened"]:
        typer.echo("What the boxes hold is shown with --index: the file that was uploaded.")


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB"
