"""All subjects of the distinguishing attack, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cloister.adversary.audit import AuditSettings, Subject
from cloister.adversary.mechanism_audits import (
    DiscreteGaussianAudit,
    DiscreteLaplaceAudit,
    GaussianAudit,
    LaplaceAudit,
    RandomisedResponseAudit,
)
from cloister.adversary.noise_shares_audit import NoiseSharesAudit
from cloister.adversary.noisy_release_audit import NoisyReleaseAudit
from cloister.adversary.paper_laplace_audit import PaperLaplaceMessage, PaperLaplaceSum
from cloister.adversary.paper_shared_noise import PaperSharedCounters
from cloister.adversary.private_fpdgd_audit import PrivateFpdgdAudit, PrivateFpdgdTreeAudit
from cloister.core.errors import NotFound

__all__ = ["SUBJECTS", "make_subject"]

SUBJECTS: Final[Mapping[str, tuple[type[Any], Mapping[str, object]]]] = {
    "gaussian": (GaussianAudit, {}),
    "laplace": (LaplaceAudit, {}),
    "discrete-gaussian": (DiscreteGaussianAudit, {}),
    "discrete-laplace": (DiscreteLaplaceAudit, {}),
    "randomised-response": (RandomisedResponseAudit, {}),
    "noise-shares": (NoiseSharesAudit, {}),
    "private-fpdgd": (PrivateFpdgdAudit, {}),
    "private-fpdgd-tree": (PrivateFpdgdTreeAudit, {}),
    "noisy-release": (NoisyReleaseAudit, {}),
    "paper-laplace": (PaperLaplaceSum, {}),
    "paper-laplace-whole": (PaperLaplaceSum, {"clip": "whole"}),
    "paper-laplace-message": (PaperLaplaceMessage, {}),
    "paper-shared-noise": (PaperSharedCounters, {}),
}


def make_subject(name: str, settings: AuditSettings) -> Subject:
    """Return a subject, set to what the settings ask for and else to its own.

    Examples
    --------
    >>> make_subject("paper-laplace", AuditSettings(epsilon=1.2)).claimed_epsilon
    1.2
    >>> make_subject("hope", AuditSettings())
    Traceback (most recent call last):
    ...
    cloister.core.errors.NotFound: hope: no such mechanism; there are: gaussian, laplace, ...
    """
    if name not in SUBJECTS:
        raise NotFound("no such mechanism", where=name, remedy=f"there are: {', '.join(SUBJECTS)}")
    kind, own = SUBJECTS[name]
    asked = settings.model_dump(exclude_none=True)
    shared = {key: value for key, value in asked.items() if key in kind.model_fields}
    subject: Subject = kind(**shared, **own)
    return subject
