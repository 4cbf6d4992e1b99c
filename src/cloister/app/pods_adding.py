"""Finds out what kind of pod an address is, and makes a folder one."""

from __future__ import annotations

from pathlib import Path

from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import AgentId, PodId
from cloister.pods.folder_pod import FolderPod
from cloister.pods.registry import RegisteredPod, read_credentials

__all__ = ["registered_pod"]


def registered_pod(
    address: str, *, pod: str | None, owner: str | None, server: str, credentials: Path | None
) -> RegisteredPod:
    """Return a pod as it is to be registered; a folder that is none becomes one."""
    if address.startswith(("http://", "https://")):
        return _solid(address, pod, owner, server, credentials)
    if credentials is not None:
        raise SettingsError("a folder needs no credentials", where="credentials")
    folder = Path(address).absolute()
    if not folder.is_dir():
        raise NotFound("no such folder", where=str(folder), remedy="name a folder of texts")
    opened = _opened(folder, pod, owner)
    return RegisteredPod(
        pod_id=opened.pod_id,
        owner=opened.owner,
        server_id=server,
        kind="folder",
        address=str(folder),
    )


def _opened(folder: Path, pod: str | None, owner: str | None) -> FolderPod:
    try:
        opened = FolderPod.open(folder)
    except NotFound:
        if owner is None:
            raise SettingsError(
                "a folder that is no pod yet needs an owner", where="owner", remedy="add --owner"
            ) from None
        return FolderPod.create(folder, PodId(pod or folder.name), AgentId(owner))
    for given, there in ((pod, opened.pod_id), (owner, opened.owner)):
        if given is not None and given != there:
            raise SettingsError(
                f"the folder is a pod already, and says {there!r}",
                where=given,
                remedy="leave the option out",
            )
    return opened


def _solid(
    address: str, pod: str | None, owner: str | None, server: str, credentials: Path | None
) -> RegisteredPod:
    if credentials is None:
        raise SettingsError(
            "a pod on a Solid server needs client credentials",
            where="credentials",
            remedy="add --credentials FILE",
        )
    known = read_credentials(credentials)
    if pod is not None and pod != address:
        raise SettingsError("a Solid pod is named by its address", where="pod")
    return RegisteredPod(
        pod_id=address,
        owner=owner or known.web_id,
        server_id=server,
        kind="solid",
        address=address,
        credentials=str(credentials.absolute()),
    )
