from __future__ import annotations

import gzip
import math
import tempfile
import time
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from cloister.core.errors import DataError, NotFound
from cloister.data import letor
from cloister.data.letor import LetorSettings, parse_letor, read_letor
from cloister.data.letor_writer import write_letor
from cloister.data.ranking_data import RankingData

WIDE = LetorSettings(precision=64)


def read_literally(text: str) -> list[tuple[int, str, dict[int, float], str]]:
    """A slow reader of one line at a time, as the format is described."""
    rows = []
    for line in text.split("\n"):
        body, _, comment = line.partition("#")
        if not body.strip():
            continue
        label, query, *cells = body.split()
        pairs = (cell.split(":") for cell in cells)
        values = {int(i): math.nan if v.lower() == "null" else float(v) for i, v in pairs}
        rows.append((int(float(label)), query.removeprefix("qid:"), values, comment.strip()))
    return rows


def number_of(text: str) -> float:
    return float(parse_letor(f"1 qid:1 1:{text}\n".encode(), WIDE).features[0, 0])


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.1 + 0.2)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.5e-30)
@example(9.999999717180685e-10)
@example(1.7975e308)
def test_every_double_is_read_as_python_reads_it(value: float) -> None:
    assume(abs(value) < 1.7976e308)  # the largest double stands for a missing value
    assert number_of(repr(value)) == value
    assert math.copysign(1, number_of(repr(value))) == math.copysign(1, value)


@given(
    st.from_regex(r"[+-]?[0-9]{1,25}(\.[0-9]{0,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True).filter(
        lambda text: abs(float(text)) < 1.7976e308
    )
)
@example("9007199254740993.5")
@example("9223372036854775807.")
@example("0.30000000000000004441")
@example("9223372036854775799e-3")
@example("0.1000000000000000055511151231257827021181583404541015625")
@example("0.10000000000000000555111512312578270211815834045410156250000000001")
@example("8.5e22")
@example("7205759403792793e-39")
def test_every_decimal_number_is_rounded_as_python_rounds_it(text: str) -> None:
    assert number_of(text) == float(text)


VALUES = st.one_of(
    st.floats(-1e6, 1e6, width=32), st.integers(-5, 5), st.sampled_from(["NULL", "null"])
)
LINES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["1", "2", "q-3", "x:y"]),
        st.dictionaries(st.integers(1, 30), VALUES, max_size=8).map(lambda d: sorted(d.items())),
        st.sampled_from(["", "#docid = GX1 inc = 1", "# plain name", "#", "\r", "  "]),
    ),
    min_size=1,
    max_size=20,
)


@given(LINES, st.booleans())
def test_the_fast_reader_agrees_with_the_literal_one(
    lines: list[tuple[int, str, list[tuple[int, object]], str]], end: bool
) -> None:
    text = "\n".join(
        f"{label} qid:{query} {' '.join(f'{i}:{v}' for i, v in cells)} {comment}"
        for label, query, cells, comment in lines
    ) + ("\n" if end else "")
    expected = read_literally(text)
    data = parse_letor(text.encode(), WIDE)
    order = list(dict.fromkeys(row[1] for row in expected))  # queries by first appearance
    expected.sort(key=lambda row: order.index(row[1]))
    assert list(data.query_ids) == order
    assert data.labels.tolist() == [row[0] for row in expected]
    assert data.n_features == max([1, *(i for row in expected for i in row[2])])
    dense = np.zeros(data.features.shape)
    for r, (_, _, cells, _) in enumerate(expected):
        for i, value in cells.items():
            dense[r, i - 1] = value
    np.testing.assert_array_equal(data.features, dense)
    owners = np.repeat(order, data.lengths).tolist()
    assert owners == [row[1] for row in expected]


def test_scikit_learn_reads_the_same_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    path = tmp_path / "a.txt"
    lines = [
        f"{rng.integers(5)} qid:{row // 7 + 1} "
        + " ".join(f"{i}:{rng.normal() * 10.0 ** rng.integers(-8, 8):.9g}" for i in range(1, 31))
        for row in range(500)
    ]
    path.write_text("\n".join(lines))
    features, labels, query_ids = load_svmlight_file(str(path), query_id=True)
    data = read_letor(path, WIDE)
    np.testing.assert_array_equal(data.features, features.toarray())
    np.testing.assert_array_equal(data.labels, labels)
    np.testing.assert_array_equal(
        np.repeat(list(map(int, data.query_ids)), data.lengths), query_ids
    )


def test_chunks_and_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    text = "".join(
        f"{rng.integers(3)} qid:{row // 9} 1:{rng.random()} {5 + row % 40}:0.{row} #docid = d{row}"
        "\n"
        for row in range(800)
    ).encode()
    whole = parse_letor(text)
    n_threads = numba.get_num_threads()
    for threads, chunk in ((1, 100), (n_threads, 777), (n_threads, 1 << 14)):
        monkeypatch.setattr(letor, "CHUNK_BYTES", chunk)
        numba.set_num_threads(threads)
        try:
            again = parse_letor(text)
        finally:
            numba.set_num_threads(n_threads)
        assert again.features.tobytes() == whole.features.tobytes()
        assert list(again.doc_ids) == list(whole.doc_ids)
        assert list(again.query_ids) == list(whole.query_ids)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x qid:1 1:2", "label"),
        ("qid:1 1:2", "label"),
        ("1.5 qid:1 1:2", "whole number"),
        ("300 qid:1 1:2", "-128 to 127"),
        ("1 1:2 2:3", "no qid"),
        ("1 qid: 1:2", "no qid"),
        ("1 qid:1 0:2", "INDEX:VALUE"),
        ("1 qid:1 a:2", "INDEX:VALUE"),
        ("1 qid:1 -1:2", "INDEX:VALUE"),
        ("1 qid:1 7", "INDEX:VALUE"),
        ("1 qid:1 1:", "neither a number"),
        ("1 qid:1 1:abc", "neither a number"),
        ("1 qid:1 1:1.2.3", "neither a number"),
        ("1 qid:1 1:1e", "neither a number"),
        ("1 qid:1 1:0x1p3", "neither a number"),
        ("1 qid:1 1:inf", "neither a number"),
        ("1 qid:1 1:NULLS", "neither a number"),
        ("1 qid:1 1:1e999", "too large for 32 bits"),
        ("1 qid:1 1:1e39", "too large for 32 bits"),
        ("1 qid:1 1:1e300", "too large for 32 bits"),
        ("1 qid:1 1:1e30\x01", "neither a number"),
        ("1 qid:1 1:1 1:2", "must rise"),
        ("1 qid:1 2:1 1:2", "must rise"),
        ("1 qid:1 99999999:1", "too high"),
    ],
)
def test_a_malformed_line_is_named_with_its_number_and_text(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"0 qid:1 1:1\n\n# remark\n{line}\n0 qid:1 1:1\n")
    with pytest.raises(DataError, match=said) as caught:
        read_letor(path)
    assert caught.value.where == f"{path}:4"
    assert repr(line)[1:-1] in caught.value.what


def test_an_index_over_the_number_that_was_set_is_an_error() -> None:
    with pytest.raises(DataError, match="too high"):
        parse_letor(b"1 qid:1 3:1\n", LetorSettings(n_features=2))
    assert parse_letor(b"1 qid:1 1:1\n", LetorSettings(n_features=5)).n_features == 5


def test_files_numbered_from_zero_are_read_where_it_is_said() -> None:
    data = parse_letor(b"1 qid:1 0:4 2:5\n", LetorSettings(first_index=0))
    assert data.features.tolist() == [[4, 0, 5]]


def test_a_last_column_of_zeros_is_kept() -> None:
    assert parse_letor(b"1 qid:1 1:4 2:0\n").n_features == 2


def test_missing_values_are_nan_or_zero_as_set() -> None:
    assert np.isnan(parse_letor(b"1 qid:1 1:NULL\n").features[0, 0])
    assert parse_letor(b"1 qid:1 1:NULL\n", LetorSettings(null="zero")).features[0, 0] == 0


@pytest.mark.parametrize("text", ["1.7976931348623157e308", "1.79769313486232E+308"])
def test_the_largest_double_is_a_missing_value_as_istella_writes_it(text: str) -> None:
    for settings in (LetorSettings(), WIDE):
        data = parse_letor(f"1 qid:1 1:{text} 2:3\n".encode(), settings)
        assert np.isnan(data.features[0, 0])
        assert data.features[0, 1] == 3


def test_queries_whose_names_are_not_utf8_stay_apart() -> None:
    data = parse_letor(b"1 qid:\xff 1:1\n0 qid:\xfe 1:1\n2 qid:\xff 1:1\n")
    assert data.n_queries == 2
    assert data.labels.tolist() == [1, 2, 0]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_letor(b"\xef\xbb\xbf2 qid:1 1:1\n").labels.tolist() == [2]


def test_a_table_that_cannot_fit_is_an_error_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(letor.np, "zeros", no_room)
        with pytest.raises(DataError, match="does not fit into memory"):
            letor._table(10, 10, np.float32, "a.txt")


def test_numbers_with_many_digits_do_not_slow_the_reader_down() -> None:
    rng = np.random.default_rng(1)
    values = (10.0 ** rng.uniform(-30, 30, 40_000)).tolist()
    short = b"".join(b"1 qid:1 1:%.6f\n" % v for v in rng.random(40_000))
    long = "".join(f"1 qid:1 1:{v!r}\n" for v in values).encode()
    parse_letor(short, WIDE)
    seconds = []
    for text in (short, long):
        start = time.process_time()
        data = parse_letor(text, WIDE)
        seconds.append(time.process_time() - start)
    np.testing.assert_array_equal(data.features[:, 0], values)
    assert seconds[1] < 20 * seconds[0] + 0.5  # it was hundreds of times


def test_rows_of_one_query_are_brought_together() -> None:
    data = parse_letor(b"0 qid:b 1:1 #x\n1 qid:a 1:2 #y\n2 qid:b 1:3 #z\n")
    assert list(data.query_ids) == ["b", "a"]
    assert data.labels.tolist() == [0, 2, 1]
    assert data.features[:, 0].tolist() == [1, 3, 2]
    assert list(data.doc_ids) == ["x", "z", "y"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# only a remark\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="no row"):
        read_letor(path)


def test_gzip_is_read_whatever_its_name_and_damage_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(b"1 qid:1 1:2\n" * 100)
    path = tmp_path / "packed.txt"
    path.write_bytes(packed)
    assert read_letor(path).n_rows == 100
    path.write_bytes(packed[:-9])
    with pytest.raises(DataError, match="damaged gzip"):
        read_letor(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_letor(tmp_path / "none.txt")
    with pytest.raises(DataError, match="folder"):
        read_letor(tmp_path)


@given(st.integers(0, 2**32 - 1))
def test_what_is_written_is_read_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, 3)
    n_rows = int(lengths.sum())
    data = RankingData(
        (rng.standard_normal((n_rows, 4)) * 10.0 ** rng.integers(-9, 9)).astype(np.float32),
        rng.integers(0, 5, n_rows).astype(np.int8),
        np.concatenate(([0], np.cumsum(lengths))),
        ["a", "b", "c"],
        [f"d{i}" for i in range(n_rows)],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt.gz")
        write_letor(data, path)
        again = read_letor(path, cache=False)
    np.testing.assert_array_equal(again.features, data.features)
    np.testing.assert_array_equal(again.labels, data.labels)
    np.testing.assert_array_equal(again.offsets, data.offsets)
    assert list(again.query_ids) == list(data.query_ids)
    assert list(again.doc_ids) == list(data.doc_ids)
