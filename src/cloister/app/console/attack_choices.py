"""What can be chosen in the attack lab: attacks, defences and sizes, each in words."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.federate.rules import make_rule
from cloister.lab.simulation.settings import AttackName, RuleName

__all__ = ["ATTACKS", "BOUNDS", "CLICK_MODELS", "GUESSING", "RULES", "LabChoice"]

ATTACKS: Final[dict[AttackName, str]] = {
    "none": "Nobody attacks: shows what a defence costs among honest clients.",
    "poison-clicks": "Attackers click on what is irrelevant and train as everybody does.",
    "lie": "Little Is Enough: attackers send the mean of their updates, a little off it in each "
    "parameter, within what honest clients differ by.",
    "fang-krum": "Attackers move the model back, against the mean update, as far as Krum would "
    "still choose their update.",
    "fang-trim": "Attackers draw each parameter just beyond the extremes of honest models, on the "
    "wrong side.",
    "dyn-opt": "Attackers try the server's rule out on what they know, and take the largest step "
    "against the mean that it still takes in.",
    "min-max": "Attackers step back as far as no update lies further from theirs than two known "
    "ones lie from each other.",
    "min-sum": "Attackers step back as far as the sum of squared distances from known updates is "
    "no larger than any known one's.",
    "alternating": "Attackers push against what they learnt every other round and send next to "
    "nothing in between, so that rules that watch directions see them cancel.",
    "random-walk": "Attackers push together, in a direction that is new in each round, so that "
    "nothing adds up over rounds.",
    "opposite": "Attackers send their local model turned round and doubled; they do not hide.",
    "promote-clicks": "Attackers click on target documents alone, to have them shown more.",
    "promote-model": "Attackers push the ranker along the features in which target documents "
    "differ from their competitors.",
    "promote-slowly": "Attackers add a small step towards target documents to their honest "
    "updates, below what the adaptive rule notices.",
}
RULES: Final[dict[RuleName, str]] = {
    "fedavg": "No defence: the mean of updates, weighted by interactions. One attacker moves it "
    "wherever it likes.",
    "krum": "Takes the one update that lies nearest to its neighbours and leaves out all others, "
    "which costs much where all are honest.",
    "multi-krum": "The mean of as many updates as there are honest clients, those with the best "
    "Krum scores.",
    "trimmed-mean": "The mean of each parameter without as many of its largest and of its smallest "
    "values as attackers are expected.",
    "median": "The median of each parameter.",
    "bulyan": "Krum chooses again and again, then values near the median are averaged.",
    "norm-bounding": "The mean of updates, each scaled down to the round's median length. It "
    "limits how far each attacker pulls, and keeps nobody out.",
    "fldetector": "Leaves out clients whose updates keep missing what their last ones predict.",
    "adaptive": "The mean of all, until somebody is found to push elsewhere over many rounds; who "
    "is found is suspended, and what it gave lately is taken out of the model again.",
}
BOUNDS: Final[dict[RuleName, str]] = {
    "fedavg": "tolerates no attacker",
    "krum": "tolerates m attackers among n clients where n is at least 2m + 3; the proof is for "
    "squared distances, here distances are summed as in the thesis",
    "multi-krum": "as Krum, taken over without a proof",
    "trimmed-mean": "tolerates fewer than half: each parameter then lies between honest values",
    "median": "tolerates fewer than half: each parameter then lies between honest values",
    "bulyan": "tolerates m attackers among n clients where n is at least 4m + 3, and has no "
    "outcome where n is not above 4m",
    "norm-bounding": "tolerates none in the sense of the others",
    "fldetector": "tolerates none by proof, and judges nobody in the first rounds",
    "adaptive": "fewer than half, if they push elsewhere steadily: measured, not proven",
}
# Defences whose outcome depends on how many attackers they are told to expect.
GUESSING: Final[tuple[RuleName, ...]] = ("krum", "multi-krum", "trimmed-mean", "bulyan")
CLICK_MODELS: Final = {
    "perfect": "perfect: clicks on all that is relevant, and on nothing else",
    "navigational": "navigational: clicks on the most relevant, and leaves soon",
    "informational": "informational: clicks on much, also on what is hardly relevant",
}

FEWEST_CLIENTS, MOST_CLIENTS = 10, 50
FEWEST_ROUNDS, MOST_ROUNDS = 20, 1000
MOST_SHARE: Final = 40  # per cent of the clients
MOST_EXPECTED: Final = MOST_CLIENTS * MOST_SHARE // 100
MOST_SEED: Final = 2**31 - 1


class LabChoice(Settings):
    """What somebody chose.

    Parameters
    ----------
    attack, rule, click_model
        By name.
    share
        Of the clients that attack, in per cent.
    expected
        How many attackers the defence is told to expect; as many as attack, unless given.
    clients, rounds, seed
        Of the simulation.

    Examples
    --------
    >>> LabChoice(attack="lie", share=30, clients=25).n_attackers
    8
    >>> LabChoice(rule="krum", share=40, clients=10).within_bound
    False
    """

    attack: AttackName = "poison-clicks"
    rule: RuleName = "adaptive"
    share: int = Field(default=30, ge=0, le=MOST_SHARE)
    expected: int | None = Field(default=None, ge=0, le=MOST_EXPECTED)
    click_model: str = "navigational"
    clients: int = Field(default=30, ge=FEWEST_CLIENTS, le=MOST_CLIENTS)
    rounds: int = Field(default=300, ge=FEWEST_ROUNDS, le=MOST_ROUNDS)
    seed: int = Field(default=1, ge=0, le=MOST_SEED)

    @model_validator(mode="after")
    def _known_clicks(self) -> Self:
        if self.click_model not in CLICK_MODELS:
            raise ValueError(f"the click model is one of: {', '.join(CLICK_MODELS)}")
        return self

    @property
    def n_attackers(self) -> int:
        """How many clients attack: at least one where a share is given."""
        if self.attack == "none" or not self.share:
            return 0
        return max(1, round(self.clients * self.share / 100))

    @property
    def n_expected(self) -> int:
        """How many attackers the defence expects, with or without an attack."""
        return self.n_attackers if self.expected is None else self.expected

    @property
    def too_few_expected(self) -> bool:
        """Whether more attack than a defence that goes by a number was told."""
        return self.rule in GUESSING and self.n_expected < self.n_attackers

    @property
    def most_attackers(self) -> int:
        """How many attackers the rule tolerates."""
        return make_rule(self.rule).most_attackers(self.clients)

    @property
    def within_bound(self) -> bool:
        """Whether the rule tolerates so many."""
        return self.n_attackers <= self.most_attackers

    def check(self) -> None:
        """Raise where the rule has no outcome at all if it expects so many attackers."""
        make_rule(self.rule, n_attackers=self.n_expected, beyond="mark").check(self.clients)
