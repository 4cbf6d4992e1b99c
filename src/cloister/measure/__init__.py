"""Tier 1: measures of ranking quality, and statistics to compare systems by them.

Queries are ragged: flat arrays hold the rows of all queries one after another, and query ``q``
owns the rows ``offsets[q]`` to ``offsets[q + 1]``. A ranking is made once by
`cloister.measure.ranked.rank_labels`; every measure then reads it and gives one value a query.
`cloister.measure.named.evaluate` does both for measures written as ``"nDCG@10"``.

The modules compile kernels or load SciPy, so nothing is imported here: import them by name.
"""
