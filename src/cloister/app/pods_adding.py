"""Finds out what kind of pod an address is, and makes a folder one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloister.core.errors import NotFound, SettingsError
from cloister.core.ids import AgentId, PodId, ServerId
from cloister.pods.folder_access import ACL_ENDING
from cloister.pods.folder_pod import DESCRIPTION, FolderPod
from cloister.pods.pod_files import LOCK as POD_LOCK
from cloister.pods.registry import PodRegistry, RegisteredPod
from cloister.pods.solid_credentials_file import read_credentials
from cloister.pods.solid_http import checked_address

__all__ = ["add_server_pod", "made_pod", "registered_pod"]


def registered_pod(
    registry: PodRegistry,
    address: str,
    *,
    pod: str | None,
    owner: str | None,
    server: str,
    credentials: Path | None,
    index_in_pod: bool = False,
    keep_text: bool = False,
) -> RegisteredPod:
    """Return a pod as it is to be registered; nothing is changed yet."""
    if not _is_solid(address) and not (address.strip() and Path(address).is_dir()):
        there = bool(address.strip()) and Path(address).exists()
        raise NotFound(
            "this is a file, not a folder" if there else "no such folder",
            where=str(Path(address).absolute())
            if address.strip()
            else "the folder's name is empty",
            remedy="put the file in a folder and name that" if there else "name a folder of texts",
        )
    found = _found(address, pod, owner, server, credentials)
    found = found.model_copy(update={"index_in_pod": index_in_pod, "keep_text": keep_text})
    registry.require_new(found)
    return found


@contextmanager
def made_pod(pod: RegisteredPod) -> Iterator[None]:
    """Make a folder a pod, unless it is one; where the body fails, it is again as it was."""
    folder = Path(pod.address)
    before = {name: (folder / name).exists() for name in (DESCRIPTION, ACL_ENDING, POD_LOCK)}
    _make(pod)
    try:
        yield
    except BaseException:
        if pod.kind == "folder":
            for name, was_there in before.items():
                if not was_there:
                    (folder / name).unlink(missing_ok=True)
        raise


def add_server_pod(
    registry: PodRegistry,
    server: str,
    address: str,
    *,
    owner: str | None,
    credentials: Path | None,
) -> None:
    """Give a server a pod of its own; a folder is made where there is none."""
    if not _is_solid(address) and not (Path(address) / DESCRIPTION).exists():
        owner = owner or server
    found = _found(address, None, owner, server, credentials)
    registry.require_new_server_pod(found)
    if ServerId(server) not in registry.server_ids():
        raise NotFound(
            "no pod is on this server", where=server, remedy="cloister pods list shows the servers"
        )
    _make(found)
    registry.set_server_pod(found)


def _found(
    address: str, pod: str | None, owner: str | None, server: str, credentials: Path | None
) -> RegisteredPod:
    """Return what there is, or is to be made, at an address."""
    if _is_solid(address):
        return _solid(address, pod, owner, server, credentials)
    if credentials is not None:
        raise SettingsError("a folder needs no credentials", where="credentials")
    folder = Path(address).absolute()
    pod_id, its_owner = _described(folder, pod, owner)
    return RegisteredPod(
        pod_id=pod_id, owner=its_owner, server_id=server, kind="folder", address=str(folder)
    )


def _described(folder: Path, pod: str | None, owner: str | None) -> tuple[str, str]:
    """Return name and owner of a folder, as it says itself where it is a pod already."""
    try:
        opened = FolderPod.open(folder)
    except NotFound:
        if owner is None:
            raise SettingsError(
                "a folder that is no pod yet needs an owner", where="owner", remedy="add --owner"
            ) from None
        return pod or folder.name, owner
    for given, there in ((pod, opened.pod_id), (owner, opened.owner)):
        if given is not None and given != there:
            raise SettingsError(
                f"the folder is a pod already, and says {there!r}",
                where=given,
                remedy="leave the option out",
            )
    return opened.pod_id, opened.owner


def _make(pod: RegisteredPod) -> None:
    if pod.kind == "folder" and not (Path(pod.address) / DESCRIPTION).exists():
        FolderPod.create(pod.address, PodId(pod.pod_id), AgentId(pod.owner))


def _is_solid(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _solid(
    address: str, pod: str | None, owner: str | None, server: str, credentials: Path | None
) -> RegisteredPod:
    checked_address(address)
    if credentials is None:
        raise SettingsError(
            "a pod on a Solid server needs client credentials",
            where="credentials",
            remedy="add --credentials FILE",
        )
    known = read_credentials(credentials)
    if not address.endswith("/"):
        raise SettingsError(
            "a pod's address ends in a slash", where=address, remedy="add the slash"
        )
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
