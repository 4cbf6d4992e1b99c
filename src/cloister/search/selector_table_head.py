"""The first and the last bytes of a selector table: a header, and a checksum."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final, NamedTuple

from cloister.core.errors import DataError
from cloister.core.ids import ServerId
from cloister.search.table_settings import MAX_HASH_BITS, MAX_LIST, MIN_HASH_BITS

__all__ = ["TableHead", "impossible", "opened"]

_MAGIC: Final = b"CST1"
_HEAD: Final = struct.Struct("<4sHBHQQQIIIIB")
_CHECK_BYTES: Final = 8
_MAX_VERSION: Final = 2**63 - 1
_MAX_DOCUMENTS: Final = 2**31 - 1
_MAX_PARAMETER: Final = 31


class TableHead(NamedTuple):
    """What stands before the terms.

    Parameters
    ----------
    n_documents, n_pods
        On the server, as far as the reader may read.
    n_listed
        How many terms have lists.
    n_named, least_length, length_parameter
        How many documents lists name, the shortest of their lengths, and the parameter of Rice's
        code for what the others are above it.
    """

    server_id: ServerId
    hash_bits: int
    n_best: int
    version: int
    n_documents: int
    n_pods: int
    n_terms: int
    n_listed: int = 0
    n_named: int = 0
    least_length: int = 0
    length_parameter: int = 0

    @property
    def one_each(self) -> bool:
        """Whether each pod has one document."""
        return self.n_pods == self.n_documents

    def size_bytes(self, n_bits: int) -> int:
        """Return the size of a table with so many bits behind the header."""
        name = len(self.server_id.encode("utf-8"))
        return _HEAD.size + name + -(-n_bits // 8) + _CHECK_BYTES

    def with_stream(self, stream: bytes) -> bytes:
        """Return a table's bytes.

        Raises
        ------
        DataError
            The server's name is longer than 65,535 bytes.
        """
        name = self.server_id.encode("utf-8")
        try:
            content = _HEAD.pack(_MAGIC, len(name), *self[1:]) + name + stream
        except struct.error:
            raise DataError("too much for a selector table", where=self.server_id[:80]) from None
        return content + _checksum(content)


def opened(content: bytes) -> tuple[TableHead, bytes]:
    """Return the header and the bits behind it.

    Raises
    ------
    DataError
        The bytes are damaged, or the header's numbers cannot be.
    """
    if len(content) < _HEAD.size + _CHECK_BYTES or not content.startswith(_MAGIC):
        raise impossible("this is no selector table")
    content, checksum = content[:-_CHECK_BYTES], content[-_CHECK_BYTES:]
    if _checksum(content) != checksum:
        raise impossible("the content does not match its checksum")
    _, n_name, *numbers = _HEAD.unpack_from(content)
    name, stream = content[_HEAD.size :][:n_name], content[_HEAD.size + n_name :]
    try:
        head = TableHead(ServerId(name.decode("utf-8")), *numbers)
    except UnicodeDecodeError:
        raise impossible("the server's name is no text") from None
    if len(name) < n_name or not _sound(head, 8 * len(stream)):
        raise impossible("the header's numbers cannot be")
    return head, stream


def impossible(what: str) -> DataError:
    """Return the error for a table that cannot be."""
    return DataError(what, where="selector table", remedy="fetch the table again")


def _sound(head: TableHead, n_bits: int) -> bool:
    """Say whether a header's numbers can be, and bits are there for so many terms."""
    term_bits = head.hash_bits + 3  # at least: the end of a unary part, and two counts
    return (
        MIN_HASH_BITS <= head.hash_bits <= MAX_HASH_BITS
        and head.n_best <= MAX_LIST
        and head.version <= _MAX_VERSION
        and head.n_named <= head.n_documents <= _MAX_DOCUMENTS
        and head.n_pods <= head.n_documents
        and head.n_listed <= head.n_terms
        and head.n_terms * term_bits <= n_bits
        and head.length_parameter <= _MAX_PARAMETER
    )


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECK_BYTES).digest()
