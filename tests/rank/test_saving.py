"""Rankers come back from the disk as they were, or not at all."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

import cloister
from cloister.core.errors import (
    CloisterError,
    Damaged,
    DataError,
    NotFound,
    SettingsError,
    StoreError,
)
from cloister.rank import saving
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.rank.saving import load_ranker, load_saved, save_ranker

formats = pytest.mark.parametrize("suffix", [".safetensors", ".npz"])

MLP = Ranker.initial(
    RankerSettings(kind="mlp", n_features=5, hidden=3, activation="sigmoid"), seed=3
)
LINEAR = Ranker(RankerSettings(n_features=4), np.array([1.5, -0.0, 3e38, 1e-45], np.float32))


def record_of(path: Path) -> str:
    """Return the text beside the parameters."""
    if path.suffix == ".npz":
        return str(np.load(path)["cloister"])
    with safe_open(path, framework="numpy") as file:
        return str(file.metadata()["cloister"])


def write(path: Path, parameters: np.ndarray, record: str) -> Path:
    """Write a file by hand."""
    if path.suffix == ".npz":
        np.savez(path, parameters=parameters, cloister=np.array(record))
    else:
        save_file({"parameters": parameters}, path, metadata={"cloister": record})
    return path


def forge(path: Path, parameters: np.ndarray, **changes: Any) -> Path:
    """Write a file whose checksum fits, with other parameters or another record."""
    save_ranker(LINEAR, path)
    record = json.loads(record_of(path)) | changes
    record.pop("sha256")
    record["sha256"] = saving._checksum(record, parameters)
    return write(path, parameters, json.dumps(record))


@formats
@pytest.mark.parametrize("ranker", [MLP, LINEAR], ids=["mlp", "linear"])
def test_a_ranker_comes_back_bit_by_bit(ranker: Ranker, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"ranker{suffix}"
    save_ranker(ranker, path)
    again = load_ranker(path)
    assert again.settings == ranker.settings
    assert again.parameters.tobytes() == ranker.parameters.tobytes()
    assert again.parameters.dtype == np.float32
    again.parameters[0] += 1  # a copy of its own, to train on
    assert load_ranker(path).parameters.tobytes() == ranker.parameters.tobytes()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@formats
@settings(max_examples=40)
@given(extra=st.dictionaries(st.text(), json_values, max_size=4))
def test_what_is_saved_beside_a_ranker_comes_back(
    extra: dict[str, Any], suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"extra{suffix}"
    save_ranker(MLP, path, extra=extra)
    saved = load_saved(path)
    assert saved.extra == extra
    assert saved.version == cloister.__version__
    assert saved.ranker.settings == MLP.settings


@formats
def test_names_inside_extras_become_strings_as_in_json(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(MLP, path, extra={"seeds": (1, 2), "by_round": {10: "b", 9: "a"}})
    assert load_saved(path).extra == {"seeds": [1, 2], "by_round": {"10": "b", "9": "a"}}


@formats
def test_equal_rankers_make_equal_bytes(suffix: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    save_ranker(MLP, first, extra={"a": 1, "b": 2, "c": 3})
    save_ranker(MLP, second, extra={"c": 3, "b": 2, "a": 1})
    assert first.read_bytes() == second.read_bytes()


@formats
def test_others_can_read_the_file_without_this_package(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(MLP, path, extra={"seed": 3})
    record = json.loads(record_of(path))
    assert record["settings"] == MLP.settings.model_dump(mode="json")
    assert record["cloister"] == cloister.__version__
    assert record["extra"] == {"seed": 3}
    if suffix == ".npz":
        parameters = np.load(path, allow_pickle=False)["parameters"]
    else:
        with safe_open(path, framework="numpy") as file:
            parameters = file.get_tensor("parameters")
    np.testing.assert_array_equal(parameters, MLP.parameters)


@pytest.mark.parametrize(("suffix", "harmless"), [(".safetensors", 0.0), (".npz", 0.15)])
def test_a_damaged_byte_is_noticed_or_harmless(
    suffix: str, harmless: float, tmp_path: Path
) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(MLP, path, extra={"seed": 3})
    good = path.read_bytes()
    n_harmless = 0
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x11]) + good[place + 1 :])
        try:
            saved = load_saved(path)
        except (DataError, Damaged):
            continue
        n_harmless += 1  # say, the time of day in a zip file
        assert saved.extra == {"seed": 3}
        assert saved.ranker.settings == MLP.settings
        assert saved.ranker.parameters.tobytes() == MLP.parameters.tobytes()
    assert n_harmless <= harmless * len(good) / 3


@formats
def test_a_truncated_file_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(MLP, path)
    good = path.read_bytes()
    for length in (*range(0, len(good), 13), len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(DataError, match="not a whole file"):
            load_ranker(path)


def test_a_changed_parameter_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_ranker(LINEAR, path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match="checksum"):
        load_ranker(path)


class Spy:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_nothing_pickled_is_ever_run(tmp_path: Path) -> None:
    touched, path = tmp_path / "touched", tmp_path / "a.npz"
    np.savez(path, parameters=np.array([Spy(touched)], object), cloister=np.array("{}"))
    with pytest.raises(DataError):
        load_ranker(path)
    path.write_bytes(pickle.dumps(Spy(touched)))
    with pytest.raises(DataError):
        load_ranker(path)
    assert not touched.exists()


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("parameters", b"no array")


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("the weights are 1, 2 and 3\n" * 20),
    "a single array": lambda path: np.save(path.open("wb"), np.zeros(4, np.float32)),
    "another zip": _zip,
    "other arrays": lambda path: np.savez(path.open("wb"), weights=np.zeros(4)),
    "other tensors": lambda path: save_file({"weights": np.zeros(4)}, path),
    "no record": lambda path: save_file({"parameters": LINEAR.parameters}, path),
}


@formats
@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_foreign_file_is_refused(
    make: Callable[[Path], Any], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a{suffix}"
    make(path)
    with pytest.raises(DataError, match="not a whole file of a ranker"):
        load_ranker(path)


@formats
def test_one_format_under_the_others_name_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(MLP, path)
    other = path.with_suffix(".npz" if suffix == ".safetensors" else ".safetensors")
    path.rename(other)
    with pytest.raises(DataError, match="not a whole file"):
        load_ranker(other)


@formats
@pytest.mark.parametrize("text", ["", "no JSON", "[]", "3", "{}", '{"format":1}', "[" * 100_000])
def test_a_record_that_is_none_is_refused(text: str, suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"a{suffix}", LINEAR.parameters, text)
    with pytest.raises(DataError, match="description"):
        load_ranker(path)


@formats
@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"n_features": 5}},
        {"settings": {"n_features": 4, "kind": "mlp"}},
        {"settings": {"n_features": 0}},
        {"settings": {"n_features": 10**30}},
        {"settings": {"n_features": 4, "layers": 2}},
        {"settings": {}},
    ],
)
def test_settings_that_do_not_fit_the_parameters_are_refused(
    changes: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    path = forge(tmp_path / f"a{suffix}", LINEAR.parameters, **changes)
    with pytest.raises(DataError, match="do not fit"):
        load_ranker(path)


@formats
@pytest.mark.parametrize(
    "changes", [{"settings": None}, {"extra": [1]}, {"cloister": 3}, {"more": 1}]
)
def test_a_record_with_other_fields_is_refused(
    changes: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    path = forge(tmp_path / f"a{suffix}", LINEAR.parameters, **changes)
    with pytest.raises(DataError, match="description"):
        load_ranker(path)


@formats
def test_a_later_format_is_refused_with_the_remedy(suffix: str, tmp_path: Path) -> None:
    path = forge(tmp_path / f"a{suffix}", LINEAR.parameters, format=2)
    with pytest.raises(DataError, match=r"format 2.*install the version"):
        load_ranker(path)


@formats
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_parameters_of_another_type_are_refused(
    dtype: type[np.generic], suffix: str, tmp_path: Path
) -> None:
    path = forge(tmp_path / f"a{suffix}", np.ones(4, dtype))
    with pytest.raises(DataError, match="other types"):
        load_ranker(path)


@formats
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_parameters_that_are_not_finite_are_neither_saved_nor_loaded(
    value: float, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a{suffix}"
    broken = np.array([1, value, 2, 3], np.float32)
    with pytest.raises(DataError, match="not finite"):
        save_ranker(LINEAR.with_parameters(broken), path)
    assert not path.exists()
    with pytest.raises(DataError, match="not finite"):
        load_ranker(forge(path, broken))


@formats
@pytest.mark.parametrize(
    "extra",
    [{"a": np.float32(1)}, {"a": float("nan")}, {"a": {1, 2}}, {1: "a"}, {"a": {None: 1, "b": 2}}],
)
def test_extras_that_json_cannot_hold_are_refused(
    extra: dict[Any, Any], suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="extra"):
        save_ranker(LINEAR, tmp_path / f"a{suffix}", extra=extra)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a.pkl", "a.pt", "a.NPZ", "a.npz.gz"])
def test_an_ending_that_names_no_format_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\.safetensors or \.npz"):
        save_ranker(LINEAR, tmp_path / name)
    with pytest.raises(SettingsError, match=r"\.safetensors or \.npz"):
        load_ranker(tmp_path / name)


@formats
def test_what_is_not_there_is_not_found(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file"):
        load_ranker(tmp_path / f"a{suffix}")
    with pytest.raises(NotFound, match="no such folder"):
        save_ranker(LINEAR, tmp_path / "nowhere" / f"a{suffix}")


@formats
def test_a_folder_is_neither_read_nor_replaced(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / f"a{suffix}"
    folder.mkdir()
    with pytest.raises(NotFound, match="this is a folder, not a file; name a file"):
        load_ranker(folder)
    with pytest.raises(NotFound, match="this is a folder, not a file; name a file"):
        save_ranker(LINEAR, folder)
    assert list(tmp_path.iterdir()) == [folder]


@formats
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(LINEAR, path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        save_ranker(MLP, path)
    assert load_ranker(path).settings == LINEAR.settings
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from cloister.rank.ranker import Ranker, RankerSettings
from cloister.rank.saving import save_ranker

os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
save_ranker(Ranker.initial(RankerSettings(n_features=9)), sys.argv[1])
"""


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_ranker(LINEAR, path)
    outcome = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], timeout=120, check=False, capture_output=True
    )
    assert outcome.returncode == -signal.SIGKILL, outcome.stderr.decode()
    assert load_ranker(path).settings == LINEAR.settings


@formats
def test_only_the_owner_may_read_the_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    save_ranker(LINEAR, path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_refusal_says_where_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK")
    with pytest.raises(CloisterError, match="save the ranker again") as refusal:
        load_ranker(path)
    assert refusal.value.where == str(path)
