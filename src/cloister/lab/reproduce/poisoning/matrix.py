"""Attack x defence x share of attackers x click model: what of nDCG@10 is lost."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cloister.federate.rules import make_rule
from cloister.lab.reproduce.claim import Below, Claim, Estimate
from cloister.lab.reproduce.collection import Collections
from cloister.lab.reproduce.evidence import Evidence, paired
from cloister.lab.reproduce.figure import Figure, Part, Size
from cloister.lab.reproduce.foltr.setting import features_worlds, mq2008
from cloister.lab.reproduce.poisoning.contrast import Cell
from cloister.lab.reproduce.poisoning.setting import (
    BROKEN,
    CLICKS,
    MOST,
    N_CLIENTS,
    PAPER_SETTING,
    SHARES,
    attacked,
    honest,
    part_of,
    system,
)
from cloister.lab.simulation.heat_map import HeatMap, heat_map_png
from cloister.lab.simulation.settings import RuleName

__all__ = ["MATRIX_ATTACKS", "is_beyond", "losses", "matrix"]

MATRIX_ATTACKS: Final = (
    "poison-clicks",
    "lie",
    "fang-krum",
    "fang-trim",
    "min-max",
    "dyn-opt",
    "alternating",
)
RULES: Final[tuple[str, ...]] = get_args(RuleName)
N_REPEATS: Final = 2
NOTE: Final = (
    "hatched: more attackers than the rule declares it withstands; grey: no outcome, or not run"
)


class Loss(NamedTuple):
    """One cell of the matrix: who, and what of nDCG@10 was lost on the way to FedAvg's."""

    click: str
    rule: str
    attack: str
    attackers: int
    ndcg: float
    lost: float
    beyond: bool


def matrix(size: Size, data: Collections) -> Figure:
    """Return the matrix, on MQ2008 and on features worlds."""
    systems = list(_systems())
    rounds = size.of(quick=500, full=3_000)
    parts = tuple(
        part_of(ground, systems, rounds=rounds, repeats=N_REPEATS, evaluate_every=rounds)
        for ground in (mq2008(data), features_worlds())
    )
    claims = [
        _worst(part.name, rule, m, click)
        for part in parts
        for click in CLICKS
        for rule in RULES
        for m in _shares(rule)
    ]
    return Figure(
        "matrix",
        "nDCG@10 lost: attack x defence x share of attackers x click model",
        PAPER_SETTING,
        parts,
        tuple(claims),
        "What is lost is honest FedAvg less the attacked system. Rules are told how many attackers "
        "there are; model attacks have full knowledge. Means of a row are losses to "
        f"{', '.join(MATRIX_ATTACKS)}, in this order; ours is the largest of them, chosen by what "
        "came out, so that its interval is too narrow. Every cell stands in the tables (CSV).",
        measures=(),
        pictures=lambda evidence: _pictures(parts, evidence),
    )


def _shares(rule: str) -> tuple[int, ...]:
    return tuple(m for m in SHARES if m <= MOST.get(rule, N_CLIENTS))


def _systems() -> Iterator[dict[str, Any]]:
    for rule in RULES:
        yield system(rule)
        for attack in MATRIX_ATTACKS:
            for m in _shares(rule):
                yield system(rule, attack, m)


def is_beyond(rule: str, attackers: int, n_clients: int = N_CLIENTS) -> bool:
    """Say whether a rule that has a bound is beyond it.

    Rules that tolerate nobody by proof have no bound that could be told from another.

    Examples
    --------
    >>> is_beyond("krum", 3), is_beyond("krum", 4), is_beyond("fedavg", 4)
    (False, True, False)
    """
    most = make_rule(rule).most_attackers(n_clients)
    return 0 < most < attackers


def _worst(part: str, rule: str, m: int, click: str) -> Claim:
    """Return a row for a defence: what each attack costs, and the worst."""

    def estimate(evidence: Evidence) -> Estimate:
        whole = Cell(part, honest("fedavg"), click).sample(evidence)
        found = {
            attack: paired(
                whole, Cell(part, attacked(rule, attack, m), click).sample(evidence), ("a", "b")
            )
            for attack in MATRIX_ATTACKS
        }
        lost = {attack: one.value for attack, one in found.items() if one.value is not None}
        if len(lost) < len(found):
            return Estimate(None, note="not every attack has been run")
        worst = max(lost, key=lambda attack: lost[attack])
        note = f"worst: {worst}{', beyond its bound' if is_beyond(rule, m) else ''}"
        return found[worst]._replace(means=lost, note=note)

    return Claim(
        f"no attack of the matrix costs {BROKEN} of nDCG@10 or more",
        f"{rule}, {m} of {N_CLIENTS} attack, {click}: nDCG@10 lost to the worst attack",
        (part,),
        Below(BROKEN),
        estimate,
        beyond=True,
    )


def losses(part: str, evidence: Evidence) -> list[Loss]:
    """Return every cell of a part that has been run; nobody attacks where attackers are 0."""
    cells = []
    for click in CLICKS:
        whole = Cell(part, honest("fedavg"), click).sample(evidence)
        for rule in RULES:
            named = [("none", 0, honest(rule))]
            named += [(a, m, attacked(rule, a, m)) for a in MATRIX_ATTACKS for m in _shares(rule)]
            for attack, m, name in named:
                lost = paired(whole, Cell(part, name, click).sample(evidence), ("whole", "left"))
                if lost.value is not None:
                    cell = (lost.means["left"], lost.value, is_beyond(rule, m))
                    cells.append(Loss(click, rule, attack, m, *cell))
    return cells


def _pictures(parts: tuple[Part, ...], evidence: Evidence) -> dict[str, bytes]:
    """Draw a heat map for each collection and click model, and write all cells as CSV."""
    files: dict[str, bytes] = {}
    for part in parts:
        found = losses(part.name, evidence)
        name = part.name.lower().replace(" ", "-")
        if found:
            files[f"{name}.csv"] = _table(found)
        for click in CLICKS:
            cells = [cell for cell in found if cell.click == click]
            if cells:
                files[f"{name}-{click}.png"] = heat_map_png(_heat_map(part, click, cells))
    return files


def _table(found: list[Loss]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Loss._fields)
    for cell in found:
        writer.writerow([f"{x:.4f}" if isinstance(x, float) else x for x in cell])
    return stream.getvalue().encode()


def _heat_map(part: Part, click: str, cells: list[Loss]) -> HeatMap:
    columns = [("none", 0), *((a, m) for a in MATRIX_ATTACKS for m in SHARES)]
    values: NDArray[np.float64] = np.full((len(RULES), len(columns)), np.nan)
    marked: NDArray[np.bool_] = np.zeros(values.shape, np.bool_)
    for cell in cells:
        place = RULES.index(cell.rule), columns.index((cell.attack, cell.attackers))
        values[place], marked[place] = cell.lost, cell.beyond
    shares = tuple(f"{100 * m // N_CLIENTS}" for m in SHARES)
    rounds = int(part.experiment.base["rounds"])
    return HeatMap(
        title=f"{part.name}, {click} clicks, {rounds:,} rounds, by % of attackers",
        label="nDCG@10 lost",
        rows=RULES,
        groups=(("nobody", ("0",)), *((attack, shares) for attack in MATRIX_ATTACKS)),
        values=values,
        marked=marked,
        top=0.4,
        note=NOTE,
    )
