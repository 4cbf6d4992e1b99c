"""Writer of LETOR (SVMlight) files."""

from __future__ import annotations

import gzip
from pathlib import Path

from cloister.data.ranking_data import RankingData

__all__ = ["write_letor"]


def write_letor(data: RankingData, path: str | Path) -> None:
    """Write a data set as a LETOR file, gzipped if the name ends in ``.gz``.

    Zeros are written too, so that every line has every feature, as in the public collections.
    """
    path = Path(path)
    columns = [f" {i}:" for i in range(1, data.n_features + 1)]
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        for query in range(data.n_queries):
            query_id = data.query_ids[query] if len(data.query_ids) else str(query + 1)
            rows = data.rows(query)
            for row, values in enumerate(data.features[rows], rows.start):
                # str() of a scalar has just the digits that its precision needs
                cells = "".join(
                    [f"{column}{value!s}" for column, value in zip(columns, values, strict=True)]
                )
                name = f" #docid = {data.doc_ids[row]}" if len(data.doc_ids) else ""
                file.write(f"{data.labels[row]} qid:{query_id}{cells}{name}\n")
