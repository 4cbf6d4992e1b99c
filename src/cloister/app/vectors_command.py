"""``cloister vectors base`` and ``train``: word vectors of one user, for ``cloister search``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import ForceFlag, JsonFlag, checked_usage, command_result, console
from cloister.app.pods_options import HomeOption, open_home
from cloister.core.file_errors import refuse_existing

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(help="Word vectors, with which a user can search.", no_args_is_help=True)


class Form(StrEnum):
    """How a user's vectors are made from the base."""

    BACKED_OFF = "backed_off"
    PAPER = "paper"
    BASE = "base"


Size = Annotated[int, typer.Option(help="Numbers of a vector.", min=1, max=10_000)]
BaseEpochs = Annotated[int, typer.Option(help="Passes over the public documents.", min=1)]
MinCount = Annotated[int, typer.Option(help="Words seen less often get no vector.", min=1)]
Seed = Annotated[int, typer.Option(help="Of the random numbers.", min=0)]


def _show(result: Result) -> None:
    from rich.markup import escape

    place = f"pod {result['pod']}" if result.get("pod") else result["file"]
    console().print(f"{result['n_words']:,} words of {result['size']} numbers, in {escape(place)}")


def _check(options: Mapping[str, Any]) -> None:
    if options["base"] is not None and options["public"]:
        raise typer.BadParameter("--base and --public: give one of the two")


@app.command("base")
@command_result(_show)
def base_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")],
    size: Size = 300,
    epochs: BaseEpochs = 40,
    min_count: MinCount = 5,
    seed: Seed = 1,
    force: ForceFlag = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Train a base on what everybody may read here, for `cloister vectors train --base`."""
    from cloister.pods.user_vectors import train_public_base
    from cloister.search.word_vector_table import WordVectors
    from cloister.search.word_vectors import WordVectorSettings

    refuse_existing(out, force=force, ours=WordVectors.open)
    settings = WordVectorSettings(size=size, epochs=epochs, min_count=min_count)
    with open_home(home) as registry:
        vectors = train_public_base(registry, settings, seed=seed)
        vectors.save(out)
    return {"file": str(out), "n_words": len(vectors.words), "size": vectors.size}


@app.command("train")
@checked_usage(_check)
@command_result(_show)
def train(
    user: Annotated[
        str, typer.Option("--as", metavar="USER", help="Whose vectors: a name or WebID.")
    ],
    group: Annotated[
        list[str] | None, typer.Option(help="A group the user belongs to; may be repeated.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A base from `cloister vectors base`.")
    ] = None,
    public: Annotated[
        bool,
        typer.Option("--public", help="Train the base on what everybody may read here (default)."),
    ] = False,
    form: Annotated[
        Form,
        typer.Option(
            help="backed_off: a word leaves the base the further, the more often it was read; "
            "paper: algorithm 1 of ESPRESSO; base: the base as it is."
        ),
    ] = Form.BACKED_OFF,
    epochs: Annotated[int, typer.Option(help="Passes over the user's documents.", min=1)] = 5,
    base_epochs: BaseEpochs = 40,
    size: Size = 300,
    min_count: MinCount = 5,
    seed: Seed = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write them to a file, not into the user's pod."),
    ] = None,
    force: ForceFlag = False,
    home: HomeOption = None,
    as_json: JsonFlag = False,
) -> Result:
    """Make a user's word vectors from what that user may read, and keep them in the user's pod.

    They tell what the user may read: nobody else may read them there. Train again when the user
    may read something else; `cloister search` asks for it.
    """
    from cloister.core.ids import AgentId, GroupId, checked_id
    from cloister.core.rights import Reader
    from cloister.pods import user_vectors
    from cloister.search.word_vector_table import WordVectors
    from cloister.search.word_vectors import (
        TuningSettings,
        WordVectorSettings,
    )

    agent = AgentId(checked_id(user))
    reader = Reader(agent, frozenset(GroupId(name) for name in group or []))
    tuning = TuningSettings(form=form.value, epochs=epochs, min_count=min_count)
    base_settings = WordVectorSettings(size=size, epochs=base_epochs, min_count=min_count)
    with open_home(home) as registry:
        if out is None:  # before the work, not after it
            user_vectors.require_own_pods(registry, agent)
        else:
            refuse_existing(out, force=force, ours=WordVectors.open)
        start = (
            user_vectors.train_public_base(registry, base_settings, seed=seed)
            if base is None
            else WordVectors.open(base)
        )
        vectors = user_vectors.train_user_vectors(registry, reader, start, tuning, seed=seed)
        kept: Result = {"form": form.value, "user": user, "basis": vectors.basis}
        if out is None:
            kept["pod"] = user_vectors.store_vectors(registry, agent, vectors)
        else:
            vectors.save(out)
            kept["file"] = str(out)
    return {**kept, "n_words": len(vectors.words), "size": vectors.size}
