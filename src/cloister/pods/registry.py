"""The pods that one machine keeps or indexes, and the index of each of its servers.

A home folder holds ``pods.json`` (which pods there are, and which pod each server has for itself),
one index a server under ``servers``, under ``texts`` kept texts of documents with their key
(`cloister.pods.text_store`), under ``tables`` notes on the tables in the servers' own pods, and
nothing else. Pods themselves lie where they lie: folders, or Solid servers elsewhere. Passwords
are not kept here: of a Solid pod the name of a file is kept that holds its client credentials.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from cloister.core.deadline import within
from cloister.core.errors import (
    CloisterError,
    Damaged,
    DataError,
    NotFound,
    SettingsError,
)
from cloister.core.file_errors import explained, writing
from cloister.core.ids import AgentId, DocId, PodId, ServerId
from cloister.core.rights import Reader
from cloister.core.settings import Settings
from cloister.index.reader_view import ReaderView
from cloister.index.shard import Shard
from cloister.pods.courtesy import Courtesy
from cloister.pods.datastore import Datastore, refused
from cloister.pods.document_reading import rights_now
from cloister.pods.folder_pod import DESCRIPTION, FolderPod
from cloister.pods.pod_gate import SLOW_S, PodGate
from cloister.pods.pod_reading import (
    CONFIRM_S,
    GuardedReading,
    PodFinding,
    ReadablePod,
    ReadersPod,
)
from cloister.pods.pods_apart import require_apart, require_names, require_other_names
from cloister.pods.search_server import SearchServer
from cloister.pods.solid_client import SolidClient
from cloister.pods.solid_credentials_file import read_credentials
from cloister.pods.sync import CutSync, SyncCounts, sync
from cloister.pods.sync_times import FILE as SYNCS
from cloister.pods.sync_times import LOCK as SYNCS_LOCK
from cloister.pods.sync_times import Stopwatch, SyncTimes, is_stale
from cloister.pods.text_store import TEXTS, PodTexts, TextStore
from cloister.search.node import SearchNode
from cloister.search.shard_node import ShardNode
from cloister.search.word_vector_table import WordVectors
from cloister.store.incoming import incoming_file, lock_held, replace_file, sync_folder

__all__ = ["MOST_SYNC_BYTES", "MOST_SYNC_S", "PodRegistry", "RegisteredPod"]

PODS: Final = "pods.json"
LOCK: Final = ".lock"
MOST_SYNC_S: Final = 600.0  # of one pod; what was read stays, and the next sync goes on
KEPT_S: Final = 24 * 3600.0  # texts of a pod are kept for so long after its last sync
MOST_SYNC_BYTES: Final = 100_000_000  # of documents that one sync of one pod fetches for a node
_KINDS: Final = ("pods", "server_pods", "adding")
UNFINISHED: Final = "unfinished"  # a file for each change under way, locked while its process lives


class RegisteredPod(Settings):
    """One pod.

    Parameters
    ----------
    pod_id, owner
        Its name, and who owns it.
    server_id
        In which server's index it is.
    kind, address
        A folder's path, or the address of a pod on a Solid server.
    credentials
        Of a Solid pod: a JSON file with ``issuer``, ``client_id``, ``client_secret``, ``web_id``.
    index_in_pod
        Whether an index resource is kept beside each document.
    keep_text
        Of a Solid pod: whether its owner agrees that texts of documents are kept in the home, to
        be shown without fetching them again. Of a folder they always are.
    """

    pod_id: str
    owner: str
    server_id: str
    kind: Literal["folder", "solid"]
    address: str
    credentials: str = ""
    index_in_pod: bool = False
    keep_text: bool = False


class PodRegistry:
    """The pods and indexes of a home folder; a context manager, which lets go of all files.

    Parameters
    ----------
    home
        Made where it is missing.
    sync_s
        How often pods are synced. A pod that was not synced for too long is hidden from searches
        (`cloister.pods.sync_times`). Without it none is hidden.
    confirm_s
        How long pods may take to confirm the documents of one answer.
    read_rate
        Documents a second that searches may ask one pod's server for; no limit unless given.
    most_sync_s, most_sync_bytes
        How long one sync of one pod may take, and how much it may fetch of documents.
    """

    def __init__(
        self,
        home: str | Path,
        *,
        sync_s: float | None = None,
        confirm_s: float = CONFIRM_S,
        read_rate: float = math.inf,
        most_sync_s: float = MOST_SYNC_S,
        most_sync_bytes: float = math.inf,
    ) -> None:
        self.home = Path(home)
        self._most_sync_s, self._most_sync_bytes = most_sync_s, most_sync_bytes
        self.sync_s, self._confirm_s = sync_s, confirm_s
        self._read_rate = read_rate
        self.sync_times = SyncTimes(self.home)
        self._courtesy = Courtesy()
        self._gates: dict[PodId, PodGate] = {}
        self._hidden: dict[ServerId, tuple[float, frozenset[PodId]]] = {}
        self._open = ExitStack()
        self._shards: dict[ServerId, Shard] = {}
        self._stores: dict[str, Datastore] = {}
        self._clients: list[SolidClient] = []
        self._listed: tuple[tuple[int, int, int], dict[str, list[RegisteredPod]]] | None = None
        self._opening = threading.RLock()
        self._texts = TextStore(self.home / TEXTS)
        self._open.callback(self._texts.close)

    def __enter__(self) -> PodRegistry:
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go_of_pods()
        try:
            self.sync_times.flush()
        finally:
            self._open.close()

    def let_go_of_pods(self) -> None:
        """End all exchanges with servers of pods; those that are under way fail at once."""
        with self._opening:
            gates, clients = list(self._gates.values()), list(self._clients)
        for gate in gates:
            gate.close()
        self._courtesy.end()
        for client in clients:
            client.close()

    @property
    def is_home(self) -> bool:
        """Whether somebody added pods here, or tried to; they may be gone again."""
        if any((self.home / name).exists() for name in (PODS, LOCK)):
            return True
        there = {path.name for path in self.home.iterdir()} if self.home.is_dir() else set()
        return bool(there) and there <= {SYNCS, SYNCS_LOCK, UNFINISHED, TEXTS}

    @property
    def pods(self) -> dict[PodId, RegisteredPod]:
        """All pods, by name."""
        return {PodId(pod.pod_id): pod for pod in self._read("pods")}

    @property
    def server_pods(self) -> dict[ServerId, RegisteredPod]:
        """The pods that servers have for themselves, by server; they are not indexed."""
        return {ServerId(pod.server_id): pod for pod in self._read("server_pods")}

    def add(self, pod: RegisteredPod) -> None:
        """Add a pod; its name and its place must be new."""
        with self._changing():
            self.require_new(pod)
            self._write([*self.pods.values(), pod])

    @contextmanager
    def adding(self, pod: RegisteredPod) -> Iterator[None]:
        """List a pod once the body has indexed it; where that fails nothing stays of it.

        A pod whose process died in between is taken away by `finish_what_died`.
        """
        with self._unfinished({"adding": pod.model_dump()}):
            with self._changing():
                self.require_new(pod)
                self.shard(ServerId(pod.server_id))  # one that is damaged fails before the change
                self._write([*self.pods.values()], adding=[*self._read("adding"), pod])
            try:
                yield
                with self._changing():
                    self._write([*self.pods.values(), pod], adding=self._still_adding(pod))
            except BaseException:
                self._take_away(pod)
                raise

    def require_new(self, pod: RegisteredPod) -> None:
        """Raise where a pod cannot be added: its name, its place or its server is wrong."""
        require_names(pod)
        pods = [*self.pods.values(), *self._read("adding")]
        require_other_names(pod, pods)
        require_apart(pod, [*pods, *self.server_pods.values()], home=self.home)

    @contextmanager
    def changing_rights(self, documents: Sequence[tuple[DocId, RegisteredPod]]) -> Iterator[None]:
        """Let the rights of documents be changed, in their pods and in the index or in neither.

        The index of a folder's server is ours from the beginning: nobody gets in the way once the
        pod is changed. If this process dies in between, `finish_what_died` brings the index up.
        """
        named = [[doc_id, pod.pod_id] for doc_id, pod in documents]
        servers = sorted({ServerId(pod.server_id) for _, pod in documents if pod.kind == "folder"})
        with ExitStack() as held:
            for server_id in servers:
                held.enter_context(self.shard(server_id).writing())
            held.enter_context(self._unfinished({"rights": named}))
            yield

    def finish_what_died(self) -> None:
        """Bring to an end what processes left half done that died: adding pods, changing rights.

        Where a pod does not answer, that waits for the next time.
        """
        folder = self.home / UNFINISHED
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    self._finish(json.loads(stream.read()))
                except (ValueError, KeyError, SettingsError):
                    pass  # killed while it wrote the note: nothing was changed yet
                except CloisterError:
                    continue
                path.unlink()

    def _finish(self, change: dict[str, Any]) -> None:
        if "adding" in change:
            pod = RegisteredPod(**change["adding"])
            if PodId(pod.pod_id) not in self.pods:
                self._take_away(pod)
        for doc_id, pod_id in change.get("rights", ()):
            found = self.pods.get(PodId(pod_id))
            if found is not None:
                shard = self.shard(ServerId(found.server_id))
                etag = shard.etags(PodId(pod_id)).get(DocId(doc_id))
                if etag is not None:
                    now = rights_now(self.datastore(found), DocId(doc_id), etag)
                    shard.set_rights({DocId(doc_id): now})

    @contextmanager
    def _unfinished(self, change: dict[str, Any]) -> Iterator[None]:
        """Note a change under way; the note is gone at its end, and stays where we die."""
        folder = self.home / UNFINISHED
        with writing(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with incoming_file(folder) as note:
                note.stream.write(json.dumps(change).encode())
                note.stream.flush()
                os.fsync(note.stream.fileno())
                sync_folder(folder)
                yield

    def _still_adding(self, pod: RegisteredPod) -> list[RegisteredPod]:
        return [one for one in self._read("adding") if one.pod_id != pod.pod_id]

    def _take_away(self, pod: RegisteredPod) -> int:
        """Take all of a pod that is not listed out of the index; return how many documents."""
        shard = self.shard(ServerId(pod.server_id))
        n = shard.delete(list(shard.etags(PodId(pod.pod_id))))
        shard.commit()
        self._texts.retain(PodId(pod.pod_id), {})
        self.sync_times.flush(forget=[PodId(pod.pod_id)])
        with self._changing():
            self._write([*self.pods.values()], adding=self._still_adding(pod))
        return n

    def set_server_pod(self, pod: RegisteredPod) -> None:
        """Give a server its own pod; it has none yet."""
        with self._changing():
            self.require_new_server_pod(pod)
            self._write(list(self.pods.values()), [*self.server_pods.values(), pod])

    def require_new_server_pod(self, pod: RegisteredPod) -> None:
        """Raise where a server cannot have this pod, or has one already."""
        require_names(pod)
        if ServerId(pod.server_id) in self.server_pods:
            raise SettingsError(
                "this server has a pod of its own",
                where=pod.server_id,
                remedy="take it away with --remove",
            )
        require_apart(pod, [*self.pods.values(), *self.server_pods.values()])

    def unset_server_pod(self, server_id: ServerId) -> None:
        """Forget that a server has a pod; what is in the pod stays."""
        with self._changing():
            known = self.server_pods
            known.pop(server_id, None)
            self._write(list(self.pods.values()), list(known.values()))

    def remove(self, pod_id: PodId) -> int:
        """Forget a pod: take its documents out of the index; the pod itself stays as it is."""
        pod = self.pod(pod_id)
        with self._unfinished({"adding": pod.model_dump()}):  # what is left is taken away as well
            with self._changing():
                self.shard(ServerId(pod.server_id))  # one that is damaged fails before the change
                self._write([one for one in self.pods.values() if one.pod_id != pod_id])
            return self._take_away(pod)

    def pod(self, pod_id: str) -> RegisteredPod:
        """Return a pod; raise `NotFound` where there is none."""
        found = self.pods.get(PodId(pod_id))
        if found is None:
            raise NotFound("no such pod", where=pod_id, remedy="see: cloister pods list")
        return found

    def server_ids(self) -> list[ServerId]:
        """Return the servers that have a pod, in the order of their names."""
        return sorted({ServerId(pod.server_id) for pod in self.pods.values()})

    def shard(self, server_id: ServerId) -> Shard:
        """Return a server's index, made where it is missing."""
        with self._opening:
            return self._opened_shard(server_id)

    def _opened_shard(self, server_id: ServerId) -> Shard:
        if server_id not in self._shards:
            folder = self.home / "servers" / server_id
            with writing(folder):
                folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shard = Shard.open(folder, server_id=server_id)
            self._shards[server_id] = self._open.enter_context(shard)
        return self._shards[server_id]

    def datastore(self, pod: RegisteredPod) -> Datastore:
        """Return the pod itself."""
        found = self._stores.get(pod.address)
        if found is not None:
            return found
        # A folder may lie on a disk that hangs: nobody waits for it but who wants this pod.
        is_folder = pod.kind == "folder"
        opened = _folder_pod(pod) if is_folder else self._solid_pod(pod, Path(pod.credentials))
        with self._opening:
            return self._stores.setdefault(pod.address, opened)

    def texts(self, pod: RegisteredPod) -> PodTexts:
        """Return what is kept of a pod's texts."""
        keeping = pod.kind == "folder" or pod.keep_text
        return PodTexts(self._texts, PodId(pod.pod_id), keeping)

    def sync(self, pod: RegisteredPod) -> SyncCounts:
        """Bring a pod's documents, rights and kept texts up to date; see `cloister.pods.sync`."""
        watch = Stopwatch()
        try:
            with within(self._most_sync_s), self._courtesy.of(PodId(pod.pod_id)):
                counts = sync(
                    self.datastore(pod),
                    self.shard(ServerId(pod.server_id)),
                    index_in_pod=pod.index_in_pod,
                    texts=self.texts(pod),
                    most_bytes=self._most_sync_bytes,
                )
        except CutSync:  # rights are fresh, and that is what hiding is about
            self._note_sync(pod, watch)
            raise
        self._note_sync(pod, watch)
        return counts

    def erase_old_texts(self) -> None:
        """Erase the kept texts of pods that were not synced for a day.

        Nobody knows which of their documents are deleted by now.
        """
        times, now = self.sync_times.all(), time.time()
        for pod_id in self.pods:
            last = times.get(pod_id)
            if last is None or now - last.began > KEPT_S:
                self._texts.retain(pod_id, {})

    def _note_sync(self, pod: RegisteredPod, watch: Stopwatch) -> None:
        self.sync_times.note(PodId(pod.pod_id), watch.stop())
        self._hidden.pop(ServerId(pod.server_id), None)

    def hidden_pods(self, server_id: ServerId) -> frozenset[PodId]:
        """Return the pods of a server that were not synced for too long."""
        if self.sync_s is None:
            return frozenset()
        now = time.time()
        looked, found = self._hidden.get(server_id, (-math.inf, frozenset()))
        if not 0 <= now - looked < 1.0:
            times = self.sync_times.all()
            found = frozenset(
                pod_id
                for pod_id, pod in self.pods.items()
                if pod.server_id == server_id and is_stale(times.get(pod_id), self.sync_s, now)
            )
            self._hidden[server_id] = now, found
        return found

    def away_pods(self) -> frozenset[PodId]:
        """Return the pods that no search asks at the moment: they misbehave."""
        with self._opening:
            return frozenset(name for name, gate in self._gates.items() if gate.is_away)

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        """Say whether a document could not be shown a moment ago: it is too long or unreadable."""
        gate = self._gates.get(pod_id)
        return gate is not None and gate.is_aside(doc_id)

    def n_aside(self) -> int:
        """Return how many documents could not be shown a moment ago."""
        return sum(gate.n_aside() for gate in list(self._gates.values()))

    def datastore_as(self, pod: RegisteredPod, credentials: Path) -> Datastore:
        """Return a pod on a Solid server as somebody reaches it with their own credentials."""
        return self._solid_pod(pod, credentials)

    def owner_of(self, doc_id: DocId) -> RegisteredPod:
        """Return the pod in which a document is; raise as if it could not be read."""
        for server_id in self.server_ids():
            pod_id = self.shard(server_id).pod_of(doc_id)
            if pod_id is not None and pod_id in self.pods:
                return self.pods[pod_id]
        raise refused()

    def search_servers(
        self, vectors_of: Callable[[Reader], WordVectors] | None = None
    ) -> list[SearchServer]:
        """Return all servers; each looks at the pod before it shows a text.

        Parameters
        ----------
        vectors_of
            Gives a reader's own word vectors, and raises for anybody else's; called for each
            request.
        """
        return [self.search_server(name, vectors_of) for name in self.server_ids()]

    def search_server(
        self,
        server_id: ServerId,
        vectors_of: Callable[[Reader], WordVectors] | None = None,
    ) -> SearchServer:
        """Return one server, with or without pods; it looks at the pod before it shows a text."""
        opener, version = self._opener(server_id, vectors_of), self._version_of(server_id)
        return SearchServer(server_id, opener, version=version)

    def read_text(self, server_id: ServerId, doc_id: DocId, reader: Reader) -> str:
        """Return a text if its pod lets the reader read it now; else raise the one refusal.

        So it does too where the pod cannot be reached or read. A kept text is taken where the pod
        confirms its version; otherwise the document is fetched, and a child process reads it.
        """
        pod_id = self.shard(server_id).pod_of(doc_id)
        pod = None if pod_id is None else self.pods.get(pod_id)
        if pod is None:
            raise refused()
        try:
            return self.readers_pod(pod, reader).text(doc_id)
        except Exception:  # of a hostile answer a library may raise anything
            raise refused() from None

    def reading(self, reader: Reader) -> GuardedReading:
        """Return what asks pods for texts, as one reader."""
        return GuardedReading(_ReadersPods(self, reader), self._confirm_s)

    def gate(self, pod: RegisteredPod) -> PodGate:
        """Return the gate before a pod; what searches spend on a folder has no limit."""
        known = self._gates.get(PodId(pod.pod_id))
        if known is not None:
            return known
        rate = math.inf if pod.kind == "folder" else self._read_rate
        with self._opening:
            slow_s = min(SLOW_S, self._confirm_s / 3)
            made = PodGate(pod.pod_id, read_rate=rate, slow_s=slow_s)
            return self._gates.setdefault(PodId(pod.pod_id), made)

    def readers_pod(self, pod: RegisteredPod, reader: Reader) -> ReadersPod:
        """Return a pod as one reader reads it."""
        texts = self._texts if self.texts(pod).is_keeping else None
        return ReadersPod(self.datastore(pod), reader, texts)

    def _opener(
        self, server_id: ServerId, vectors_of: Callable[[Reader], WordVectors] | None
    ) -> Callable[[Reader], SearchNode]:
        shard = self.shard(server_id)

        def open_node(reader: Reader) -> SearchNode:
            return ShardNode(
                server_id,
                lambda: self._view(server_id, reader),
                pods=self.reading(reader),
                analysis=shard.analysis,
                vectors=None if vectors_of is None else lambda: vectors_of(reader),
            )

        return open_node

    def _version_of(self, server_id: ServerId) -> Callable[[Reader], int]:
        return lambda reader: self._view(server_id, reader).version

    def _view(self, server_id: ServerId, reader: Reader) -> ReaderView:
        self._courtesy.note_search()
        shard = self.shard(server_id)
        shard.hide(self.hidden_pods(server_id))
        return shard.view(reader)

    def _solid_pod(self, pod: RegisteredPod, credentials: Path) -> Datastore:
        from cloister.pods.solid_pod import SolidPod

        client = SolidClient(read_credentials(credentials), gate=self.gate(pod))
        with self._opening:
            self._clients.append(client)
        return SolidPod(client, pod.address, owner=AgentId(pod.owner))

    def _read(self, kind: str) -> list[RegisteredPod]:
        file = self.home / PODS
        if not file.exists():
            return []
        with explained(file):
            found = file.stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            known = self._listed
            if known is not None and known[0] == state:
                return known[1][kind]
            content = file.read_bytes()
        try:
            listed = {
                name: [RegisteredPod(**fields) for fields in pods]
                for name, pods in (dict.fromkeys(_KINDS, ()) | json.loads(content)).items()
            }
            self._listed = (state, listed)  # replaced as a whole: threads may share it
            return listed[kind]
        except (ValueError, KeyError, TypeError, ValidationError, SettingsError):
            raise Damaged(
                "the list of pods cannot be read", where=str(file), remedy="restore it from a copy"
            ) from None

    def _write(
        self,
        pods: list[RegisteredPod],
        server_pods: list[RegisteredPod] | None = None,
        adding: list[RegisteredPod] | None = None,
    ) -> None:
        kinds = {
            "pods": pods,
            "server_pods": list(self._read("server_pods")) if server_pods is None else server_pods,
            "adding": list(self._read("adding")) if adding is None else adding,
        }
        listed = {kind: [pod.model_dump() for pod in found] for kind, found in kinds.items()}
        with writing(self.home):
            replace_file(self.home / PODS, (json.dumps(listed, indent=1) + "\n").encode())

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Let nobody else change the list meanwhile."""
        lock = self.home / LOCK
        with writing(self.home):
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.touch(mode=0o600)
        with lock_held(lock, exclusive=True):
            yield


class _ReadersPods(PodFinding):
    """The pods of a home, as one reader reads them."""

    def __init__(self, registry: PodRegistry, reader: Reader) -> None:
        self._registry, self._reader = registry, reader

    def pods(self, pod_ids: Iterable[PodId]) -> dict[PodId, ReadablePod]:
        listed = self._registry.pods
        return {name: self._readable(listed[name]) for name in pod_ids if name in listed}

    def _readable(self, pod: RegisteredPod) -> ReadablePod:
        opened = partial(self._registry.readers_pod, pod, self._reader)
        return ReadablePod(opened, self._registry.gate(pod), pod.kind == "folder")

    def away(self) -> frozenset[PodId]:
        return self._registry.away_pods()

    def is_aside(self, doc_id: DocId, pod_id: PodId) -> bool:
        return self._registry.is_aside(doc_id, pod_id)

    def n_aside(self) -> int:
        return self._registry.n_aside()


def _folder_pod(pod: RegisteredPod) -> FolderPod:
    """Open a folder; one that says it is another pod could take documents from that pod."""
    try:
        opened = FolderPod.open(pod.address)
    except NotFound:
        raise NotFound(
            "the pod is not there any more",
            where=pod.address,
            remedy="put its folder back, or take the pod out: cloister pods remove, or --remove",
        ) from None
    if (opened.pod_id, opened.owner) != (pod.pod_id, pod.owner):
        raise DataError(
            "the folder says that it is another pod, or another owner's",
            where=pod.address,
            remedy=f"restore {DESCRIPTION} in it, or remove the pod and add it again",
        )
    return opened
