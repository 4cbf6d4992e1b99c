"""Documents are hostile: child processes read them, within limits, and a parent that survives."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cloister
from cloister.core.errors import DataError, StoreError
from cloister.pods.document_text import MAX_DEPTH, UNSEEN, text_of
from cloister.pods.extraction import pool as pool_module
from cloister.pods.extraction.child import KINDS
from cloister.pods.extraction.pool import Extracted, ExtractionPool, RawDocument, extraction_pool
from cloister.pods.pod_gate import SearchTally

PAGE, DATA, TEXT = "text/html", "application/json", "text/plain"


@pytest.fixture
def pool() -> Iterator[ExtractionPool]:
    made = ExtractionPool(4)
    yield made
    made.close()


def hostile_child(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let children run this in the place of `checked_text`, in all else as they are."""
    start = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from cloister.pods.extraction import child\n"
        "import os, socket, time, ctypes, resource\n"
        "honest = child.checked_text\n"
        "def hostile(content, kind):\n"
        "    if b'evil' not in content: return honest(content, kind)\n"
        f"    {body}\n"
        "child.checked_text = hostile\n"
        "child.main()"
    )
    monkeypatch.setattr(pool_module, "_START", start)


class Oracle(HTMLParser):
    """The standard library's parser, for pages that are sound."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.unseen = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self.unseen and tag in UNSEEN:
            self.unseen = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self.unseen:
            self.unseen = ""

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data)


WORDS = st.sampled_from(["cough", "dry cough", "&amp;", "&eacute;t&eacute;", "&#233;", "5 &lt; 6"])
ATTRIBUTES = st.sampled_from(
    ["", " class=x", ' title="a > b"', " title='\"'", " hidden", ' a = "b"']
)
SOUND = st.recursive(
    WORDS | st.sampled_from(["<br>", "<!-- dry -->", "<img src=x />", "<!DOCTYPE html>"]),
    lambda inner: (
        st.builds(
            lambda tag, attributes, parts: f"<{tag}{attributes}>{' '.join(parts)}</{tag}>",
            st.sampled_from(["p", "div", "B", "td", "h1"]),
            ATTRIBUTES,
            st.lists(inner, max_size=4),
        )
        | st.builds(
            lambda tag, text: f"<{tag}>{text}</{tag}>",
            st.sampled_from(["script", "style", "SCRIPT"]),
            st.sampled_from(["x()", "if (a < b) {}", "'<b>'"]),
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(SOUND, max_size=5))
def test_a_sound_page_has_the_words_that_the_standard_library_finds(parts: list[str]) -> None:
    page = " ".join(parts)
    oracle = Oracle()
    oracle.feed(page)
    oracle.close()
    assert text_of(page.encode(), PAGE).split() == " ".join(oracle.parts).split()


def test_json_is_read_to_a_depth_and_no_deeper() -> None:
    for kind in ("[", '{"a":'):
        end = "]" if kind == "[" else "}"
        deep = kind * MAX_DEPTH + "7" + end * MAX_DEPTH
        assert text_of(deep.encode(), DATA) == "7"
        with pytest.raises(DataError, match="deeper"):
            text_of(f"[{deep}]".encode(), DATA)
    assert text_of(b"9" * 100_000, DATA) == "9" * 100_000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=300), st.sampled_from(KINDS)), max_size=8))
def test_whatever_bytes_come_the_parent_gets_an_answer_for_each(
    documents: list[tuple[bytes, str]],
) -> None:
    found = extraction_pool().extract_all([RawDocument(*one) for one in documents])
    assert [timeless(one) for one in found] == [literal(*one) for one in documents]


def timeless(found: Extracted) -> Extracted:
    return found._replace(used_s=0.0)


def literal(content: bytes, kind: str) -> Extracted:
    try:
        return Extracted(text_of(content, kind))
    except DataError as error:
        return Extracted(failure=error.what)


def test_many_documents_are_read_in_their_order(pool: ExtractionPool) -> None:
    found = pool.extract_all([RawDocument(b"cough %d" % n, TEXT) for n in range(10_000)])
    assert [one.text for one in found] == [f"cough {n}" for n in range(10_000)]
    assert pool.n_ended == 0


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (b" ".join(b"%d" % n for n in range(250_001)), TEXT, "more than 250,000 different words"),
        (b"[" * 1_000_000, DATA, "deeper than 50 levels"),
        (b"\xff", TEXT, "not UTF-8"),
        (b"x", "application/pdf", "not a text"),
    ],
)
def test_a_document_that_exceeds_a_limit_fails_alone(
    pool: ExtractionPool, content: bytes, kind: str, reason: str
) -> None:
    found = pool.extract_all(
        [RawDocument(b"dry", TEXT), RawDocument(content, kind), RawDocument(b"cough", TEXT)]
    )
    assert [one.text for one in found] == ["dry", "", "cough"]
    assert reason in found[1].failure
    assert found[1].is_lasting


def test_a_word_of_16_mb_is_read_and_costs_little(pool: ExtractionPool) -> None:
    begin = time.process_time()
    assert len(pool.extract(RawDocument(b"x" * 16_000_000, TEXT))) == 16_000_000
    assert time.process_time() - begin < 1


def test_a_document_that_computes_for_ever_ends_its_child_and_no_other_document(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_child(monkeypatch, "while True: pass")
    documents = [RawDocument(text, TEXT) for text in (b"dry", b"evil", b"cough")]
    begin = time.process_time()
    found = pool.extract_all(documents)
    assert time.process_time() - begin < 1  # this process only waits
    assert [one.text for one in found] == ["dry", "", "cough"]
    assert 1.5 <= found[1].used_s <= 2.1  # the timer that ends it counts by samples
    reason = "took more than 2.0 s of CPU time"
    assert timeless(found[1]) == Extracted("", reason, is_costly=True)
    assert pool.n_ended == 1
    again = time.monotonic()
    assert pool.extract_all(documents)[1].failure == found[1].failure
    assert time.monotonic() - again < 1  # it is not tried again
    assert pool.n_ended == 1


@pytest.mark.parametrize(
    ("body", "least_s", "most_s"),
    [
        ("while time.process_time() < 0.4: pass\n    return 'said'", 0.2, 1.0),
        ("while True: pass", 1.5, 2.1),  # 2 s for a document of this size
        ("while True: time.sleep(0.01)", 0.0, 0.1),
        ("return 'said'", 0.0, 0.1),
    ],
)
def test_a_search_is_charged_for_what_children_compute(
    pool: ExtractionPool,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    least_s: float,
    most_s: float,
) -> None:
    hostile_child(monkeypatch, body)
    pool.extract_all([RawDocument(b"dry", TEXT)])  # starts a child; nobody is charged
    search = SearchTally()
    with search.counting(), suppress(DataError, StoreError):
        pool.extract(RawDocument(b"evil", TEXT), deadline_s=4)
    assert least_s <= search.used_s <= most_s


def test_many_pods_of_costly_documents_leave_a_child_to_others(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = "begin = time.process_time()"
    hostile_child(
        monkeypatch, f"{begins}\n    while time.process_time() < begin + 0.3: pass\n    return 'x'"
    )
    names = [f"m{n}" for n in range(8)]
    for name in names[:4]:
        pool.extract(RawDocument(b"evil", TEXT), pod_id=name, deadline_s=30)

    def costs(name: str) -> None:
        with suppress(StoreError):
            pool.extract(RawDocument(b"evil", TEXT), pod_id=name, deadline_s=30)

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(costs, name) for name in names[:4] for _ in range(2)]
        time.sleep(0.1)
        assert pool.extract(RawDocument(b"cough", TEXT), pod_id="ann", deadline_s=1.0) == "cough"
        assert sum(not one.done() for one in asked) >= 6
        for one in asked:
            one.cancel()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: pass", DataError),  # it is the document's own fault
        ("time.sleep(600)", StoreError),  # and here perhaps that of others
    ],
)
def test_a_deadline_is_the_documents_fault_where_it_computed(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch, body: str, kind: type[Exception]
) -> None:
    hostile_child(monkeypatch, body)
    with pytest.raises(kind, match="not read within 1 s"):
        pool.extract(RawDocument(b"evil", TEXT), deadline_s=1)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os.abort()", "ended with status"),
        ("os._exit(3)", "ended with status 3"),
        ("ctypes.string_at(0)", "ended with status -11"),
        ("os.write(1, b'\\x09' * 10_000)", "no answer"),
        (
            "os.write(1, b'\\x00' * 9 + b'\\x00\\x00\\x00\\x00\\x00\\xff\\xff\\xff\\xff')",
            "no answer",
        ),
    ],
)
def test_a_child_that_crashes_or_answers_nonsense_is_replaced(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    hostile_child(monkeypatch, body + "; return 'said'")
    found = pool.extract_all([RawDocument(b"evil", TEXT), RawDocument(b"fine", TEXT)])
    assert pool.extract(RawDocument(b"cough", TEXT)) == "cough"
    if "write" not in body:
        assert reason in found[0].failure
        assert found[1].text == "fine"


def test_a_document_that_needs_too_much_memory_fails_alone(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_child(monkeypatch, "return 'x' * 800_000_000")
    found = pool.extract_all([RawDocument(b"evil", TEXT), RawDocument(b"cough", TEXT)])
    failure = "needs more than 768 MB of memory"
    assert timeless(found[0]) == Extracted(failure=failure, is_costly=True)
    assert timeless(found[1]) == Extracted("cough")


def test_a_child_that_does_nothing_is_ended_at_the_deadline(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_child(monkeypatch, "time.sleep(600)")
    begin = time.monotonic()
    with pytest.raises(StoreError, match=r"not read within 0.5 s"):
        pool.extract(RawDocument(b"evil", TEXT), deadline_s=0.5)
    assert time.monotonic() - begin < 10
    assert pool.extract(RawDocument(b"cough", TEXT)) == "cough"


FORBIDDEN = {
    "a socket": "socket.socket()",
    "a socket of this machine": "socket.socket(socket.AF_UNIX)",
    "a pair of sockets": "socket.socketpair()",
    "a file": "open('/etc/passwd')",
    "a new file": "os.open('/tmp/evil', os.O_CREAT | os.O_WRONLY)",
    "a folder": "os.listdir('/')",
    "a process": "os.fork()",
    "a program": "os.execv('/bin/true', ['true'])",
    "a signal": "os.kill(os.getppid(), 0)",
    "its priority": "os.setpriority(os.PRIO_PROCESS, 0, 0)",
    "another descriptor": "os.dup(0)",
    "its limits": "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))",
}


@pytest.mark.parametrize("wanted", FORBIDDEN)
def test_a_child_can_have_no_network_no_file_and_no_process(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    hostile_child(monkeypatch, _tried(FORBIDDEN[wanted]))
    refusal = "ValueError" if wanted == "its limits" else "PermissionError"  # Python's choice
    assert pool.extract(RawDocument(b"evil", TEXT)) == refusal


def _tried(statement: str) -> str:
    return (
        f"try: {statement}\n"
        "    except (OSError, ValueError) as error: return type(error).__name__\n"
        "    return 'had it'"
    )


def test_a_child_has_no_secrets_no_files_and_the_lowest_priority(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLOISTER_SECRET", "secret")
    with (tmp_path / "open").open("w") as opened:
        os.set_inheritable(opened.fileno(), True)
        pool.extract(RawDocument(b"cough", TEXT))
        (child,) = pool._free
        place = Path("/proc", str(child._process.pid))
        assert (place / "environ").read_bytes() == b""
        assert sorted(one.name for one in (place / "fd").iterdir()) == ["0", "1", "2"]
        assert os.getpriority(os.PRIO_PROCESS, child._process.pid) == 19
        limits = (place / "limits").read_text()
        for line in (
            "Max cpu time 60 60",
            "Max file size 0 0",
            "Max core file size 0 0",
            "Max processes 0 0",
            "Max open files 3 3",
            "Max address space 768000000 768000000",
        ):
            assert line in " ".join(limits.split())
        status = (place / "status").read_text().split()
        assert status[status.index("Seccomp:") + 1] == "2"
        assert status[status.index("NoNewPrivs:") + 1] == "1"


def test_a_child_imports_no_numpy_and_little_else() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); import cloister.pods.extraction.child; "
        "print(*sys.modules)"
    )
    package = str(Path(cloister.__file__).parent.parent)
    told = run(
        [sys.executable, "-I", "-S", "-c", code, package], capture_output=True, check=True, env={}
    )
    loaded = told.stdout.decode().split()
    assert not {"numpy", "numba", "pydantic", "cryptography", "socket"} & set(loaded)
    assert len(loaded) < 120


def test_a_machine_that_cannot_confine_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    start = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "import platform; platform.machine = lambda: 'sparc'\n"
        "from cloister.pods.extraction.child import main; main()"
    )
    monkeypatch.setattr(pool_module, "_START", start)
    with pytest.raises(StoreError, match="cannot be confined: no filter"):
        ExtractionPool().extract(RawDocument(b"cough", TEXT))


def test_children_end_with_their_parent() -> None:
    code = (
        "from cloister.pods.extraction.pool import *\n"
        "import os\n"
        "pool = ExtractionPool()\n"
        "pool.extract(RawDocument(b'cough', 'text/plain'))\n"
        "print(pool._free[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    told = run([sys.executable, "-c", code], capture_output=True)
    assert told.returncode == -signal.SIGKILL
    place = Path("/proc", told.stdout.decode().strip(), "cmdline")
    until = time.monotonic() + 10
    while place.exists() and place.read_bytes() and time.monotonic() < until:
        time.sleep(0.02)
    assert not place.exists() or not place.read_bytes()


def test_a_pod_that_keeps_its_children_busy_starves_nobody(
    pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_child(monkeypatch, "time.sleep(600)")
    monkeypatch.setattr(pool_module, "SYNC_DEADLINE_S", 3.0)
    stop = threading.Event()

    def keep_busy(number: int) -> None:
        while not stop.is_set():
            pool.extract_all([RawDocument(b"evil %d" % number, TEXT)], pod_id="mallory")

    def search(number: int) -> None:
        while not stop.is_set():
            evil = RawDocument(b"evil search %d" % number, TEXT)
            with suppress(DataError):
                pool.extract(evil, pod_id="mallory", deadline_s=2)

    with ThreadPoolExecutor(12) as threads:
        for number in range(4):
            threads.submit(keep_busy, number)
            threads.submit(search, number)
        time.sleep(1)
        begin = time.monotonic()
        for number in range(20):
            assert pool.extract(RawDocument(b"cough %d" % number, TEXT), pod_id="ann")
            assert pool.extract_all([RawDocument(b"fever", TEXT)], pod_id="ann")[0].text == "fever"
        took_s = time.monotonic() - begin
        stop.set()
    assert took_s < 2


def test_a_process_that_was_forked_has_a_pool_of_its_own() -> None:
    code = (
        "from cloister.pods.extraction.pool import *\n"
        "import os\n"
        "pool = extraction_pool()\n"
        "assert pool.extract(RawDocument(b'cough', 'text/plain')) == 'cough'\n"
        "if not os.fork():\n"
        "    assert extraction_pool() is not pool\n"
        "    assert extraction_pool().extract(RawDocument(b'dry', 'text/plain')) == 'dry'\n"
        "    os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n"
        "assert pool.extract(RawDocument(b'cough', 'text/plain')) == 'cough'\n"
    )
    assert run([sys.executable, "-c", code]).returncode == 0


def test_values_of_json_come_in_their_order() -> None:
    value = {"a": [1, {"b": "x"}, [2.5, None]], "c": True, "d": "y"}
    assert text_of(json.dumps(value).encode(), DATA) == "1\nx\n2.5\ny"
