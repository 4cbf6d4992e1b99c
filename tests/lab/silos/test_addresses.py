"""Collections by address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cloister.core.errors import NotFound, SettingsError
from cloister.lab.silos.addresses import collection_fields
from cloister.lab.silos.settings import CollectionSettings
from cloister.lab.silos.texts import read_texts


@pytest.mark.parametrize(
    ("address", "n_parties", "expected"),
    [
        ("clinic", None, ("clinic", "world:clinic", 4)),
        ("world:clinic", 3, ("clinic", "world:clinic", 3)),
        (
            "world:clinic?organisations=2&servers=2",
            None,
            ("clinic", "world:clinic?organisations=2&servers=2", 2),
        ),
    ],
)
def test_a_clinic_world_has_a_party_for_each_organisation(
    address: str, n_parties: int | None, expected: tuple[str, str, int]
) -> None:
    found = CollectionSettings(**collection_fields(address, n_parties))
    assert (found.collection, found.data, found.n_parties) == expected


def test_a_world_made_from_its_address_has_the_parties_that_were_promised() -> None:
    address = "world:clinic?servers=3&pods=5&queries=4&document_bytes=0&staff=9"
    settings = CollectionSettings(**collection_fields(address))
    assert set(read_texts(settings).party.tolist()) == set(range(settings.n_parties))


@pytest.mark.parametrize(
    ("address", "n_parties"),
    [
        ("world:clinic?organisations=2&servers=2", 3),
        ("world:intents", None),
        ("world:clinic?pods=none", None),
        ("medquad", 5),
    ],
)
def test_what_cannot_be_shared_out_is_refused(address: str, n_parties: int | None) -> None:
    with pytest.raises(SettingsError):
        collection_fields(address, n_parties)


@pytest.mark.parametrize("address", ["msmarco-5k", "elsewhere"])
def test_what_is_not_here_is_an_error_that_names_what_always_is(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOISTER_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match="world:clinic"):
        collection_fields(address)


def test_known_names_are_found_in_the_data_folder_and_by_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "text" / "trecdl-msmarco-5k"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CLOISTER_DATA", str(tmp_path))
    by_name, by_folder = collection_fields("msmarco-5k"), collection_fields(str(folder))
    assert by_name == by_folder
    assert by_name == {"collection": "msmarco-5k", "data": str(folder), "n_parties": 4}
    (other := tmp_path / "other").mkdir()
    assert collection_fields(str(other), 6) == {
        "collection": "beir",
        "data": str(other),
        "n_parties": 6,
    }


def test_a_beir_collection_needs_a_folder() -> None:
    with pytest.raises(SettingsError, match="needs a folder"):
        read_texts(CollectionSettings(collection="beir"))


def test_a_real_collection_is_found_by_its_folder(real_data: Callable[[str], Path]) -> None:
    folder = real_data("text/nfcorpus")
    assert collection_fields(str(folder), 3) == {
        "collection": "nfcorpus",
        "data": str(folder),
        "n_parties": 3,
    }
