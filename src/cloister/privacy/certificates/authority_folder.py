"""The folder of an authority: which files there are, and how they change together."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cloister.core.errors import Damaged, SettingsError
from cloister.core.file_errors import explained, writing
from cloister.privacy.certificates.authority_state import AuthorityState
from cloister.privacy.certificates.building import Period, Signer, revocation_list
from cloister.privacy.certificates.key_files import (
    read_key,
    read_passphrase,
    replace_public_file,
    write_key,
)
from cloister.store.incoming import lock_held, sync_folder

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["AuthorityFolder", "BACKDATED", "Change", "certificate_pem"]

BACKDATED: Final = timedelta(minutes=5)  # for machines whose clocks are behind
_ANEW: Final = "make it anew: cloister certs crl"
LISTED_AFTER_END: Final = timedelta(days=7)  # a CRL names what is over for a little longer


class ListFacts(NamedTuple):
    """What a CRL says of itself: its number, and when it ends."""

    number: int
    ends: datetime


class Change:
    """A change under way: who signs, the state, which may be replaced, and the time."""

    def __init__(self, signer: Signer, state: AuthorityState, now: datetime) -> None:
        self.signer = signer
        self.state = state
        self.now = now


class AuthorityFolder:
    """Certificate, key, state and CRL in one folder; processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.certificate = folder / "authority.pem"
        self.revoked = folder / "revoked.pem"
        self._key = folder / "authority.key"
        self._state = folder / "issued.json"

    def fill(self, signer: Signer, passphrase: bytes | None, change: Change) -> None:
        """Write a new authority: all of it or nothing takes its place."""
        with _new_folder(self.path) as aside:
            made = AuthorityFolder(aside)
            write_key(made._key, signer.key, passphrase)
            replace_public_file(made.certificate, certificate_pem(signer.certificate).encode())
            made._write_list(change)
            change.state.write(made._state)
            (aside / ".incoming").rmdir()

    def state(self) -> AuthorityState:
        """Return what was issued and revoked."""
        return AuthorityState.read(self._state)

    def read_list(self) -> ListFacts:
        """Return what the CRL says of itself."""
        from cryptography import x509

        with explained(self.revoked):
            content = self.revoked.read_bytes()
        try:
            found = x509.load_pem_x509_crl(content)
            number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        except (ValueError, x509.ExtensionNotFound):
            raise Damaged(
                "not a list of this authority", where=str(self.revoked), remedy=_ANEW
            ) from None
        if found.next_update_utc is None:
            raise Damaged("the list has no end", where=str(self.revoked), remedy=_ANEW)
        return ListFacts(number, found.next_update_utc)

    def signer(self, passphrase_file: str | Path | None) -> Signer:
        """Return the key with its certificate."""
        from cryptography import x509

        with explained(self.certificate):
            content = self.certificate.read_bytes()
        try:
            certificate = x509.load_pem_x509_certificate(content)
        except ValueError:
            raise Damaged("not a certificate in PEM", where=str(self.certificate)) from None
        key = read_key(self._key, read_passphrase(passphrase_file))
        if key.public_key() != certificate.public_key():
            raise Damaged("the key is not the certificate's", where=str(self.path))
        return Signer(certificate, key)

    @contextmanager
    def changing(self, passphrase_file: str | Path | None, now: datetime) -> Iterator[Change]:
        """Let one process at a time change the state; with every change the CRL is made anew.

        The state comes first. Killed in between, the state says more than the CRL, which shows by
        its number, and the next change brings the CRL up. In the other order the next CRL, made
        from a state that does not know of a revoked certificate, would let it pass again.
        """
        with lock_held(self.certificate, exclusive=True):
            change = Change(self.signer(passphrase_file), self.state(), now)
            yield change
            number = change.state.list_number + 1
            change.state = change.state.model_copy(update={"list_number": number})
            change.state.write(self._state)
            self._write_list(change)

    def _write_list(self, change: Change) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding

        state, now = change.state, change.now
        period = Period(now - BACKDATED, now + timedelta(days=state.list_days))
        revoked = [
            (int(one.serial, 16), one.revoked)
            for one in state.issued
            if one.revoked is not None and now <= one.ends + LISTED_AFTER_END
        ]
        made = revocation_list(change.signer, state.list_number, period, revoked)
        replace_public_file(self.revoked, made.public_bytes(Encoding.PEM))


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder that takes its place when all is in it."""
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield aside
        try:
            aside.rename(folder)  # onto nothing, or onto an empty folder
        except OSError:
            raise SettingsError(
                "there is something already", where=str(folder), remedy="choose another folder"
            ) from None
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def certificate_pem(certificate: x509.Certificate) -> str:
    """Return a certificate as text."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()
