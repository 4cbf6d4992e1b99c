"""Partitions: a data set seen by many clients, without copying a row.

The IID setting and the four non-IID types of the FOLTR thesis (chapter 4): document preference,
label distribution, click behaviour and quantity. Each function returns one
:class:`~cloister.data.partitions.client_view.ClientView` a client.
"""

from cloister.data.partitions.click_preference import by_click_behaviour, mixed_click_behaviour
from cloister.data.partitions.client_view import ClientView, Views
from cloister.data.partitions.data_sharing import draw_shared_queries, with_shared_queries
from cloister.data.partitions.document_preference import by_document_preference, merged_intents
from cloister.data.partitions.flat import (
    FlatViews,
    distinct_click_models,
    distinct_views,
    flatten,
)
from cloister.data.partitions.identical import iid, iid_disjoint
from cloister.data.partitions.label_distribution import by_label
from cloister.data.partitions.quantity import THESIS_QUANTITIES, by_quantity, with_quantities

__all__ = [
    "ClientView",
    "FlatViews",
    "THESIS_QUANTITIES",
    "Views",
    "by_click_behaviour",
    "by_document_preference",
    "by_label",
    "by_quantity",
    "distinct_click_models",
    "distinct_views",
    "draw_shared_queries",
    "flatten",
    "iid",
    "iid_disjoint",
    "merged_intents",
    "mixed_click_behaviour",
    "with_quantities",
    "with_shared_queries",
]
