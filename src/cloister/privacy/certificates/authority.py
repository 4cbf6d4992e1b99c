"""A federation's certificate authority: a folder with its key, and the list of what it issued.

``authority.pem`` is what everybody is given, ``revoked.pem`` the list of revoked certificates
(CRL), ``authority.key`` the secret, ``issued.json`` what was issued and revoked. A certificate is
on the list before it leaves, and revoked on the list before the CRL says so: a crash leaves at most
a listed certificate that nobody has, and a CRL that is behind (`Authority.list_is_behind`, said by
``cloister certs list``) until the next change makes it anew. The other order could take a revoked
certificate off the CRL again.

*Guaranteed*, against whoever has not the authority's key, while ECDSA on P-256 holds: a
certificate that verifies names whom the authority named. *Not protected:* whoever has
``authority.key`` (and its passphrase) can be everybody. Revocation holds where and when the new CRL
arrives; until then, and at a service that is given none, a revoked certificate works until it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from cloister.core.errors import AccessDenied, Damaged, NotFound, SettingsError
from cloister.privacy.certificates import building
from cloister.privacy.certificates.authority_folder import (
    BACKDATED,
    AuthorityFolder,
    Change,
    certificate_pem,
)
from cloister.privacy.certificates.authority_state import (
    AuthorityState,
    IssuedCertificate,
    serial_text,
)
from cloister.privacy.certificates.building import Period, Signer
from cloister.privacy.certificates.certificate_name import CertificateName, checked_host
from cloister.privacy.certificates.certificate_request import read_request, require_no_certificate
from cloister.privacy.certificates.key_files import (
    kept_key,
    new_key,
    read_passphrase,
    replace_public_file,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

__all__ = ["Authority", "CertificateFiles", "LEAF_LIFETIME", "LIST_LIFETIME", "ROOT_LIFETIME"]

ROOT_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=90)
LIST_LIFETIME: Final = timedelta(days=30)


class CertificateFiles(NamedTuple):
    """A certificate, and where it and its key were written."""

    issued: IssuedCertificate
    certificate: Path
    key: Path


class Authority:
    """Issues, renews and revokes certificates of one federation; processes may share its folder.

    Parameters
    ----------
    folder
        Made by `create`.
    passphrase_file
        With which the key is encrypted; needed where something is to be signed.
    clock
        The time in seconds since 1970.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> home = TemporaryDirectory()
    >>> authority = Authority.create(Path(home.name, "ca"), "clinics")
    >>> files = authority.issue("node", "clinic-a", folder=home.name, hosts=["localhost"])
    >>> oct(files.key.stat().st_mode & 0o777), files.certificate.name
    ('0o600', 'node-clinic-a.pem')
    >>> [one.serial == files.issued.serial for one in authority.revoke("node/clinic-a")]
    [True]
    >>> home.cleanup()
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        passphrase_file: str | Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = Path(folder)
        self._files = AuthorityFolder(self.folder)
        self._passphrase_file = passphrase_file
        self._clock = clock
        self.federation: Final = self._files.state().federation

    @classmethod
    def create(
        cls,
        folder: str | Path,
        federation: str,
        *,
        domains: Sequence[str] = (),
        passphrase_file: str | Path | None = None,
        lifetime: timedelta = ROOT_LIFETIME,
        list_lifetime: timedelta = LIST_LIFETIME,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Make a new authority in a folder that is not there yet, or is empty.

        Where `domains` (or networks, as in ``10.0.0.0/8``) are given, its certificates hold for
        hosts there and on the machine itself only; gRPC cannot read that of addresses, and so
        refuses certificates with addresses among their hosts. A crash leaves no authority, or the
        whole one.
        """
        federation = CertificateName.checked(federation, "node", "any").federation
        passphrase = read_passphrase(passphrase_file)
        state = AuthorityState(federation=federation, list_days=list_lifetime / timedelta(days=1))
        key, now = new_key(), _moment(clock)
        certificate = building.root(
            federation, key, Period(now - BACKDATED, now + lifetime), domains=domains
        )
        signer = Signer(certificate, key)
        AuthorityFolder(Path(folder)).fill(signer, passphrase, Change(signer, state, now))
        return cls(folder, passphrase_file=passphrase_file, clock=clock)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        passphrase_file: str | Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open an authority that `create` made; the key is read when something is signed."""
        return cls(folder, passphrase_file=passphrase_file, clock=clock)

    @property
    def certificate_path(self) -> Path:
        """The authority's certificate, which everybody is given."""
        return self._files.certificate

    @property
    def list_path(self) -> Path:
        """The list of revoked certificates, which every service is given when it changes."""
        return self._files.revoked

    def listed(self) -> tuple[IssuedCertificate, ...]:
        """Return all that was issued, in the order of its making."""
        return self._files.state().issued

    def list_ends(self) -> datetime:
        """Return when the CRL ends: services that check it refuse everybody from then on."""
        return self._files.read_list().ends

    def list_is_behind(self) -> bool:
        """Say whether a killed command left a CRL that lacks what was revoked since."""
        state = self._files.state()  # first: another process may write both meanwhile
        return self._files.read_list().number < state.list_number

    def issue(
        self,
        role: str,
        name: str,
        *,
        folder: str | Path,
        hosts: Iterable[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> CertificateFiles:
        """Draw a key, and write it and a certificate for it to a folder.

        A key of that name without a certificate beside it, as a crash leaves, is used.
        """
        whom = CertificateName.checked(self.federation, role, name)
        named = tuple(dict.fromkeys(str(checked_host(host)) for host in hosts))
        folder = Path(folder)
        require_no_certificate(folder, whom)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key_path, path = folder / f"{whom.file_stem}.key", folder / f"{whom.file_stem}.pem"
        self._files.signer(self._passphrase_file)
        key = kept_key(key_path)
        issued = self._issued(whom, key.public_key(), named, lifetime)
        replace_public_file(path, issued.pem.encode())
        return CertificateFiles(issued, path, key_path)

    def sign(
        self,
        request_pem: bytes,
        role: str,
        name: str,
        *,
        hosts: Iterable[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> IssuedCertificate:
        """Sign a request, for a key that never leaves its owner.

        Role, name and hosts are the signer's word: a request that names somebody else, or hosts
        that are not among these, is refused.
        """
        whom = CertificateName.checked(self.federation, role, name)
        named = tuple(dict.fromkeys(str(checked_host(host)) for host in hosts))
        request = read_request(request_pem)
        if request.uris not in ((), (whom.uri,)):
            asked = ", ".join(request.uris)[:200]
            raise AccessDenied(
                f"the request is for {asked}", where=whom.uri, remedy="name whom it is for"
            )
        if more := set(request.hosts) - set(named):
            raise AccessDenied(
                f"the request is for {', '.join(sorted(more))[:200]}, too",
                where=whom.uri,
                remedy="name these hosts if they are theirs",
            )
        return self._issued(whom, request.key, named, lifetime)

    def renew(
        self, role: str, name: str, *, lifetime: timedelta = LEAF_LIFETIME
    ) -> IssuedCertificate:
        """Issue a certificate for the same key and hosts as the newest one that is not revoked.

        The old one holds until it ends.
        """
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

        whom = CertificateName.checked(self.federation, role, name)
        live = [one for one in self._files.state().of_name(whom) if one.revoked is None]
        if not live:
            raise NotFound(
                "no certificate that could be renewed", where=whom.short, remedy="issue a new one"
            )
        key = live[-1].certificate().public_key()
        if not isinstance(key, EllipticCurvePublicKey):
            raise Damaged("not a P-256 key", where=str(self.folder))
        return self._issued(whom, key, live[-1].hosts, lifetime)

    def revoke(self, target: int | str) -> tuple[IssuedCertificate, ...]:
        """Revoke by a serial number (8 digits do), or all of a ``role/name``; write the CRL."""
        with self._changing() as change:
            found = change.state.meant_by(target)
            serials = frozenset(one.serial for one in found)
            change.state = change.state.revoking(serials, change.now)
        return tuple(one for one in change.state.issued if one.serial in serials)

    def refresh_list(self) -> datetime:
        """Write the CRL anew, and return when it ends."""
        with self._changing():
            pass
        return self.list_ends()

    def _issued(
        self,
        whom: CertificateName,
        key: EllipticCurvePublicKey,
        hosts: tuple[str, ...],
        lifetime: timedelta,
    ) -> IssuedCertificate:
        """Sign a certificate, and put it on the list before anybody gets it."""
        with self._changing() as change:
            period = self._period(change, lifetime)
            named = [checked_host(host) for host in hosts]
            building.require_permitted(change.signer.certificate, named)
            certificate = building.leaf(change.signer, whom, key, period, hosts=named)
            issued = IssuedCertificate(
                serial=serial_text(certificate.serial_number),
                role=whom.role,
                name=whom.name,
                hosts=hosts,
                begins=period.begins,
                ends=period.ends,
                pem=certificate_pem(certificate),
            )
            update = {"issued": (*change.state.issued, issued)}
            change.state = change.state.model_copy(update=update)
        return issued

    def _period(self, change: Change, lifetime: timedelta) -> Period:
        root = change.signer.certificate
        begins = max(change.now - BACKDATED, root.not_valid_before_utc)
        ends = (change.now + lifetime).replace(microsecond=0)
        if not change.now < ends <= root.not_valid_after_utc:
            raise SettingsError(
                f"it would end {ends:%F}, and the authority {root.not_valid_after_utc:%F}",
                where="lifetime",
                remedy="choose another lifetime, or make a new authority",
            )
        return Period(begins, ends)

    def _changing(self) -> AbstractContextManager[Change]:
        return self._files.changing(self._passphrase_file, _moment(self._clock))


def _moment(clock: Callable[[], float]) -> datetime:
    """Return the time in whole seconds, as certificates have it."""
    return datetime.fromtimestamp(int(clock()), UTC)
