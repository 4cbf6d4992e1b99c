"""Click models: who clicks what on a result page, and models fitted to logged clicks.

A page is a row of relevance grades, best rank first; see :mod:`cloister.data.clicks.pages`. Models
are found by name, sampled in bulk or inside kernels, and compared with their exact chances.

Examples
--------
>>> import numpy as np
>>> from cloister.data.clicks import click_model, click_probabilities, sample_clicks
>>> model, pages = click_model("informational", 5), np.array([[4, 0, 2]])
>>> click_probabilities(model, pages).round(3)
array([[0.9 , 0.22, 0.37]])
>>> sample_clicks(model, pages, seed=3).shape
(1, 3)
"""

from cloister.data.clicks.cascade import CascadeModel, StopRule, cascade_model
from cloister.data.clicks.cascade_fit import FittedCascade, fit_cascade
from cloister.data.clicks.likelihood import log_likelihood
from cloister.data.clicks.model import ClickModel, ClickTable, StackedTables, stack_tables
from cloister.data.clicks.position_based import PositionBasedModel, position_based_model
from cloister.data.clicks.position_based_fit import FittedPositionBased, fit_position_based
from cloister.data.clicks.registry import CLICK_MODEL_NAMES, GRADE_COUNTS, click_model
from cloister.data.clicks.sampling import click_probabilities, draw_clicks, sample_clicks

__all__ = [
    "CLICK_MODEL_NAMES",
    "CascadeModel",
    "ClickModel",
    "ClickTable",
    "FittedCascade",
    "FittedPositionBased",
    "GRADE_COUNTS",
    "PositionBasedModel",
    "StackedTables",
    "StopRule",
    "cascade_model",
    "click_model",
    "click_probabilities",
    "draw_clicks",
    "fit_cascade",
    "fit_position_based",
    "log_likelihood",
    "position_based_model",
    "sample_clicks",
    "stack_tables",
]
