from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import DataError, NotFound, SettingsError
from cloister.data.letor import LetorSettings
from cloister.data.letor_folder import find_letor


def put(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names, 1):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"1 qid:{number} 1:{number} #docid = {name}\n0 qid:{number} 1:0\n")
    return folder


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


def test_numbered_parts_rotate_as_letor_does_it(tmp_path: Path) -> None:
    found = find_letor(put(tmp_path, *(f"S{i}.txt" for i in range(1, 6))))
    assert found.layout == "parts"
    assert [names(fold.train) for fold in found.folds[:2]] == [
        ["S1.txt", "S2.txt", "S3.txt"],
        ["S2.txt", "S3.txt", "S4.txt"],
    ]
    assert [names(fold.validation) for fold in found.folds[:2]] == [["S4.txt"], ["S5.txt"]]
    assert [names(fold.test) for fold in found.folds] == [
        ["S5.txt"], ["S1.txt"], ["S2.txt"], ["S3.txt"], ["S4.txt"],
    ]  # fmt: skip
    assert len(found.files) == 5


@pytest.mark.parametrize(
    ("files", "train", "validation", "test"),
    [
        (("train.txt", "vali.txt", "test.txt"), "train.txt", "vali.txt", "test.txt"),
        (("set1.train.txt", "set1.valid.txt", "set1.test.txt"), "set1.train.txt", "set1.valid.txt",
         "set1.test.txt"),
        (("rank.train.txt", "rank.test.txt"), "rank.train.txt", "", "rank.test.txt"),
        (("fold1.train.5k.txt", "fold1.test.5k.txt"), "fold1.train.5k.txt", "",
         "fold1.test.5k.txt"),
        (("only.txt",), "only.txt", "", "only.txt"),
    ],
)  # fmt: skip
def test_files_are_known_by_their_names(
    tmp_path: Path, files: tuple[str, ...], train: str, validation: str, test: str
) -> None:
    (fold,) = find_letor(put(tmp_path, *files)).folds
    assert names(fold.train) == [train]
    assert names(fold.validation) == ([validation] if validation else [])
    assert names(fold.test) == [test]


def test_two_collections_in_one_folder_stay_apart(tmp_path: Path) -> None:
    files = [f"set{n}.{part}.txt" for n in (1, 2) for part in ("train", "valid", "test")]
    found = find_letor(put(tmp_path, *files))
    assert [names(fold.train) for fold in found.folds] == [["set1.train.txt"], ["set2.train.txt"]]
    assert len(found.files) == 6


def test_a_file_that_lies_there_twice_is_read_once(tmp_path: Path) -> None:
    put(tmp_path, "train.txt", "test.txt", "train.txt.gz")
    (fold,) = find_letor(tmp_path).folds
    assert names(fold.train) == ["train.txt"]


def test_other_files_beside_the_parts_do_not_matter(tmp_path: Path) -> None:
    found = find_letor(put(tmp_path, "S1.txt", "S2.txt", "S3.txt", "README.txt", ".hidden.txt"))
    assert found.layout == "parts"
    assert len(found.files) == 3


def test_folds_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    files = [f"Fold{f}/{part}.txt" for f in (10, 2) for part in ("train", "test")]
    found = find_letor(put(tmp_path, *files))
    assert [fold.train[0].parent.name for fold in found.folds] == ["Fold2", "Fold10"]


def test_a_folder_without_training_data_does_not_train_on_the_test(tmp_path: Path) -> None:
    found = find_letor(put(tmp_path, "test.txt"))
    assert names(found.files) == ["test.txt"]
    with pytest.raises(DataError, match="no training file"):
        found.load_fold()


def test_folders_of_folds_are_found(tmp_path: Path) -> None:
    files = [f"Fold{f}/{part}.txt" for f in (1, 2) for part in ("train", "vali", "test")]
    found = find_letor(put(tmp_path, *files))
    assert found.layout == "folds"
    assert len(found.folds) == 2
    assert found.folds[1].train == (tmp_path / "Fold2" / "train.txt",)
    assert found.load_fold(2).validation is not None


def test_a_global_scale_is_learnt_from_the_training_part_alone(tmp_path: Path) -> None:
    put(tmp_path, "train.txt", "vali.txt", "test.txt")  # highest values 1, 2 and 3
    fold = find_letor(tmp_path).load_fold(1, LetorSettings(normalise="global_minmax"))
    assert fold.validation is not None
    parts = (fold.train, fold.validation, fold.test)
    assert [float(part.features.max()) for part in parts] == [1, 2, 3]


def test_parts_of_different_width_are_filled_with_zeros(tmp_path: Path) -> None:
    put(tmp_path, "S1.txt", "S2.txt", "S3.txt", "S4.txt")
    (tmp_path / "S2.txt").write_text("1 qid:9 4:8\n")
    (tmp_path / "S4.txt").write_text("1 qid:9 6:8\n")
    fold = find_letor(tmp_path).load_fold(1)
    assert fold.train.n_features == fold.test.n_features == 6
    assert fold.train.features[2].tolist() == [0, 0, 0, 8, 0, 0]


def test_queries_that_share_an_id_in_two_files_stay_apart(tmp_path: Path) -> None:
    for name in ("S1", "S2", "S3"):
        (tmp_path / f"{name}.txt").write_text("1 qid:1 1:1\n")
    whole = find_letor(tmp_path)
    assert [whole.load_fold(n).train.n_queries for n in (1, 2, 3)] == [1, 1, 1]


def test_what_cannot_be_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        find_letor(tmp_path / "none")
    with pytest.raises(DataError, match="no LETOR files"):
        find_letor(tmp_path)
    with pytest.raises(DataError, match="neither a file nor a folder"):
        find_letor("/dev/null")
    put(tmp_path, "train.txt", "test.txt")
    with pytest.raises(SettingsError, match="no fold 2"):
        find_letor(tmp_path).load_fold(2)


def test_mq2008_has_the_folds_that_its_readme_lists(real_data: Callable[[str], Path]) -> None:
    found = find_letor(real_data("ltr/mq2008"))
    fold = found.load_fold(1)
    assert fold.validation is not None
    assert (fold.train.n_queries, fold.validation.n_queries, fold.test.n_queries) == (471, 157, 156)
    relevant = np.maximum.reduceat(fold.test.labels, fold.test.offsets[:-1]) > 0
    assert int(relevant.sum()) == 105
