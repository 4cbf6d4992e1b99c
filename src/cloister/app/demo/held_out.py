"""How good a ranker is for the people of the demo: nDCG@10 on queries that nobody clicked on.

The measurement knows what only the maker of the world knows. It reads the nodes' indexes where they
lie, as each of some users, and asks no service.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloister.app.demo.clinic_federation import N_CANDIDATES, NODES, ClinicFederation
from cloister.app.demo.clinic_users import ClinicNeeds, pod_number
from cloister.core.ids import AgentId, GroupId, ServerId
from cloister.core.rights import Reader
from cloister.measure.mean import mean
from cloister.measure.ndcg import ndcg
from cloister.measure.ranked import rank_labels
from cloister.pods.overlay.in_process import InProcessOverlay
from cloister.pods.registry import PodRegistry
from cloister.rank.ranker import Ranker
from cloister.search.page_features import PAGE_FEATURES, page_features
from cloister.search.search_settings import SearchSettings
from cloister.search.searcher import Searcher

__all__ = ["HeldOut"]

TIMEOUT_S: Final = 60.0
ROLES: Final = ("researcher", "doctor")


class HeldOut:
    """Candidates of held-out queries, for some users, with how well each serves them.

    Parameters
    ----------
    federation
        Filled with records.
    needs
        What users look for.
    """

    def __init__(self, federation: ClinicFederation, needs: ClinicNeeds) -> None:
        features, labels, bounds = [], [], [0]
        users = [federation.user(role, node) for node in NODES for role in ROLES]
        registries = [PodRegistry(federation.folder.home(node)) for node in NODES]
        try:
            servers = [one for registry in registries for one in registry.search_servers()]
            with InProcessOverlay(servers, timeout_s=TIMEOUT_S) as overlay:
                for user in users:
                    reader = Reader(AgentId(user.agent_id), frozenset(map(GroupId, user.groups)))
                    nodes = overlay.nodes_for_trusted(reader)
                    searcher = Searcher(nodes, settings=SearchSettings(selection="all"))
                    for query in needs.held_out:
                        outcome = searcher.search(query.text, k=N_CANDIDATES, explain=True)
                        found = outcome.candidates
                        if not found:
                            continue
                        served = needs.of(query)
                        features.append(page_features(found, home=ServerId(user.node)))
                        labels.append([served[pod_number(one.hit.pod_id)] for one in found])
                        bounds.append(bounds[-1] + len(found))
        finally:
            for registry in registries:
                registry.__exit__()
        self._features: NDArray[np.float32] = np.concatenate(
            [np.empty((0, len(PAGE_FEATURES)), np.float32), *features]
        )
        self._labels = np.array([label for page in labels for label in page], np.int64)
        self._bounds = np.array(bounds, np.int64)

    @property
    def n_searches(self) -> int:
        """Searches in which something would serve the user."""
        return int(np.isfinite(self._values(np.zeros(len(self._labels)))).sum())

    def ndcg(self, ranker: Ranker) -> float:
        """Return the mean nDCG@10 over the searches in which something would serve the user."""
        return mean(self._values(ranker.score(self._features)))

    def _values(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        return ndcg(rank_labels(scores, self._labels, self._bounds), k=10)
