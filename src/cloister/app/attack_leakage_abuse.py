"""``cloister attack leakage-abuse``: words of labels, by a server that knows some documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer

from cloister.app.attack_cloud_scene import (
    WORLD,
    AttackedData,
    AttackSeed,
    AttackVectors,
    CloudScene,
)
from cloister.app.attack_tree_codes import N_QUERIES, AttackedQueries
from cloister.app.output import JsonFlag, command_result, progress, table

__all__ = ["leakage_abuse"]

Result = dict[str, Any]

SHARES: Final = (0.05, 0.1, 0.5)
MIN_SIZES: Final = (5,)
WRONG_LINKS: Final = 0.3  # that a server reckons with, whatever the truth is


def _show(result: Result) -> None:
    rows = [
        [
            one["protection"],
            "-" if one["linked_right"] is None else f"{one['linked_right']:.3f}",
            one["share"],
            f"{one['attack']['exact']['value']:.3f}",
            _interval(one["attack"]["exact"]),
            f"{one['attack']['up_to_closure']['value']:.3f}",
            f"{one['by_frequency']['exact']['value']:.3f}",
        ]
        for one in result["attacks"]
    ]
    columns = ["closures", "linked", "share", "named", "at 95 %", "closure", "counts"]
    table("labels of queried words, named by the server", columns, rows)
    settings = result["settings"]
    chance = max(one["attack"]["chance"]["value"] for one in result["attacks"])
    typer.echo(
        "closures: known where the server can compute them; linked: the share of right links from "
        "documents it knows to its numbers, - where it has none; share: of the documents, which "
        "it knows; named: labels with their word, closure: with a word of the right closure, "
        f"counts: by frequency alone, by chance {chance:.4f} at most. {settings['labels']} labels "
        f"at most, {settings['draws']} draws; {result['seconds']:.0f} s"
    )
    typer.echo(
        "With trees, codes of a queried word show its own documents (`cloister attack "
        "code-order`): it is then as without closures."
    )


def _interval(found: Result) -> str:
    return "" if found["low"] is None else f"{found['low']:.3f}-{found['high']:.3f}"


def _shares(given: list[float] | None) -> list[float] | None:
    for share in given or ():
        if not 0 < share <= 1:
            raise typer.BadParameter(f"{share} is no share above 0 and up to 1")
    return given


@command_result(_show)
def leakage_abuse(
    data: AttackedData = WORLD,
    vectors: AttackVectors = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="Of the documents that the server knows. May be given often.",
            callback=_shares,
            show_default="0.05, 0.1, 0.5",
        ),
    ] = None,
    labels: Annotated[int, typer.Option(help="That it has seen.", min=2, max=10_000)] = 100,
    linked: Annotated[
        bool, typer.Option("--linked", help="It can link documents it knows to its numbers.")
    ] = False,
    link_by_priors: Annotated[
        bool,
        typer.Option(
            "--link-by-priors",
            help="It links them by codes of priors (T1); beside it no links, and right ones.",
        ),
    ] = False,
    trees: Annotated[
        int, typer.Option(help="Of a forest, for --link-by-priors.", min=1, max=10_000)
    ] = 50,
    queries: AttackedQueries = N_QUERIES,
    min_size: Annotated[
        list[int] | None,
        typer.Option(
            help="p of adaptive closures. May be given often.", min=2, max=1000, show_default="5"
        ),
    ] = None,
    fixed: Annotated[
        list[float] | None,
        typer.Option(
            help="Threshold of fixed closures. May be given often.",
            min=-0.99,
            max=1.0,
            show_default="none",
        ),
    ] = None,
    worst_case: Annotated[
        bool, typer.Option("--worst-case", help="Only a server that can compute closures.")
    ] = False,
    draws: Annotated[int, typer.Option(help="Of queries and known documents.", min=1)] = 5,
    seed: AttackSeed = 0,
    as_json: JsonFlag = False,
) -> Result:
    """Name the words of labels by their documents: without closures, and with them.

    Closures are tried against a server that can compute them, and against one that cannot.
    --link-by-priors needs the extra `trees`.
    """  # fmt: skip
    start = time.perf_counter()
    scene = CloudScene(data, vectors)
    sizes, thresholds = list(min_size or MIN_SIZES), list(fixed or ())
    forms = _forms(scene, sizes, thresholds, worst_case)
    make_links = _links(scene, linked, (trees, queries) if link_by_priors else None, seed)
    shares = list(share or SHARES)
    attacks: list[Result] = []
    with progress("attack labels") as advance:
        for one in shares:
            for links in make_links():
                for form in forms:
                    advance(len(attacks), len(shares) * len(forms) * links.n_ways)
                    known = {"share": one, "n_labels": labels, **links.known}
                    attacks.append(_attacked(scene, form, links, known, draws, seed))
    return {
        "attacks": attacks,
        "scene": scene.as_dict(),
        "settings": {
            "data": data, "labels": labels, "linked": linked, "link_by_priors": link_by_priors,
            "trees": trees if link_by_priors else None,
            "queries": queries if link_by_priors else None,
            "wrong_links": WRONG_LINKS if link_by_priors else None,
            "min_size": sizes, "fixed": thresholds, "worst_case": worst_case,
            "draws": draws, "seed": seed,
        },
        "seconds": time.perf_counter() - start,
    }  # fmt: skip


class _Form(NamedTuple):
    """How labels lead to documents: the keys of closures, and whether the server has these."""

    name: str
    keys: dict[str, Any]
    closures_known: bool


def _forms(
    scene: CloudScene, sizes: list[int], thresholds: list[float], worst_case: bool
) -> list[_Form]:
    from cloister.cloud.closure_pairs import closure_pairs
    from cloister.rank.kernel_pooling import GramCounts

    occurrences = GramCounts.of_terms(scene.collection.texts.counts)
    made = {f"adaptive p = {size}": scene.closures(size) for size in sizes}
    made |= {f"fixed {one:g}": scene.fixed_closures(one) for one in thresholds}
    forms = [_Form("none, or codes opened", {}, True)]
    for name, closures in made.items():
        keys = {"pairs": closure_pairs(closures, occurrences), "closures": closures}
        forms.append(_Form(f"{name}, known", keys, True))
        if not worst_case:
            forms.append(_Form(name, keys, False))
    return forms


class _Links(NamedTuple):
    """One way of linking known documents, of so many ways; ``by`` where links may be wrong."""

    name: str
    known: dict[str, Any]
    by: Any
    n_ways: int


_WAYS: Final[dict[str, dict[str, Any]]] = {
    "none": {"linked": False},
    "by priors": {"linked": True, "wrong_links": WRONG_LINKS},
    "all right": {"linked": True},
}


def _links(
    scene: CloudScene, linked: bool, trees: tuple[int, int] | None, seed: int
) -> Callable[[], Iterator[_Links]]:
    """Return what yields the ways of linking, with fresh counts of right links each time."""
    from cloister.app.attack_tree_codes import CodedTrees, PriorLinks, prior_columns

    names = list(_WAYS) if trees else ["all right" if linked else "none"]
    priors = scene.collection.priors
    if trees:
        n_trees, n_queries = trees
        grown = CodedTrees(scene.collection, "T1", n_queries, seed).grow(n_trees)
        columns, places = prior_columns(grown, priors, seed)

    def made() -> Iterator[_Links]:
        for name in names:
            by = PriorLinks(columns, places, priors) if name == "by priors" else None
            yield _Links(name, _WAYS[name], by, len(names))

    return made


def _attacked(
    scene: CloudScene, form: _Form, links: _Links, known: Result, draws: int, seed: int
) -> Result:
    """Attack the labels of one form, with documents linked in one way."""
    from cloister.adversary.leakage_abuse import AbuseSettings, abuse_leakage

    found = abuse_leakage(
        scene.collection.texts.counts,
        [query.terms for query in scene.collection.queries],
        AbuseSettings(**known, closures_known=form.closures_known),
        **form.keys,
        link=links.by,
        n_draws=draws,
        seed=seed,
    ).as_dict()
    del found["settings"]
    right = 1.0 if known["linked"] else None
    return {
        "protection": form.name,
        "links": links.name,
        "linked_right": links.by.right_share if links.by else right,
        "share": known["share"],
        **found,
    }
