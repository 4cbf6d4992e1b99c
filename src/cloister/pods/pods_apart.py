"""What a pod must be like to be added: sound names, and no documents or ids of another pod.

A document's id begins with its pod's name. Were one name the beginning of another, as with ``ann``
and ``ann/visits``, somebody could put documents of their own in the place of another's in the
index. Were one folder inside another, its rules would replace those of the pod around it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloister.core.errors import SettingsError
from cloister.core.ids import checked_id

if TYPE_CHECKING:
    from cloister.pods.registry import RegisteredPod

__all__ = ["require_apart", "require_names", "require_other_names"]

_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def require_names(pod: RegisteredPod) -> None:
    """Raise where a pod, its owner or its server has a name that cannot be one."""
    for name in (pod.pod_id, pod.owner):
        checked_id(name)
    if pod.kind == "folder" and {".", ".."} & set(pod.pod_id.split("/")):
        raise SettingsError(
            "a pod's name begins the names of its documents, and has no . or .. between slashes",
            where=pod.pod_id,
            remedy="choose another name",
        )
    if not _SERVER_NAME.fullmatch(pod.server_id):
        raise SettingsError(
            "a server's name has letters, digits, - and _, and names a folder", where=pod.server_id
        )


def require_apart(
    pod: RegisteredPod, others: Iterable[RegisteredPod], *, home: Path | None = None
) -> None:
    """Raise where a pod is one of the others, in one of them, around one, or around the home."""
    place = _place(pod)
    if home is not None and _closed(os.path.realpath(home)).startswith(place):
        raise SettingsError(
            f"the indexes ({home}) lie in this folder",
            where=pod.address,
            remedy="name another folder, or another --home",
        )
    for other in others:
        there = _place(other)
        if place == there:
            raise SettingsError(
                "this is a pod here already", where=pod.address, remedy="name another place"
            )
        if _overlap(place, there):
            raise SettingsError(
                f"a pod lies inside another: {other.address}",
                where=pod.address,
                remedy="name another place",
            )


def require_other_names(pod: RegisteredPod, others: Iterable[RegisteredPod]) -> None:
    """Raise where documents of a pod could have the ids of another's.

    Examples
    --------
    >>> from cloister.pods.registry import RegisteredPod
    >>> ann = RegisteredPod(pod_id="ann", owner="ann", server_id="s", kind="folder", address="/a")
    >>> require_other_names(ann.model_copy(update={"pod_id": "ann/visits"}), [ann])
    Traceback (most recent call last):
    ...
    cloister.core.errors.SettingsError: ann/visits: the name begins as that of the pod 'ann'; ...
    """
    for other in others:
        if pod.pod_id == other.pod_id:
            raise SettingsError(
                "there is a pod of this name", where=pod.pod_id, remedy="give it another: --pod"
            )
        if _overlap(_closed(pod.pod_id), _closed(other.pod_id)):
            raise SettingsError(
                f"the name begins as that of the pod {other.pod_id!r}",
                where=pod.pod_id,
                remedy="give it another: --pod",
            )


def _place(pod: RegisteredPod) -> str:
    return _closed(os.path.realpath(pod.address) if pod.kind == "folder" else pod.address)


def _closed(name: str) -> str:
    return name if name.endswith("/") else name + "/"


def _overlap(some: str, other: str) -> bool:
    return some.startswith(other) or other.startswith(some)
