"""``cloister sketch add`` and ``delete``: an exact sketch, changed in its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloister.app.output import JsonFlag, checked_usage, command_result
from cloister.app.sketch_options import (
    DocIds,
    DocNumbers,
    DocumentsFile,
    FieldName,
    KeyFile,
    SketchedField,
    SketchFile,
    refuse_nothing,
)
from cloister.app.sketch_output import doing, show_changed

if TYPE_CHECKING:
    from cloister.sketch.rtk_sketch import RtkSketch

__all__ = ["add", "delete"]

Result = dict[str, Any]


@command_result(show_changed)
def add(
    file: SketchFile,
    documents: DocumentsFile,
    key_file: KeyFile,
    field: SketchedField = FieldName.BODY,
    as_json: JsonFlag = False,
) -> Result:
    """Add documents to an exact RTK-Sketch. What was released before does not change."""
    from cloister.app.sketch_building import add_documents, changing
    from cloister.app.sketch_collection import count_field, read_documents
    from cloister.app.sketch_opening import require_key
    from cloister.sketch.key_file import read_key

    secret = read_key(key_file)
    with doing("reading the sketch") as say, changing(file):
        sketch = _exact(file)
        require_key(sketch, secret, file)
        counted = count_field(read_documents(documents), field.value, str(documents))
        say(f"adding {len(counted.doc_ids):,} documents")
        add_documents(sketch, counted, secret)
        sketch.save(file)
    return _changed(file, sketch) | {"added": list(counted.doc_ids), "removed": []}


@checked_usage(refuse_nothing)
@command_result(show_changed)
def delete(
    file: SketchFile,
    doc_ids: DocIds = None,
    number: DocNumbers = None,
    as_json: JsonFlag = False,
) -> Result:
    """Delete documents from an exact RTK-Sketch. What was released before stays released."""
    from cloister.app.sketch_building import changing, delete_documents

    with doing("reading the sketch"), changing(file):
        sketch = _exact(file)
        removed = delete_documents(sketch, doc_ids or [], number or [], file)
        sketch.save(file)
    return _changed(file, sketch) | {"added": [], "removed": removed}


def _exact(file: Path) -> RtkSketch:
    """Open a sketch that can be changed."""
    from cloister.app.sketch_opening import open_sketch
    from cloister.core.errors import DataError
    from cloister.sketch.rtk_sketch import RtkSketch

    opened = open_sketch(file)
    if not isinstance(opened, RtkSketch):
        raise DataError(
            "only an exact RTK-Sketch can be changed",
            where=str(file),
            remedy="make the file anew from the changed collection; a release is a new release",
        )
    return opened


def _changed(file: Path, sketch: RtkSketch) -> Result:
    from cloister.app.sketch_opening import describe

    return describe(sketch) | {"file": str(file), "file_bytes": file.stat().st_size}
