from __future__ import annotations

import copy
import os
import pickle
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import AccessDenied, DataError, NotFound, SettingsError
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.private_file import read_private_file, write_private_file

# RFC 8032, section 7.1, tests 1 and 2
RFC_8032 = (
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
)
PURPOSES = st.binary(min_size=1, max_size=20)


@pytest.mark.parametrize(("private", "public"), RFC_8032)
def test_public_key_is_that_of_rfc_8032(private: str, public: str) -> None:
    identity = SigningIdentity.from_private_bytes(bytes.fromhex(private))
    assert identity.public.hex() == public
    assert identity.private_bytes().hex() == private


@given(PURPOSES, st.binary(), PURPOSES, st.binary())
def test_signature_fits_its_purpose_and_message_only(
    purpose: bytes, message: bytes, other_purpose: bytes, other_message: bytes
) -> None:
    identity = SigningIdentity.generate()
    directory = Directory({"ann": identity.public})
    signature = identity.sign(purpose, message)
    directory.verify("ann", purpose, message, signature)
    if (purpose, message) != (other_purpose, other_message):
        with pytest.raises(AccessDenied):
            directory.verify("ann", other_purpose, other_message, signature)


def test_bytes_moved_from_the_purpose_to_the_message_do_not_verify() -> None:
    identity = SigningIdentity.generate()
    directory = Directory({"ann": identity.public})
    with pytest.raises(AccessDenied):
        directory.verify("ann", b"ab", b"c", identity.sign(b"a", b"bc"))


def test_signature_of_somebody_else_is_refused() -> None:
    ann, eve = SigningIdentity.generate(), SigningIdentity.generate()
    directory = Directory({"ann": ann.public, "eve": eve.public})
    with pytest.raises(AccessDenied, match="does not fit"):
        directory.verify("ann", b"p", b"m", eve.sign(b"p", b"m"))
    with pytest.raises(AccessDenied, match="no such identity"):
        directory.verify("bob", b"p", b"m", eve.sign(b"p", b"m"))
    with pytest.raises(AccessDenied):
        directory.verify("ann", b"p", b"m", b"short")


def test_known_id_keeps_its_key_until_it_is_removed() -> None:
    first, second = SigningIdentity.generate().public, SigningIdentity.generate().public
    directory = Directory({"ann": first})
    directory.add("ann", first)
    with pytest.raises(AccessDenied, match="another key"):
        directory.add("ann", second)
    assert directory.public("ann") == first
    directory.remove("ann")
    directory.add("ann", second)
    assert directory.public("ann") == second


@pytest.mark.parametrize("owner", ["", "two words", "line\nbreak", "x" * 513])
def test_directory_refuses_what_is_no_id(owner: str) -> None:
    with pytest.raises(SettingsError):
        Directory().add(owner, SigningIdentity.generate().public)


def test_keys_of_a_wrong_length_are_refused() -> None:
    with pytest.raises(DataError, match="32 bytes, not 31"):
        Directory().add("ann", bytes(31))
    with pytest.raises(DataError, match="32 bytes, not 33"):
        SigningIdentity.from_private_bytes(bytes(33))


def test_saved_key_comes_back_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    identity = SigningIdentity.generate()
    path = tmp_path / "identity.pem"
    old_mask = os.umask(0)
    try:
        identity.save(path)
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SigningIdentity.load(path).private_bytes() == identity.private_bytes()


def test_saving_never_replaces_a_key(tmp_path: Path) -> None:
    path = tmp_path / "identity.pem"
    first = SigningIdentity.generate()
    first.save(path)
    with pytest.raises(SettingsError, match="key file already"):
        SigningIdentity.generate().save(path)
    assert SigningIdentity.load(path).public == first.public
    assert [item.name for item in (tmp_path / ".incoming").iterdir()] == []


def test_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "identity.pem"
    SigningIdentity.generate().save(path)
    path.chmod(0o640)
    with pytest.raises(AccessDenied, match="chmod 600"):
        SigningIdentity.load(path)


def test_file_that_is_no_key_or_is_missing_is_refused(tmp_path: Path) -> None:
    write_private_file(tmp_path / "text", b"not a key")
    with pytest.raises(DataError, match="Ed25519"):
        SigningIdentity.load(tmp_path / "text")
    with pytest.raises(NotFound):
        SigningIdentity.load(tmp_path / "none")
    with pytest.raises(NotFound):
        write_private_file(tmp_path / "no-folder" / "key", b"")
    with pytest.raises(NotFound):
        read_private_file(tmp_path)


def test_half_written_key_of_a_dead_process_is_removed_by_the_next_write(tmp_path: Path) -> None:
    write_private_file(tmp_path / "first", b"1")
    left_over = tmp_path / ".incoming" / "tmp-dead"
    left_over.write_bytes(b"half a key")
    write_private_file(tmp_path / "second", b"2")
    assert not left_over.exists()


def test_identity_shows_no_private_bytes_and_is_not_copied() -> None:
    identity = SigningIdentity.generate()
    assert identity.private_bytes().hex() not in repr(identity)
    assert repr(identity.private_bytes()) not in repr(identity)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            leak(identity)
