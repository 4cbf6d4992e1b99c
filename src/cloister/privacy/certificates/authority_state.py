"""What an authority has issued and revoked: one small file, replaced whole."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, ValidationError

from cloister.core.errors import Damaged, NotFound, SettingsError
from cloister.core.settings import Settings
from cloister.privacy.certificates.certificate_name import CertificateName
from cloister.privacy.certificates.key_files import OWNER_ONLY, replace_public_file
from cloister.web.callers import Role

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["AuthorityState", "IssuedCertificate", "serial_text"]

SERIAL_DIGITS: Final = 40
MIN_DIGITS: Final = 8  # of a number that is not given whole


def serial_text(serial: int) -> str:
    """Return a serial number as lists and commands have it: 40 hexadecimal digits.

    Examples
    --------
    >>> serial_text(255)[-4:]
    '00ff'
    """
    return f"{serial:0{SERIAL_DIGITS}x}"


class IssuedCertificate(Settings):
    """A certificate on the authority's list.

    Parameters
    ----------
    serial
        40 hexadecimal digits.
    role, name
        Whom it names.
    hosts
        DNS names and addresses on which they answer.
    begins, ends
        When it holds.
    revoked
        When it was revoked; None where it was not.
    pem
        The certificate.
    """

    serial: str
    role: Role
    name: str
    hosts: tuple[str, ...] = ()
    begins: datetime
    ends: datetime
    revoked: datetime | None = None
    pem: str = Field(repr=False)

    def holds_at(self, moment: datetime) -> bool:
        """Say whether it is neither revoked nor over nor still to begin."""
        return self.revoked is None and self.begins <= moment <= self.ends

    def certificate(self) -> x509.Certificate:
        """Return it as `cryptography` has it."""
        from cryptography import x509

        return x509.load_pem_x509_certificate(self.pem.encode())


class AuthorityState(Settings):
    """All that an authority keeps beside its key and certificate.

    Parameters
    ----------
    federation
        Whose authority it is.
    list_number
        Of the newest list of revoked certificates.
    list_days
        How long each such list holds.
    issued
        In the order of their making.
    """

    format: Literal["cloister authority 1"] = "cloister authority 1"
    federation: str
    list_number: int = Field(default=0, ge=0)
    list_days: float = Field(gt=0)
    issued: tuple[IssuedCertificate, ...] = ()

    @classmethod
    def read(cls, path: Path) -> AuthorityState:
        """Read the file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(
                "no authority here", where=str(path.parent), remedy="make one: cloister certs init"
            ) from None
        except (ValidationError, SettingsError, OSError):
            raise Damaged("the authority's list cannot be read", where=str(path)) from None

    def write(self, path: Path) -> None:
        """Replace the file; a crash leaves the old one or this one."""
        content = (self.model_dump_json(indent=1) + "\n").encode()
        replace_public_file(path, content, mode=OWNER_ONLY)

    def of_name(self, name: CertificateName) -> tuple[IssuedCertificate, ...]:
        """Return what was issued to a name, the newest last."""
        return tuple(one for one in self.issued if (one.role, one.name) == name[1:])

    def meant_by(self, target: int | str) -> tuple[IssuedCertificate, ...]:
        """Return what has a serial number, or begins so, or all of a ``role/name``."""
        if isinstance(target, str) and "/" in target:
            role, _, name = target.partition("/")
            found = self.of_name(CertificateName.checked(self.federation, role, name))
        else:
            serial = target if isinstance(target, str) else serial_text(target)
            found = self._of_serial(serial.lower())
        if not found:
            raise NotFound("no such certificate", where=str(target)[:80])
        return found

    def _of_serial(self, digits: str) -> tuple[IssuedCertificate, ...]:
        """Return what has a number, or the one whose number begins so."""
        whole = digits.zfill(SERIAL_DIGITS)
        if found := tuple(one for one in self.issued if one.serial == whole):
            return found
        found = tuple(one for one in self.issued if digits and one.serial.startswith(digits))
        if found and (len(digits) < MIN_DIGITS or len(found) > 1):
            raise SettingsError(
                "these digits may mean more than one certificate",
                where=digits[:80],
                remedy=f"give {MIN_DIGITS} digits of its number at least, and as many as tell it",
            )
        return found

    def revoking(self, serials: frozenset[str], moment: datetime) -> AuthorityState:
        """Return the state after these were revoked; those that were before keep their time."""
        issued = tuple(
            one.model_copy(update={"revoked": moment})
            if one.serial in serials and one.revoked is None
            else one
            for one in self.issued
        )
        return self.model_copy(update={"issued": issued})
