"""Finds out what kind of pod an address is, and makes a folder one."""

from __future__ import annotations

from pathlib import Path

from cloister.core.errors import NotFound, SettingsError
from cloister.core.file_errors import writing
from cloister.core.ids import AgentId, PodId
from cloister.pods.folder_pod import DESCRIPTION, FolderPod
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_credentials_file import read_credentials

__all__ = ["add_server_pod", "registered_pod"]


def registered_pod(
    address: str,
    *,
    pod: str | None,
    owner: str | None,
    server: str,
    credentials: Path | None,
    index_in_pod: bool = False,
) -> RegisteredPod:
    """Return a pod as it is to be registered; a folder that is none becomes one."""
    found = _registered(address, pod, owner, server, credentials)
    return found.model_copy(update={"index_in_pod": index_in_pod})


def add_server_pod(
    registry: PodRegistry,
    server: str,
    address: str,
    *,
    owner: str | None,
    credentials: Path | None,
) -> None:
    """Give a server a pod of its own; a folder is made where there is none."""
    registry.require_no_server_pod(server)
    if not address.startswith(("http://", "https://")):
        with writing(Path(address)):
            Path(address).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (Path(address) / DESCRIPTION).exists():
            owner = owner or server
    registry.set_server_pod(_registered(address, None, owner, server, credentials))


def _registered(
    address: str, pod: str | None, owner: str | None, server: str, credentials: Path | None
) -> RegisteredPod:
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
