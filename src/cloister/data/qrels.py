"""Relevance judgements as the BEIR benchmark and TREC write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cloister.core.errors import DataError
from cloister.core.ids import DocId, QueryId
from cloister.core.records import Judgement
from cloister.data.text_file import read_lines, shortened

__all__ = ["read_qrels"]

_HEADER_NAMES: Final = frozenset({"query-id", "query_id", "qid", "query", "topic"})
_REMEDY: Final = "write 'query-id corpus-id score' with tabs, or the TREC form 'qid 0 docid grade'"


def read_qrels(path: str | Path) -> Iterator[Judgement]:
    r"""Yield the judgements of a file, plain or gzip.

    Three columns are read as BEIR's ``query-id corpus-id score``, with or without its header line;
    four as TREC's ``qid iteration docid grade``. Columns are parted by tabs, or by blanks in a line
    that has no tab. Grades stay as they are, negative ones too.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "test.tsv")
    ...     _ = path.write_text("query-id\tcorpus-id\tscore\n7\td1\t2\n")
    ...     list(read_qrels(path))
    [Judgement(query_id='7', doc_id='d1', grade=2)]
    """
    for number, line in read_lines(path):
        columns = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if len(columns) == 3:
            query_id, doc_id, grade = columns
        elif len(columns) == 4:
            query_id, _, doc_id, grade = columns
        elif not line.strip():
            continue
        else:
            raise _malformed(path, number, line, f"{len(columns)} columns, expected 3 or 4")
        try:
            judgement = Judgement(QueryId(query_id), DocId(doc_id), int(grade))
        except ValueError:
            if number == 1 and query_id.strip().lower() in _HEADER_NAMES:
                continue
            judgement = Judgement(
                QueryId(query_id), DocId(doc_id), _whole(path, number, line, grade)
            )
        if not query_id or not doc_id:
            raise _malformed(path, number, line, "an empty id")
        yield judgement


def _whole(path: str | Path, number: int, line: str, grade: str) -> int:
    """Read a grade such as ``1.0``, which some converters write."""
    try:
        value = float(grade)
    except ValueError:
        value = float("nan")
    if not value.is_integer():
        raise _malformed(path, number, line, f"the grade {grade!r} is not a whole number")
    return int(value)


def _malformed(path: str | Path, number: int, line: str, what: str) -> DataError:
    return DataError(f"{what}: {shortened(line)}", where=f"{path}:{number}", remedy=_REMEDY)
