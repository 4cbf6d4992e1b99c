"""What must hold after a soak, whatever was killed: each violated invariant is one line of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from cloister.lab.bench.soak_audit import Account, CoordinatorAccount, PageEnd
from cloister.lab.bench.soak_faults import SETTLED_S, Away
from cloister.lab.bench.soak_users import Acknowledged, Failed
from cloister.lab.bench.soak_watch import Taken

__all__ = ["PageSums", "as_figures", "growing", "page_sums", "unexplained", "violations"]

MOST_GROWTH_MB: Final = 64.0  # of one life of a service, after it was warm
MOST_FILES: Final = 64


class PageSums(NamedTuple):
    """Where all pages went.

    Parameters
    ----------
    shown
        All there ever were.
    counted
        In a round.
    waiting
        For a round.
    of_trials
        Shown in a trial: voted on, or too late for that.
    too_old
        Deleted before any round learnt from them.
    lost
        Deleted for a round that did not count them.
    """

    shown: int
    counted: int
    waiting: int
    of_trials: int
    too_old: int
    lost: int

    @property
    def balanced(self) -> bool:
        """Whether each page is somewhere, once."""
        return self.shown == sum(self[1:])


def page_sums(
    nodes: Mapping[str, Account], coordinator: CoordinatorAccount, *, keep_s: float
) -> PageSums:
    """Add up where pages went, by the nodes' accounts and the coordinator's rounds."""
    places = dict.fromkeys(PageSums._fields, 0)
    for node, account in nodes.items():
        places["shown"] += len(account.shown)
        for page in account.gone.values():
            places[_place(node, page, coordinator, keep_s=keep_s, is_gone=True)] += 1
        for page in account.left.values():
            places[_place(node, page, coordinator, keep_s=keep_s, is_gone=False)] += 1
    return PageSums(**places)


def _place(
    node: str, page: PageEnd, coordinator: CoordinatorAccount, *, keep_s: float, is_gone: bool
) -> str:
    if page.trial:
        return "of_trials"
    if page.taken_by and node in coordinator.sites.get(page.taken_round, ()):
        return "counted"
    if not is_gone:
        return "waiting"
    return "too_old" if page.age_s >= keep_s else "lost"


def violations(
    nodes: Mapping[str, Account],
    coordinator: CoordinatorAccount,
    acknowledged: Iterable[Acknowledged],
    sums: PageSums,
) -> list[str]:
    """Return what does not hold; nothing, if all is well."""
    found = []
    if not sums.balanced or sums.lost:
        found.append(f"pages are not each in one place: {sums}")
    found += _wrong_rounds(nodes, coordinator)
    found += _lost_clicks(nodes, acknowledged)
    found += _wrong_ledgers(nodes, coordinator)
    return found


def _wrong_rounds(nodes: Mapping[str, Account], coordinator: CoordinatorAccount) -> Iterator[str]:
    """Compare the interactions in each decoded sum with the pages that were taken for the round."""
    if sorted(coordinator.sites) != list(range(len(coordinator.sites))):
        yield "a round is missing"
    for number, told in coordinator.n_interactions.items():
        n_pages = sum(
            page.taken_round == number and bool(page.taken_by)
            for site in coordinator.sites.get(number, ())
            for page in (*nodes[site].gone.values(), *nodes[site].left.values())
        )
        if n_pages != told:
            yield f"round {number} counted {told} interactions and used up {n_pages} pages"


def _lost_clicks(
    nodes: Mapping[str, Account], acknowledged: Iterable[Acknowledged]
) -> Iterator[str]:
    """See that no page that a user saw, and no click that was confirmed, was lost."""
    for node, page_id, clicked in acknowledged:
        account = nodes[node]
        kept = account.gone.get(page_id) or account.left.get(page_id)
        if page_id not in account.shown or kept is None:
            yield f"{node} lost a page that its user saw"
        elif any(not kept.clicks[rank - 1] for rank in clicked):
            yield f"{node} lost a click that it confirmed"


def _wrong_ledgers(nodes: Mapping[str, Account], coordinator: CoordinatorAccount) -> Iterator[str]:
    wanted = tuple(f"round {number + 1}" for number in sorted(coordinator.sites))
    if coordinator.purposes != wanted:
        yield "the coordinator's ledger does not have each round once"
    for node, account in nodes.items():
        if account.n_masked != account.n_released:
            yield f"{node} masked {account.n_masked} inputs and recorded {account.n_released}"
        if sum(account.rounds_released.values()) != account.n_released:
            yield f"{node} released twice in one attempt"
        counted = [number for number, sites in coordinator.sites.items() if node in sites]
        if any(not account.rounds_released[number] for number in counted):
            yield f"a round counts {node}, whose ledger does not have it"


def unexplained(failed: Iterable[Failed], away: Iterable[Away], *, answer_s: float) -> list[Failed]:
    """Return searches that failed although the user's own node ran, and had for some time."""
    away = list(away)
    return [
        one
        for one in failed
        if not any(
            one.node == gone.service and gone.began <= one.at <= gone.ended + SETTLED_S + answer_s
            for gone in away
        )
    ]


def growing(lives: Mapping[str, Taken]) -> list[str]:
    """Return which services grew more in their longest life than any warm one should."""
    found = []
    for service, life in lives.items():
        n_files = life.last.n_files - life.first.n_files
        if life.growth_mb > MOST_GROWTH_MB:
            found.append(f"{service} grew by {life.growth_mb:.0f} MB in {life.minutes:.0f} minutes")
        if n_files > MOST_FILES:
            found.append(f"{service} opened {n_files} files more in {life.minutes:.0f} minutes")
    return found


def as_figures(sums: PageSums) -> dict[str, Any]:
    """Return the sums as figures."""
    return {f"pages_{name}": value for name, value in sums._asdict().items()}
