"""Everything that decides one simulated training run."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from cloister.core.settings import Settings
from cloister.data.clicks import StopRule
from cloister.data.normalise import Normalisation
from cloister.data.worlds.address import is_world
from cloister.federate.population import PAGE_LENGTH, Precision
from cloister.measure.mean import NothingRelevant

__all__ = ["AttackName", "Method", "Partition", "RuleName", "SimulationSettings"]

Method = Literal["fpdgd", "pdgd", "batch-pdgd", "es", "clustered"]
Partition = Literal[
    "iid",
    "iid-disjoint",
    "intents",
    "intents-shuffled",
    "intents-merged",
    "labels",
    "clicks",
    "clicks-mixed",
]

RuleName = Literal[
    "fedavg",
    "krum",
    "multi-krum",
    "trimmed-mean",
    "median",
    "bulyan",
    "norm-bounding",
    "fldetector",
    "adaptive",
]
AttackName = Literal[
    "none",
    "poison-clicks",
    "lie",
    "fang-krum",
    "fang-trim",
    "dyn-opt",
    "min-max",
    "min-sum",
    "alternating",
    "random-walk",
    "opposite",
    "promote-clicks",
    "promote-model",
    "promote-slowly",
]

LARGEST: Final = 1e9  # of what multiplies parameters, whose squares have single precision
_DATA_ATTACKS: Final = ("none", "poison-clicks", "promote-clicks")
_HIDDEN: Final = {"es": 10}  # hidden units where none are given; 64 elsewhere
_LEARNING_RATE: Final = {"es": 0.001}  # 0.1 elsewhere


class SimulationSettings(Settings):
    """Everything that decides one run.

    Two runs with equal settings give equal results, bit by bit, for any number of threads and in
    any process; only another kind of processor may change last bits
    (:func:`cloister.core.kernel.summing_kernel`).

    Parameters
    ----------
    data
        Address of the training data: a LETOR file or folder, or a built-in world.
    test
        Address of the test data; the fold's own test part unless given.
    fold
        Which fold, from 1.
    normalise, null
        How features are read.
    method
        ``fpdgd``; ``pdgd`` without a federation, updated after each interaction; ``batch-pdgd``
        without a federation, one update a round; ``es``; or ``clustered``, FPDGD with one ranker
        for each group of like clients. Without a federation a round has as many interactions as
        with one: clients times queries a round.
    ranker, hidden, activation
        The ranker; 64 hidden units unless given, 10 for ES.
    click_model, stop
        Who clicks, and when a cascade's user may leave.
    page_length
        Documents shown for a query; nDCG is always that of the first ten.
    partition
        How data and habits are divided among clients: alike (``iid``, ``iid-disjoint``), by
        document preference (``intents``; ``intents-shuffled`` as in the thesis, and its IID
        counterpart ``intents-merged``), by label (``labels``), by click model (``clicks``, and its
        counterpart ``clicks-mixed``).
    intents
        Which of the collection's intents are used, from 0; all unless given.
    labels_per_client
        The thesis's #R, for the partition ``labels``.
    click_models
        For the partitions ``clicks`` and ``clicks-mixed``.
    quantities
        Queries a round of each client in turn (type 4); may go with any partition.
    clients, participants, queries_per_round, rounds
        Sizes; all clients take part in each round unless ``participants`` is given.
    learning_rate, decay, negatives, rho_over
        As in :class:`cloister.rank.pdgd.PdgdSettings`; the rate is 0.1 unless given, 0.001 for ES.
    proximal
        FedProx's mu.
    private_layer
        FedPer.
    cluster_by, first_test, certainty, most_groups
        For the method ``clustered``: whether a client's wish must show across its ``queries``, or
        across ``rounds`` only, and when clients are told apart
        (:class:`cloister.federate.clustered.ClusteringSettings`).
    share_data, warm_up_rounds
        Data sharing: the share of queries given to all clients, and rounds of training on them
        before the federation begins.
    epsilon, delta
        What the whole training may reveal of one user; noise is chosen for it, and participants
        are drawn by a coin each (:class:`cloister.federate.private_fpdgd.PrivateTraining`). No
        protection unless an epsilon is given.
    clip_norm, mechanism, server_rate, average_last
        Of private training: the longest update of a client, independent noise a round or DP-FTRL's
        tree, what the mean update is multiplied by, and how many last models are averaged.
    dropouts, colluders, secure_aggregation
        Of private training: noise in shares that tolerate so many dropouts and colluders a round,
        and sums that are truly formed by secure aggregation (slow).
    paper_epsilon, paper_sensitivity, paper_clip
        The thesis's noise, which does not give what it claims; none unless an epsilon is given
        (:class:`cloister.federate.paper_laplace.PaperLaplaceNoise`).
    sigma, reward, keep_probability, antithetic, beta1, beta2, adam_epsilon, ndcg_levels
        Of evolution strategies (:class:`cloister.rank.evolution_strategies.EvolutionSettings`).
    precision
        Of stored features: ``half`` for linear rankers only.
    evaluate_every
        Rounds between offline measurements; the last round is always measured.
    evaluate_on
        ``test``, or ``train`` where a collection has no test part (thesis section 4.3).
    nothing_relevant
        What becomes of test queries with nothing relevant.
    rule, expected_attackers
        How updates are added up, and how many attackers the rule is told to expect in a round;
        about as many as there are unless given. Rounds beyond a rule's bound are run and counted
        where the rule has an outcome for them.
    group_size
        For the rule ``adaptive``: of how many clients at least the server sees only their sum.
    attack, attackers, knowledge
        What malicious clients do (:mod:`cloister.adversary.poisoning`), how many of the last
        clients they are, and whether they know the updates of all clients or only their own.
    on_rounds, off_rounds
        For attacks on what is sent: so many rounds of attack, then so many of good behaviour;
        always, unless ``off_rounds`` is given.
    target_feature
        For the attacks that promote: the documents of each query that are highest in this feature,
        from 0, are promoted.
    seed
        Decides everything that is drawn at random.
    """

    data: str
    test: str = ""
    fold: int = Field(default=1, ge=1)
    normalise: Normalisation = "query_minmax"
    null: Literal["nan", "zero"] = "zero"
    method: Method = "fpdgd"
    ranker: Literal["linear", "mlp"] = "linear"
    hidden: int | None = Field(default=None, ge=1)
    activation: Literal["relu", "sigmoid"] = "relu"
    click_model: str = "perfect"
    stop: StopRule = "after_click"
    page_length: int = Field(default=PAGE_LENGTH, ge=1, le=1000)
    partition: Partition = "iid"
    intents: tuple[int, ...] = ()
    labels_per_client: int = Field(default=1, ge=1)
    click_models: tuple[str, ...] = ("perfect", "navigational", "informational")
    quantities: tuple[int, ...] = ()
    clients: int = Field(default=1000, ge=1)
    participants: int | None = Field(default=None, ge=1)
    queries_per_round: int = Field(default=4, ge=1)
    rounds: int = Field(default=100, ge=1)
    learning_rate: float | None = Field(default=None, gt=0)
    decay: float = Field(default=1.0, gt=0, le=1)
    negatives: Literal["to_last_click", "whole_page"] = "to_last_click"
    rho_over: Literal["candidates", "page"] = "candidates"
    proximal: float = Field(default=0.0, ge=0)
    private_layer: bool = False
    cluster_by: Literal["queries", "rounds"] = "queries"
    first_test: int = Field(default=40, ge=1)
    certainty: float = Field(default=5.0, gt=0)
    most_groups: int = Field(default=10, ge=2)
    share_data: float = Field(default=0.0, ge=0, le=1)
    warm_up_rounds: int = Field(default=0, ge=0)
    epsilon: float | None = Field(default=None, gt=0)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    clip_norm: float = Field(default=0.3, gt=0, le=LARGEST)
    mechanism: Literal["gaussian", "tree"] = "gaussian"
    server_rate: float = Field(default=1.0, gt=0, le=LARGEST)
    average_last: int = Field(default=1, ge=1)
    dropouts: int = Field(default=0, ge=0)
    colluders: int = Field(default=0, ge=0)
    secure_aggregation: bool = False
    paper_epsilon: float | None = Field(default=None, ge=1 / LARGEST)
    paper_sensitivity: float = Field(default=3.0, gt=0, le=LARGEST)
    paper_clip: Literal["half", "whole"] = "half"
    sigma: float = Field(default=0.01, gt=0, le=LARGEST)
    reward: Literal["max_rr", "ndcg"] = "max_rr"
    keep_probability: float = Field(default=1.0, gt=0, le=1)
    antithetic: bool = True
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, gt=0)
    ndcg_levels: int = Field(default=11, ge=2, le=1001)
    precision: Precision = "single"
    evaluate_every: int = Field(default=1, ge=1)
    evaluate_on: Literal["test", "train"] = "test"
    nothing_relevant: NothingRelevant = "skip"
    rule: RuleName = "fedavg"
    expected_attackers: int | None = Field(default=None, ge=0)
    group_size: int = Field(default=1, ge=1)
    attack: AttackName = "none"
    attackers: int = Field(default=0, ge=0)
    knowledge: Literal["partial", "full"] = "partial"
    on_rounds: int = Field(default=50, ge=1)
    off_rounds: int = Field(default=0, ge=0)
    target_feature: int = Field(default=0, ge=0)
    seed: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.private_layer and (self.method != "fpdgd" or self.ranker != "mlp"):
            raise ValueError("private_layer (FedPer) needs the method fpdgd and the ranker mlp")
        if self.proximal and self.method != "fpdgd":
            raise ValueError("proximal (FedProx) needs the method fpdgd")
        if self.paper_epsilon and self.method != "fpdgd":
            raise ValueError("paper_epsilon needs the method fpdgd")
        if self.epsilon and (self.method != "fpdgd" or self.private_layer or self.paper_epsilon):
            raise ValueError("epsilon needs the method fpdgd, no private layer, no paper_epsilon")
        if self.epsilon and (self.share_data or self.normalise.startswith("global")):
            raise ValueError(
                "epsilon covers what clients keep: share_data gives queries away, and a global "
                "normalisation looks at everybody's"
            )
        if self.epsilon is None and (self.secure_aggregation or self.dropouts or self.colluders):
            raise ValueError("secure_aggregation, dropouts and colluders go with epsilon")
        if self.keep_probability < 1 and self.method != "es":
            raise ValueError("keep_probability protects rewards of the method es only")
        if self.precision == "half" and self.ranker == "mlp":
            raise ValueError("half precision is for the linear ranker")
        if is_world(self.data) and self.fold != 1:
            raise ValueError("a world has one fold; seed= in its address makes another world")
        if self.test and self.partition.startswith("intents"):
            raise ValueError("test data of its own does not go with intents: use folds")
        if self.warm_up_rounds and self.method == "es":
            raise ValueError("evolution strategies begin from zero: no warm_up_rounds")
        if self.warm_up_rounds and not self.share_data:
            raise ValueError("warm_up_rounds trains on shared data: give share_data")
        if self.participants is not None and self.participants > self.clients:
            raise ValueError(f"there are {self.clients} clients, fewer than participants")
        return self

    @model_validator(mode="after")
    def _attack_fits(self) -> Self:
        if (self.attack == "none") != (self.attackers == 0):
            raise ValueError("an attack needs attackers, and attackers an attack")
        if self.attackers >= self.clients:
            raise ValueError(f"of {self.clients} clients at least one must be honest")
        if self.attackers and self.method in ("pdgd", "batch-pdgd"):
            raise ValueError("without a federation nobody can attack it")
        if self.off_rounds and self.attack in _DATA_ATTACKS:
            raise ValueError(
                "off_rounds is for attacks on what is sent: data are poisoned for good"
            )
        if self.group_size > 1 and self.rule != "adaptive":
            raise ValueError("group_size is for the rule adaptive")
        if self.group_size > 1 and 2 * self.group_size > (self.participants or self.clients):
            raise ValueError("group_size must leave at least two groups in a round")
        noisy = self.epsilon or self.paper_epsilon or self.private_layer
        if self.sees_updates and (self.method != "fpdgd" or noisy):
            raise ValueError(
                "rules, and attacks on what is sent, need the method fpdgd without noise and "
                "private layers: the server must see updates"
            )
        return self

    @property
    def sees_updates(self) -> bool:
        """Whether the server, or an attacker, works on single updates."""
        return self.rule != "fedavg" or self.attack not in _DATA_ATTACKS

    @property
    def attacking_clients(self) -> range:
        """The numbers of the malicious clients: the last ones."""
        return range(self.clients - self.attackers, self.clients)

    @property
    def n_hidden(self) -> int:
        """Hidden units of an MLP."""
        return self.hidden or _HIDDEN.get(self.method, 64)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.learning_rate or _LEARNING_RATE.get(self.method, 0.1)
