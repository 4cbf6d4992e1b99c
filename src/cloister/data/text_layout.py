"""Which layout a folder of texts or records has, known by its files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, Literal

from cloister.core.errors import NotFound
from cloister.data.beir import is_beir, open_beir
from cloister.data.irds import IRDS_PREFIX, open_irds
from cloister.data.mediqa import open_mediqa
from cloister.data.pubmedqa import open_pubmedqa
from cloister.data.synthea import is_synthea, open_synthea
from cloister.data.text_collection import TextCollection
from cloister.data.text_file import find_text_files, first_line
from cloister.data.trec_session import open_trec_session
from cloister.data.wikiqa import WIKIQA_COLUMNS, open_wikiqa

__all__ = ["TextLayout", "detect_text_layout", "open_text_collection", "summarise_texts"]

TextLayout = Literal["beir", "mediqa", "pubmedqa", "wikiqa", "synthea", "trec-session"]

_JSON_LAYOUTS: Final[dict[TextLayout, set[str]]] = {  # fields of the first object
    "mediqa": {"qid", "question", "answers"},
    "pubmedqa": {"_id", "question", "contexts"},
}
_SESSION_LINE: Final = re.compile(r"[^\t]+\t[^\t]+\t\[[\d, ]*\]\t")


def detect_text_layout(folder: str | Path) -> TextLayout | None:
    """Say which layout a folder has; None if it is none of these, or no folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     before = detect_text_layout(folder)
    ...     Path(folder, "corpus.jsonl").touch()
    ...     before, detect_text_layout(folder)
    (None, 'beir')
    """
    if not Path(folder).is_dir():
        return None
    if is_beir(folder):
        return "beir"
    if is_synthea(folder):
        return "synthea"
    for path in find_text_files(folder, ".jsonl").values():
        fields = _field_names(first_line(path))
        for layout, needed in _JSON_LAYOUTS.items():
            if needed <= fields:
                return layout
    for path in find_text_files(folder, ".tsv").values():
        line = first_line(path)
        if tuple(line.split("\t")) == WIKIQA_COLUMNS:
            return "wikiqa"
        if _SESSION_LINE.match(line):
            return "trec-session"
    return None


def _field_names(line: str) -> set[str]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    return set(fields) if isinstance(fields, dict) else set()


def open_text_collection(source: str | Path) -> TextCollection:
    """Open whatever holds texts: a folder of a known layout, or a name such as ``irds:vaswani``.

    The patients of a Synthea export become documents.
    """
    if str(source).startswith(IRDS_PREFIX):
        return open_irds(str(source))
    match detect_text_layout(source):
        case "beir":
            return open_beir(source)
        case "mediqa":
            return open_mediqa(source)
        case "pubmedqa":
            return open_pubmedqa(source)
        case "wikiqa":
            return open_wikiqa(source)
        case "synthea":
            return open_synthea(source).text_collection()
    if not Path(source).exists():
        raise NotFound("no such folder", where=str(source))
    raise NotFound(
        "no text collection of a known layout",
        where=str(source),
        remedy="name a folder in the BEIR, MEDIQA, PubMedQA, WikiQA or Synthea layout",
    )


def summarise_texts(source: str | Path) -> dict[str, Any]:
    """Count what a folder of any known layout, or an ``irds:`` name, holds.

    All have ``kind`` and ``documents``; what else depends on the kind.
    """
    match detect_text_layout(source):
        case "synthea":
            return open_synthea(source).summary().as_dict()
        case "trec-session":
            return open_trec_session(source).summary().as_dict()
        case _:
            return open_text_collection(source).summary().as_dict()
