"""Neural rankers on disk: one safetensors file with all that scoring needs, never pickled.

The file holds the parameters under their names, the words of the embedding (``words``: UTF-8, one
after another; ``ends``: where each ends) and their vectors (``vectors``). One JSON text, the
metadata string ``cloister``, has the kind of model, its settings, the version that wrote it and a
SHA-256 of all of these. The checksum finds damage, not malice.

A file is complete and on the disk before it has its name. Only the owner may read it: it tells of
the words, queries and judgements that the ranker was learnt from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import cloister
from cloister.core.errors import CloisterError, Damaged, DataError
from cloister.core.file_errors import explained, writing
from cloister.rank.c_knrm_star import CKnrmStar, CKnrmStarSettings
from cloister.rank.conv_knrm import ConvKnrm, ConvKnrmSettings
from cloister.rank.drmm import Drmm, DrmmSettings
from cloister.rank.embedding import Embedding
from cloister.rank.knrm import Knrm, KnrmSettings
from cloister.rank.neural_ranker import VECTORS, NeuralModel, NeuralRanker
from cloister.store.incoming import replace_file

__all__ = ["load_neural", "save_neural"]

Arrays = Mapping[str, NDArray[Any]]

FORMAT: Final = 1
_RECORD: Final = "cloister"
_AGAIN: Final = "save the ranker again, or restore the file from a copy"
_MODELS: Final[dict[str, Callable[[dict[str, Any]], NeuralModel]]] = {
    "knrm": lambda fields: Knrm(KnrmSettings(**fields)),
    "conv-knrm": lambda fields: ConvKnrm(ConvKnrmSettings(**fields)),
    "c-knrm-star": lambda fields: CKnrmStar(CKnrmStarSettings(**fields)),
    "drmm": lambda fields: Drmm(DrmmSettings(**fields)),
}


def save_neural(ranker: NeuralRanker, path: str | Path) -> None:
    """Write a ranker to a file, in the place of one that may be there.

    Equal rankers give equal bytes.
    """
    from safetensors.numpy import save

    encoded = [word.encode() for word in ranker.embedding.words]
    arrays: dict[str, NDArray[Any]] = {
        **ranker.parameters,
        VECTORS: ranker.embedding.vectors,
        "words": np.frombuffer(b"".join(encoded), np.uint8),
        "ends": np.cumsum([len(word) for word in encoded], dtype=np.int64),
    }
    record = {
        "cloister": cloister.__version__,
        "format": FORMAT,
        "kind": ranker.model.kind,
        "settings": ranker.model.settings.model_dump(mode="json"),
    }
    text = _canonical(record | {"sha256": _checksum(record, arrays)})
    path = Path(path)
    with writing(path):
        replace_file(path, save(arrays, metadata={_RECORD: text}))


def load_neural(path: str | Path) -> NeuralRanker:
    """Read a ranker from a file; its scores are those of the one saved.

    Raises
    ------
    NotFound
        No such file.
    DataError
        Not a neural ranker's file, or one of another format.
    Damaged
        Its content does not match its checksum.
    """
    path = Path(path)
    arrays, record = _read(path)
    told = record.pop("sha256", None)
    if told != _checksum(record, arrays):
        raise Damaged("the content does not match its checksum", where=str(path), remedy=_AGAIN)
    if record.get("format") != FORMAT:
        raise DataError(
            f"written in format {record.get('format')!r}, this version reads {FORMAT}",
            where=str(path),
            remedy="install the version of Cloister that wrote it",
        )
    try:
        model = _MODELS[record["kind"]](record["settings"])
        embedding = Embedding(_words(arrays), arrays.pop(VECTORS))
        parameters = {k: v for k, v in arrays.items() if k not in ("words", "ends")}
        return NeuralRanker(model, embedding, parameters)
    except CloisterError as error:
        raise _foreign(path, error.message) from None
    except (KeyError, TypeError, ValueError) as error:
        raise _foreign(path, str(error)) from None


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    from safetensors import safe_open

    with explained(path):
        path.open("rb").close()
        try:
            with safe_open(path, framework="numpy") as file:
                # Copies: what the library gives may lie in the mapped file.
                arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
                record = json.loads((file.metadata() or {})[_RECORD])
        except OSError:
            raise
        except Exception as error:  # whatever a parser says of bytes that it cannot read
            raise _foreign(path, str(error)) from None
    if not isinstance(record, dict):
        raise _foreign(path, "its description cannot be read")
    return arrays, record


def _words(arrays: Arrays) -> tuple[str, ...]:
    joined, ends = arrays["words"].tobytes(), arrays["ends"].tolist()
    return tuple(joined[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False))


def _checksum(record: Mapping[str, Any], arrays: Arrays) -> str:
    sha256 = hashlib.sha256(_canonical(record).encode())
    for name in sorted(arrays):
        array = arrays[name]
        sha256.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sha256.update(np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _foreign(path: Path, why: str) -> DataError:
    return DataError(f"not a whole file of a neural ranker: {why}", where=str(path), remedy=_AGAIN)
