"""Names of files in a folder pod, and the ids by which others know them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote

from cloister.core.errors import SettingsError
from cloister.core.ids import DocId, PodId
from cloister.pods.datastore import DATA_ENDING
from cloister.pods.document_text import media_type_of
from cloister.pods.pod_files import checked_name

__all__ = ["FolderNames", "data_name", "document_name"]


class FolderNames:
    """Turns names into ids and back.

    Parameters
    ----------
    pod_id
        With which all ids begin.

    Examples
    --------
    >>> names = FolderNames(PodId("ann"))
    >>> names.doc_id("visits/a b.txt"), names.document(DocId("ann/visits/a%20b.txt"))
    ('ann/visits/a%20b.txt', 'visits/a b.txt')
    >>> names.document(DocId("ann/x.bin")), names.data(DocId("ann/x.bin"))
    (None, 'x.bin')
    """

    def __init__(self, pod_id: PodId) -> None:
        self._pod_id = pod_id

    def doc_id(self, name: str) -> DocId:
        """Return the id of a file."""
        return DocId(f"{self._pod_id}/{quote(name)}")

    def document(self, doc_id: DocId) -> str | None:
        """Return the name that a document's id stands for; None where it is not of this pod."""
        return self._name(document_name, doc_id)

    def data(self, data_id: DocId) -> str | None:
        """Return the name that the id of data stands for; None where it is not of this pod."""
        return self._name(data_name, data_id)

    def either(self, doc_id: DocId) -> str | None:
        """Return the name of a document or of data."""
        return self.document(doc_id) or self.data(doc_id)

    def _name(self, check: Callable[[str], str], doc_id: DocId) -> str | None:
        name = unquote(doc_id.removeprefix(f"{self._pod_id}/"))
        try:
            return name if self.doc_id(check(name)) == doc_id else None
        except SettingsError:
            return None


def document_name(name: str) -> str:
    """Return a name that a document may have, or raise."""
    if _is_hidden(name) or not media_type_of(name):
        raise SettingsError(
            "not a document's name",
            where=repr(name[:80]),
            remedy="end it in .txt, .md, .html or .json, and begin no part with a dot",
        )
    return name


def data_name(name: str) -> str:
    """Return a name that data may have, or raise."""
    if _is_hidden(name) or not name.endswith(DATA_ENDING):
        raise SettingsError(
            "not a name of data",
            where=repr(name[:80]),
            remedy=f"end it in {DATA_ENDING}, and begin no part with a dot",
        )
    return name


def _is_hidden(name: str) -> bool:
    return any(step.startswith(".") for step in checked_name(name))
