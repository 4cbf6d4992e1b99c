"""The client's ranker before anything is sealed: C-KNRM*/T on what a server can look up.

The score of a document is w . phi + b. phi has the 30 soft kernel features of C-KNRM*, obfuscated
and closed, and with trees the score of a forest on term, pair and document features.
:class:`cloister.cloud.served_features.ServedFeatures` computes phi from plain data;
:func:`cloister.cloud.private_ranker_training.fit_private_ranker` learns a ranker.

Everything here is plain and stays with the client. It tells of the collection, the queries and the
judgements that it was learnt from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field, field_validator

from cloister.cloud.adaptive_clustering import AdaptiveThresholds
from cloister.cloud.fixed_threshold_clustering import FixedThreshold
from cloister.cloud.kernel_obfuscation import KernelObfuscation
from cloister.core.errors import DataError
from cloister.core.settings import Settings
from cloister.rank.c_knrm_star import CKnrmStar
from cloister.rank.kernel_pooling import N_SOFT
from cloister.rank.kernel_ranker import KernelRanker
from cloister.rank.neural_ranker import NeuralRanker
from cloister.rank.query_length_forests import QueryLengthForests
from cloister.rank.tree_features import TreeFeatureSettings

__all__ = ["N_SOFT_FEATURES", "PrivateRanker", "PrivateRankingSettings"]

N_SOFT_FEATURES: Final = 3 * N_SOFT  # word x word, word x pair, pair x word


class PrivateRankingSettings(Settings):
    """What a server is given to rank with, and how coarse.

    Parameters
    ----------
    obfuscation
        How soft kernel values are stored.
    closures
        How words, and adjacent pairs of words, are put together; apart from each other.
    min_phrase_documents
        Two different words are a key if they are adjacent, in this order, in so many documents.
    min_pair_documents
        Two different words have proximity features if they stand in one wide window
        (`cloister.rank.proximity_features`), in either order, in so many documents.
    features
        Of the trees. A server cannot combine coded values, nor does it know sources: ``combined``
        and ``source_prior`` must be off. None: no trees.

    Examples
    --------
    >>> PrivateRankingSettings(features=TreeFeatureSettings())
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: features: combined features need ...
    """

    obfuscation: KernelObfuscation = KernelObfuscation(base=10)
    closures: AdaptiveThresholds | FixedThreshold = AdaptiveThresholds()
    min_phrase_documents: int = Field(default=5, ge=1)
    min_pair_documents: int = Field(default=3, ge=1)
    features: TreeFeatureSettings | None = TreeFeatureSettings(combined=False)

    @field_validator("closures", mode="before")
    @classmethod
    def _one_of_two(cls, given: Any) -> Any:
        """Read either kind from its fields; a union would try both, and report the wrong one."""
        if not isinstance(given, Mapping):
            return given
        fixed = not {"threshold", "linkage"}.isdisjoint(given)
        return FixedThreshold(**given) if fixed else AdaptiveThresholds(**given)

    @field_validator("features")
    @classmethod
    def _can_be_looked_up(cls, given: TreeFeatureSettings | None) -> TreeFeatureSettings | None:
        if given is not None and given.combined:
            raise ValueError("combined features need arithmetic on plain values; switch them off")
        if given is not None and given.source_prior:
            raise ValueError("the index has no sources; switch source_prior off")
        return given


@dataclass(frozen=True, eq=False)
class PrivateRanker:
    """A C-KNRM*/T of the client, plain.

    Parameters
    ----------
    neural
        A trained C-KNRM* whose soft kernels leave exact matches out. Its embedding and filters are
        used, its last layer is not.
    layer
        Takes 30 soft features and, with trees, their signal as the 31st.
    forests
        Give that signal; None where the settings have no tree features.
    settings
        What the server is given.

    Raises
    ------
    DataError
        If the parts do not fit together, or exact matches are not masked.
    """

    neural: NeuralRanker
    layer: KernelRanker
    forests: QueryLengthForests | None
    settings: PrivateRankingSettings

    def __post_init__(self) -> None:
        model = self.neural.model
        if not isinstance(model, CKnrmStar):
            raise DataError(f"not a C-KNRM* but {model.kind}", where="PrivateRanker.neural")
        if not model.settings.mask_exact:
            raise DataError(
                "soft kernels with exact matches tell term frequencies",
                where="PrivateRanker.neural",
                remedy="train a C-KNRM* with mask_exact on",
            )
        features = self.settings.features
        if (self.forests is None) != (features is None):
            raise DataError("forests and tree features go together", where="PrivateRanker")
        if (
            self.forests is not None
            and features is not None
            and self.forests.n_features != len(features.features)
        ):
            raise DataError("the forests are of other features", where="PrivateRanker.forests")
        if self.layer.n_features != self.n_features:
            raise DataError(
                f"{self.n_features} weights are needed (given: {self.layer.n_features})",
                where="PrivateRanker.layer",
            )

    @property
    def n_features(self) -> int:
        """Numbers that the last layer takes: 30, or 31 with trees."""
        return N_SOFT_FEATURES + (self.forests is not None)
