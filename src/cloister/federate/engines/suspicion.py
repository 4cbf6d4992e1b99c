"""Who may have spoilt rounds: a sum over several sites does not say which of them lied.

A spoilt sum clears every suspect that was not in it, if one site alone misbehaves. A sum that
counts clears nobody: the site that misbehaves may have held still. So each round leaves one suspect
out, and every spoilt sum after the first clears at least one. The last suspect left is named. If
one site alone misbehaves, whatever it does and when, no honest site is named, and it spoils at most
as many sums as there were sites in the first one. If several take turns, they can clear each other
and get an honest site named: sums that are spoilt without the named site show it.

A site that cannot read another's shares says so: one of the two lies. These are the suspects then,
among those that there were. A site that is proven to have sent what no honest site sends is named
at once. A site that drops out late proves nothing: it may have been killed. With privacy, attempts
that fail after sites have released are counted, and training stops after as many as after spoilt
sums.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple, Self

from cloister.core.errors import NotFound

__all__ = ["Suspicion"]

TURN: Final = 3  # rounds that count before another suspect is left out


class Suspicion(NamedTuple):
    """What is known of sites that spoil sums; nothing before the first spoilt sum.

    Parameters
    ----------
    suspects
        Sites that were in every spoilt sum, with the number of rounds that counted without them.
    left_out
        The suspect whom the next round leaves out; empty for nobody.
    n_in_turn
        Rounds that counted since it was left out.
    named
        Sites that no round asks any more, until an operator readmits them.
    n_spoilt
        Spoilt sums, and attempts that failed after sites had released, since training began or an
        operator let it go on.
    stopped
        Why training waits for an operator; empty where it does not.
    late
        How often each site dropped out of an attempt that failed after others had released.

    Examples
    --------
    >>> began = Suspicion().after_spoilt(["a", "b", "c"])
    >>> began.left_out, began.after_spoilt(["b", "c"]).left_out
    ('a', 'b')
    >>> began.after_spoilt(["b", "c"]).after_spoilt(["a", "c"]).named
    ('c',)
    """

    suspects: dict[str, int] = {}  # noqa: RUF012 - never changed in place
    left_out: str = ""
    n_in_turn: int = 0
    named: tuple[str, ...] = ()
    n_spoilt: int = 0
    stopped: str = ""
    late: dict[str, int] = {}  # noqa: RUF012 - never changed in place

    def after_spoilt(self, sites: Collection[str]) -> Self:
        """Return what is known after a spoilt sum over these sites."""
        return self.one_more().one_of(sites)

    def one_more(self, late: Collection[str] = ()) -> Self:
        """Return this after one more round was spoilt, from which these sites dropped out late."""
        times = self.late | {site: self.late.get(site, 0) + 1 for site in late}
        return self._replace(n_spoilt=self.n_spoilt + 1, late=times)

    def one_of(self, sites: Collection[str]) -> Self:
        """Return what is known if one of these sites misbehaves."""
        left = {site: n for site, n in self.suspects.items() if site in sites}
        # None left: several sites misbehave, and what cleared a site before clears it no more.
        return self._among(left or dict.fromkeys(sorted(sites), 0))

    def accused(self, pairs: Collection[frozenset[str]]) -> Self:
        """Return what is known if one of each pair lies: who accuses, and who is accused.

        Examples
        --------
        >>> Suspicion().accused([frozenset("ac"), frozenset("bc")]).named
        ('c',)
        """
        in_all = frozenset.intersection(*pairs)
        return self.one_of(in_all or frozenset.union(*pairs))

    def after_counted(self, sites: Collection[str]) -> Self:
        """Return what is known after a round over these sites that counted."""
        if not self.suspects:
            return self
        suspects = {site: n + (site not in sites) for site, n in self.suspects.items()}
        n_in_turn = self.n_in_turn + (self.left_out not in sites)
        if self.left_out and n_in_turn >= TURN:
            least = min(suspects, key=lambda site: suspects[site])
            return self._replace(suspects=suspects, left_out=least, n_in_turn=0)
        return self._replace(suspects=suspects, n_in_turn=n_in_turn)

    def excluded(self, site: str) -> Self:
        """Return this with a site named by an operator; nobody is a suspect any more."""
        named = tuple(sorted({*self.named, site}))
        return self._replace(suspects={}, left_out="", n_in_turn=0, named=named)

    def readmitted(self, site: str) -> Self:
        """Return this without a site that was named or suspected; `NotFound` if it was neither."""
        if site not in self.named and site not in self.suspects:
            raise NotFound("this site is neither named nor suspected", where=site)
        named = tuple(one for one in self.named if one != site)
        suspects = {one: n for one, n in self.suspects.items() if one != site}
        return self._replace(named=named)._among(suspects)

    def without_leaving_out(self, why: str) -> Self:
        """Return this where no suspect can be missed: training stops, and says why."""
        return self._replace(left_out="", n_in_turn=0, stopped=why)

    def resumed(self) -> Self:
        """Return this after an operator let training go on: suspects stay what they are."""
        return self._replace(n_spoilt=0, stopped="")

    def _among(self, suspects: dict[str, int]) -> Self:
        """Name the only suspect, or leave out the one without whom the most rounds counted."""
        if len(suspects) == 1:
            return self.excluded(*suspects)
        most = max(suspects, key=lambda site: suspects[site], default="")
        return self._replace(suspects=suspects, left_out=most, n_in_turn=0)

    def told(self) -> str:
        """Say in a few words what happens next; nothing where nobody is suspected."""
        parts = [f"{', '.join(self.named)} left out until readmitted"] if self.named else []
        if self.left_out:
            parts.append(f"the next round leaves out {self.left_out}, a suspect")
        if self.late:
            times = ", ".join(f"{site} {n}" for site, n in sorted(self.late.items()))
            parts.append(f"dropped out late, times: {times}")
        if self.stopped:
            parts.append(f"training is stopped ({self.stopped}): exclude a site, or resume")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return this as a JSON object."""
        return self._asdict() | {"named": list(self.named)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        return cls(**(value | {"named": tuple(value["named"])}))
