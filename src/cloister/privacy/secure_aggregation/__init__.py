"""Secure aggregation: the server learns a sum over clients, and no client's vector.

Bonawitz et al. (2017), "Practical Secure Aggregation for Privacy-Preserving Machine Learning", in
the version against a server that lies, on the sparse graph of Bell et al. (2020).
"""

from __future__ import annotations

from cloister.privacy.secure_aggregation.client import AggregationClient, Stage
from cloister.privacy.secure_aggregation.errors import AggregationFailed
from cloister.privacy.secure_aggregation.fixed_point import FixedPoint
from cloister.privacy.secure_aggregation.in_process import run_round
from cloister.privacy.secure_aggregation.server import Aggregate, AggregationServer
from cloister.privacy.secure_aggregation.session import Session

__all__ = [
    "Aggregate",
    "AggregationClient",
    "AggregationFailed",
    "AggregationServer",
    "FixedPoint",
    "Session",
    "Stage",
    "run_round",
]
