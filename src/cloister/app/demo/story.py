"""The steps of the demo, in order. Every figure is measured in the run that shows it."""

from __future__ import annotations

from typing import Final

from cloister.app.demo.attacks import forget_client, poison
from cloister.app.demo.cloud import rank_privately
from cloister.app.demo.federation_steps import (
    index_records,
    learn_together,
    read_ledgers,
    search_as_three,
    start_services,
    vote,
)
from cloister.app.demo.pods import search_pods
from cloister.app.demo.privacy import learn_privately
from cloister.app.demo.sketches import search_by_sketch
from cloister.app.demo.state import Step

__all__ = ["SIMULATED", "STEPS"]

_LIVE: Final = (
    Step("index", "Five clinics, whose records stay at home", index_records),
    Step("services", "Their services start", start_services),
    Step("search", "One question, three people, three answers", search_as_three),
    Step("learning", "People click, and clinics learn together", learn_together),
    Step("trial", "People vote, and the better ranker serves", vote),
    Step("ledger", "What left, and what it cost", read_ledgers),
)
SIMULATED: Final = (
    Step("poisoning", "Malicious clients, without and with a rule that finds them", poison),
    Step("forgetting", "A client is forgotten, with a certificate", forget_client),
    Step("privacy", "The same with 20,000 users, and a limit that is kept", learn_privately),
    Step("pods", "A patient grants and revokes", search_pods),
    Step("sketches", "Search another's records by a noisy sketch", search_by_sketch),
    Step("private_cloud", "Rank by an encrypted index on somebody else's server", rank_privately),
)
"""Steps that need no services; the same seed gives the same figures."""

STEPS: Final = _LIVE + SIMULATED
