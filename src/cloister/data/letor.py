"""Reader of LETOR (SVMlight) files into flat arrays with query offsets.

MQ2007, MQ2008, MSLR-WEB, Yahoo and Istella are all written in this form, plain or gzipped. The
bytes are cut into chunks at line ends and parsed in parallel by `cloister.data.letor_kernel`; what
the kernel refuses is explained here with file, line number and the offending text.
"""

from __future__ import annotations

import gzip
import os
import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cloister.core.errors import DataError
from cloister.core.file_errors import explained
from cloister.core.settings import Settings
from cloister.data import letor_kernel as kernels
from cloister.data.byte_strings import ByteStrings
from cloister.data.cache import cached_arrays, ranking_arrays, ranking_data_of
from cloister.data.letor_kernel import COLUMN, FAULT, POSITION, ROW, STATE_SIZE, WIDTH, Fault
from cloister.data.normalise import Normalisation, normalise
from cloister.data.ranking_data import RankingData
from cloister.data.text_file import GZIP_MAGIC

__all__ = ["LetorSettings", "parse_letor", "read_letor"]

MAX_NUMBER: Final = 1 << 16  # bytes of a number; a longer one is no number
CHUNK_BYTES: Final = 1 << 22  # enough chunks for every thread, few enough to cost nothing
MAX_FEATURES: Final = 1_000_000  # a higher index is a slip, not a wider table
PADDING: Final = 8  # newlines behind the text
SHOWN: Final = 120  # characters of an offending line that an error shows
_TOKEN: Final = re.compile(rb"[^ \t\r\n#]+")


class LetorSettings(Settings):
    """How a LETOR file is read.

    Parameters
    ----------
    normalise
        ``none``, ``query_minmax`` (each query's columns to 0..1, constant ones to 0),
        ``global_minmax`` or ``global_zscore`` (over the whole file).
    null
        What ``NULL`` becomes: ``nan`` keeps it visible, ``zero`` makes it 0.
    n_features
        Number of columns; 0 takes the highest index of the file.
    first_index
        The number of the first feature: 1 as SVMlight has it, or 0.
    precision
        Bits of a stored feature.
    """

    normalise: Normalisation = "none"
    null: Literal["nan", "zero"] = "nan"
    n_features: int = Field(default=0, ge=0, le=MAX_FEATURES)
    first_index: Literal[0, 1] = 1
    precision: Literal[32, 64] = 32


class _Parsed(NamedTuple):
    """Arrays of one file, rows in the order of the file."""

    features: NDArray[Any]
    labels: NDArray[np.int8]
    query_spans: NDArray[np.int64]
    name_spans: NDArray[np.int64]


def read_letor(
    path: str | Path, settings: LetorSettings | None = None, *, cache: bool = True
) -> RankingData:
    """Read a LETOR file; a second call maps the arrays of the first from the cache.

    The cache is keyed by the file's content and by the settings, and lies where ``CLOISTER_CACHE``
    says, else in the user's cache folder.
    """
    path = Path(path)
    settings = settings or LetorSettings()
    if path.is_dir():
        raise DataError("a folder, not a file", where=str(path))
    if not cache:
        return _parse_file(path, settings)
    return ranking_data_of(
        cached_arrays(path, settings, lambda: ranking_arrays(_parse_file(path, settings)))
    )


def parse_letor(content: bytes, settings: LetorSettings | None = None) -> RankingData:
    r"""Parse the text of a LETOR file.

    Examples
    --------
    >>> data = parse_letor(b"2 qid:7 1:0.5 3:1 #docid = a\n0 qid:7 2:NULL # b\n")
    >>> data.features.tolist()
    [[0.5, 0.0, 1.0], [0.0, nan, 0.0]]
    >>> data.labels.tolist(), list(data.query_ids), list(data.doc_ids)
    ([2, 0], ['7'], ['a', 'b'])
    """
    return _parse_padded(_padded(content), settings or LetorSettings(), "")


def _parse_file(path: Path, settings: LetorSettings) -> RankingData:
    return _parse_padded(_read_padded(path), settings, str(path))


def _parse_padded(data: NDArray[np.uint8], settings: LetorSettings, where: str) -> RankingData:
    if data[:3].tobytes() == BOM_UTF8:
        data[:3] = 32
    parsed = _parse(data, settings, where)
    if not len(parsed.labels):
        raise DataError("no row in this file", where=where, remedy="is it a LETOR file?")
    result = _group(data, parsed)
    return normalise(result, settings.normalise, in_place=True)


def _read_padded(path: Path) -> NDArray[np.uint8]:
    with explained(path), path.open("rb") as file:
        if file.read(2) == GZIP_MAGIC:
            file.seek(0)
            return _padded(gzip.GzipFile(fileobj=file).read())
        file.seek(0)
        buffer = _room_for(os.fstat(file.fileno()).st_size)
        n_read = file.readinto(buffer.data)
    buffer[n_read:] = 10
    return buffer


def _room_for(n_bytes: int) -> NDArray[np.uint8]:
    """Return a buffer with newlines at its end: no token runs over it."""
    buffer = np.empty(n_bytes + PADDING, np.uint8)
    buffer[n_bytes:] = 10
    return buffer


def _padded(content: bytes) -> NDArray[np.uint8]:
    buffer = _room_for(len(content))
    buffer[: len(content)] = np.frombuffer(content, np.uint8)
    return buffer


def _chunk_ends(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Cut the bytes into chunks, each ending behind a newline."""
    ends = []
    position = 0
    while position < len(data):
        target = min(position + CHUNK_BYTES, len(data)) - 1
        while target < len(data) - 1 and data[target] != 10:
            step = np.flatnonzero(data[target : target + 65536] == 10)
            target = target + int(step[0]) if len(step) else min(target + 65536, len(data) - 1)
        position = target + 1
        ends.append(position)
    return np.array(ends, np.int64)


def _parse(data: NDArray[np.uint8], settings: LetorSettings, where: str) -> _Parsed:
    ends = _chunk_ends(data)
    starts = np.concatenate(([0], ends[:-1]))
    counts = [kernels.count_rows(data, a, b) for a, b in zip(starts, ends, strict=True)]
    n_rows = sum(counts)
    states = np.zeros((len(ends), STATE_SIZE), np.int64)
    states[:, POSITION] = starts
    states[1:, ROW] = np.cumsum(counts)[:-1]
    dtype = np.float32 if settings.precision == 32 else np.float64
    features = _table(n_rows, settings.n_features or _guess_width(data), dtype, where)
    largest = float(np.finfo(dtype).max)
    labels = np.empty(n_rows, np.int8)
    query_spans, name_spans = np.zeros((n_rows, 2), np.int64), np.zeros((n_rows, 2), np.int64)
    null_value = np.nan if settings.null == "nan" else 0.0
    while True:
        kernels.parse_chunks(
            data, ends, states, features, labels, query_spans, name_spans,
            settings.first_index, null_value, largest,
        )  # fmt: skip
        faults = np.flatnonzero(states[:, FAULT] != Fault.NONE)
        if not len(faults):
            break
        for chunk in faults:
            _mend(data, states[chunk], features, settings, where)
        features = _widened(features, int(states[:, WIDTH].max()), where)
    width = settings.n_features or max(int(states[:, WIDTH].max()), 1)
    if width < features.shape[1]:  # the guess was too generous
        features = np.ascontiguousarray(features[:, :width])
    return _Parsed(features, labels, query_spans, name_spans)


def _table(n_rows: int, width: int, dtype: Any, where: str) -> NDArray[Any]:
    try:
        return np.zeros((n_rows, width), dtype)
    except MemoryError:
        raise DataError(
            f"a table of {n_rows} rows and {width} features does not fit into memory",
            where=where,
            remedy="is the highest feature index right? read fewer rows, or set n_features",
        ) from None


def _widened(features: NDArray[Any], width: int, where: str) -> NDArray[Any]:
    """Make room for an index beyond the last column, and for a few more."""
    n_rows, n_columns = features.shape
    if width <= n_columns:
        return features
    wider = _table(n_rows, max(width, min(2 * n_columns, width + 64)), features.dtype, where)
    wider[:, :n_columns] = features
    return wider


def _guess_width(data: NDArray[np.uint8]) -> int:
    """Guess the number of columns from the first lines: the highest index before a colon."""
    head = data[: 1 << 16].tobytes().split(b"#", 1)[0].split(b"\n", 1)[0]
    indices = [token.split(b":")[0] for token in head.split()[2:]]
    return max((int(i) for i in indices if i.isdigit() and len(i) < 7), default=0) or 1


def _mend(
    data: NDArray[np.uint8],
    state: NDArray[np.int64],
    features: NDArray[Any],
    settings: LetorSettings,
    where: str,
) -> None:
    """Settle a fault so that the parser can go on, or raise."""
    fault, position = Fault(int(state[FAULT])), int(state[POSITION])
    if fault is Fault.WIDER and not settings.n_features and state[WIDTH] <= MAX_FEATURES:
        return
    if fault is Fault.SLOW_VALUE:
        token = _TOKEN.findall(data[position : position + MAX_NUMBER].tobytes())[0]
        value = float(token)
        if abs(value) <= float(np.finfo(features.dtype).max):
            features[state[ROW], state[COLUMN]] = value
            state[POSITION] = position + len(token)
            return
    raise _fault_error(data, position, fault, settings, where)


_REASONS: Final = {
    Fault.WIDER: "a feature index that is too high",
    Fault.SLOW_VALUE: "a feature value too large for {precision} bits",
    Fault.RANGE: "a feature value too large for {precision} bits",
    Fault.LABEL: "a line must begin with a label, a whole number",
    Fault.LABEL_RANGE: "a label must be a whole number from -128 to 127",
    Fault.NO_QUERY: "no qid:ID behind the label",
    Fault.INDEX: "expected INDEX:VALUE with an index from {first_index} on",
    Fault.ORDER: "feature indices must rise along a line",
    Fault.VALUE: "a feature value that is neither a number nor NULL",
}


def _fault_error(
    data: NDArray[np.uint8], position: int, fault: Fault, settings: LetorSettings, where: str
) -> DataError:
    before = data[:position]
    line_number = int(np.count_nonzero(before == 10)) + 1
    line_start = position - len(before[-(1 << 20) :].tobytes().rpartition(b"\n")[2])
    line = data[line_start : line_start + (1 << 20)].tobytes().partition(b"\n")[0]
    token = data[position : position + SHOWN].tobytes().split(None, 1)[:1] or [b""]
    reason = _REASONS[fault].format(**settings.model_dump())
    shown = line[:SHOWN].decode(errors="replace") + ("..." if len(line) > SHOWN else "")
    return DataError(
        f"{reason}, but found {token[0][:SHOWN].decode(errors='replace')!r} in {shown!r}",
        where=f"{where or 'text'}:{line_number}",
        remedy="mend or remove the line",
    )


def _group(data: NDArray[np.uint8], parsed: _Parsed) -> RankingData:
    """Find the queries; bring rows of one query together where the file scatters them."""
    same = np.zeros(len(parsed.labels), np.bool_)
    kernels.same_spans(data, parsed.query_spans, same)
    starts = np.flatnonzero(~same)
    offsets = np.append(starts, len(same)).astype(np.int64)
    query_ids = _texts(data, parsed.query_spans[starts])
    names = [query_ids.raw(i) for i in range(len(query_ids))]
    features, labels, doc_ids = parsed.features, parsed.labels, _texts(data, parsed.name_spans)
    if len(set(names)) < len(names):
        first = {name: position for position, name in reversed(list(enumerate(names)))}
        group = np.repeat([first[name] for name in names], np.diff(offsets))
        order = np.argsort(group, kind="stable")
        kept, counts = np.unique(group, return_counts=True)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        query_ids = query_ids.take(kept)
        features, labels, doc_ids = features[order], labels[order], doc_ids.take(order)
    return RankingData(features, labels, offsets, query_ids, doc_ids if doc_ids.offsets[-1] else ())


def _texts(data: NDArray[np.uint8], spans: NDArray[np.int64]) -> ByteStrings:
    offsets = np.zeros(len(spans) + 1, np.int64)
    np.cumsum(spans[:, 1] - spans[:, 0], out=offsets[1:])
    block = np.empty(int(offsets[-1]), np.uint8)
    kernels.copy_spans(data, spans, offsets, block)
    return ByteStrings(block, offsets)
