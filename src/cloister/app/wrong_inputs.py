"""Wrong inputs for every command of the command line, and what each must be answered with.

Most are generated from the command tree: a new command, or a new option, is covered at once. The
rest was typed by people. An answer is right if its exit code is the expected one, if it names an
error and a remedy in one line and in one JSON object, and if it shows no traceback, no name of a
class and no control character. ``cloister bench wrong-inputs`` prints the list.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final, NamedTuple

import click

from cloister.app.lazy_commands import COMMANDS, load_command
from cloister.privacy.private_file import write_private_file

__all__ = ["Answer", "WrongInput", "answer", "faults", "made_scene", "run", "wrong_inputs"]

LONGEST_S: Final = 60.0  # a wrong input is refused before the work begins
HUGE: Final = str(10**20)
ESCAPES: Final = "\x1b[31mred\x07\udcff"  # colours, a bell, and a byte that is no UTF-8
WORLD: Final = "world:clinic?servers=2&pods=3&staff=2&queries=2"
FEATURES: Final = "world:features?queries=6&documents=4&features=3"
_SOURCE: Final = re.compile(r"\.py:\d+")
CREDENTIALS: Final = json.dumps(
    dict.fromkeys(("issuer", "client_id", "client_secret", "web_id"), "https://pod.example/me")
)
_CLASS_NAME: Final = re.compile(
    r"\b(?!OpenID|PostgreSQL|WebID|NVFlare|SuperLink|SuperNode|LambdaRank|FedAvg|TypeError)"
    r"[A-Z][a-z]+(?:[A-Z][a-z]+)+\b"
)


class WrongInput(NamedTuple):
    """What somebody types, and the exit code that is right."""

    kind: str
    arguments: tuple[str, ...]
    code: int


class Answer(NamedTuple):
    """What the command line answers."""

    code: int
    out: str
    err: str
    seconds: float


def wrong_inputs(scene: Path) -> list[WrongInput]:
    """Return all wrong inputs, for a scene of `made_scene`; none is there twice."""
    places = _places(scene)
    found = [*_generated(places), *_typed(places)]
    listed = {one.arguments: one for one in found}.values()
    return [one._replace(arguments=_fresh(one, places, n)) for n, one in enumerate(listed)]


def _fresh(one: WrongInput, places: dict[str, str], n: int) -> tuple[str, ...]:
    """Let every input name a new file of its own, where it names one."""
    return tuple(part.replace(places["new"], f"{places['new']}-{n}") for part in one.arguments)


def answer(arguments: Sequence[str]) -> Answer:
    """Run the command line in this process, with a time limit; in a terminal it does the same."""
    from cloister.app.command_line import main

    out, err = io.StringIO(), io.StringIO()
    began, before = time.monotonic(), sys.argv
    sys.argv = ["cloister", *arguments]
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _limited():
            main()
    except SystemExit as leaving:
        code = leaving.code
    except _TooLong:
        code = -1
    finally:
        sys.argv = before
    return Answer(int(code or 0), out.getvalue(), err.getvalue(), time.monotonic() - began)


def _without_free(text: str) -> str:
    """Return a message without what was free of the memory: that changes from call to call."""
    return re.sub(r"\d+ \w+ are free", "", text)


def faults(wanted: WrongInput, plain: Answer, as_json: Answer) -> list[str]:
    """Return what is wrong with the answers to a wrong input, given without and with --json."""
    found = []
    for given in (plain, as_json):
        if given.code != wanted.code:
            found.append(f"exit code {given.code} in place of {wanted.code}")
        if "Traceback" in given.err + given.out:
            found.append("a traceback")
        if "nobody expected" in given.err:
            found.append("an unexpected failure")
        if not _clean(given.err) or not _clean(given.out):
            found.append("a control character")
        if _SOURCE.search(given.err + given.out):
            found.append("a line of the source")
        if names := _CLASS_NAME.findall(given.err):
            found.append(f"the name of a class: {names[0]}")
    if plain.out:
        found.append("something on standard output")
    try:
        told = json.loads(as_json.out)
        if set(told) != {"error", "remedy"} or not all(told.values()):
            found.append("no error or no remedy")
        elif _without_free(f"error: {told['error']}; {told['remedy']}") not in _without_free(
            plain.err
        ):
            found.append("another message with --json than without")
    except ValueError:
        found.append("no JSON object")
    return list(dict.fromkeys(found))


def run(advance: Callable[[int, int], None]) -> dict[str, Any]:
    """Give every wrong input to the command line; return the figures and the list."""
    with TemporaryDirectory() as folder:
        scene = made_scene(Path(folder))
        inputs = wrong_inputs(scene)
        listed = []
        for done, one in enumerate(inputs, start=1):
            plain, as_json = answer(one.arguments), answer((*one.arguments, "--json"))
            found = faults(one, plain, as_json)
            listed.append(_line(one, plain, found, scene))
            advance(done, len(inputs))
    return {
        "wrong_inputs": len(listed),
        "with_exit_code_2": sum(one["exit_code"] == 2 for one in listed),
        "with_a_fault": sum(bool(one["faults"]) for one in listed),
        "list": listed,
    }


def _line(one: WrongInput, given: Answer, found: list[str], scene: Path) -> dict[str, Any]:
    from cloister.app.output import printable

    typed = printable(" ".join(("cloister", *map(_quoted, one.arguments))))
    last = given.err.strip().splitlines()[-1:] or [""]
    return {
        "kind": one.kind,
        "typed": typed.replace(f"{scene}/", ""),
        "exit_code": given.code,
        "expected": one.code,
        "answer": last[0].replace(f"{scene}/", ""),
        "seconds": round(given.seconds, 2),
        "faults": found,
    }


def _quoted(text: str) -> str:
    return f"'{text}'" if not text or re.search(r"[\s?&;*'\"\\]", text) else text


def _clean(text: str) -> bool:
    return all(one.isprintable() or one in "\n" for one in text)


class _TooLong(BaseException):
    """An answer took too long; no handler of failures is to catch it."""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# What is there for wrong inputs to be wrong about.


def made_scene(folder: Path) -> Path:
    """Make a home with a pod, a federation, keys, a sketch, a ledger and files of no use."""
    places = _places(folder)
    os.environ["CLOISTER_HOME"], os.environ["CLOISTER_LEDGER"] = places["home"], places["ledger"]
    pod, empty = Path(places["pod"]), Path(places["empty"])
    pod.mkdir()
    empty.mkdir()
    (pod / "a.txt").write_text("cough and fever")
    (folder / "letor.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    (folder / "frob.toml").write_text("frob = 1\n")
    (folder / "plain.txt").write_text("nothing of use\n")
    (folder / "junk.bin").write_bytes(bytes(range(256)) * 8 + b"\x1b[31m\xff\xfe")
    beir = Path(places["beir"])
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text('{"_id": "d", "title": "", "text": "cough"}\n')
    (beir / "queries.jsonl").write_text('{"_id": "q", "text": "cough"}\n')
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    write_private_file(Path(places["credentials"]), CREDENTIALS.encode())
    key, authority = places["key"], places["authority"]
    for arguments in (
        ("pods", "add", str(pod), "--owner", "bob"),
        ("grant", "pod/a.txt", "--public"),
        ("federation", "init", places["federation"], "--consent-unprotected", "ethics board"),
        ("sketch", "key", key),
        ("sketch", "build", WORLD, "--key", key, "--out", places["sketch"]),
        ("ledger", "limit", "clinic", "--epsilon", "3", "--new"),
        ("certs", "init", "--authority", authority, "--federation", "clinics"),
        ("certs", "issue", "node/b", "--authority", authority, "--out", places["authority"]),
        ("backup", places["ledger"], "--out", places["backup"]),
        ("token", "key", places["token"]),
    ):
        if (given := answer(arguments)).code:
            raise RuntimeError(f"{' '.join(arguments)}: {given.err}")
    _damage(places)
    return folder


def _damage(places: dict[str, str]) -> None:
    """Copy what was made, with a file of it overwritten."""
    for kept, copied, file in (
        ("home", "damaged_home", "servers/home/CURRENT"),
        ("authority", "damaged_authority", "authority.pem"),
        ("federation", "damaged_federation", "clinic-a/service.toml"),
    ):
        shutil.copytree(places[kept], places[copied])
        Path(places[copied], file).write_bytes(bytes(range(256)))
    Path(places["damaged_federation"], "operator", "operator-operator.pem").unlink()


def _places(scene: Path) -> dict[str, str]:
    """Return where everything lies, by name; ``missing`` and what begins with ``new`` does not."""
    files = {
        "letor": "letor.txt",
        "plain": "plain.txt",
        "junk": "junk.bin",
        "key": "key.bin",
        "sketch": "sketch.bin",
        "ledger": "ledger.db",
        "token": "token.key",
        "credentials": "credentials.json",
        "frob": "frob.toml",
        "backup": "backup.tar",
        "damaged_home": "damaged-home",
        "damaged_federation": "damaged-federation",
        "damaged_authority": "damaged-authority",
        "missing": "no/such/place",
        "new": "new.out",
    }
    folders = {name: name for name in ("home", "pod", "empty", "federation", "authority", "beir")}
    found = {name: str(scene / path) for name, path in (files | folders).items()}
    return found | {
        "roster": f"{found['federation']}/roster.json",
        "service": f"{found['federation']}/clinic-a/service.toml",
        "below": f"{found['plain']}/below",
        "world": WORLD,
        "features": FEATURES,
    }


# Commands that would work, but for the option that is made wrong; names in braces are places.
_WORKING: Final = {
    "console": "{federation}",
    "search": "cough --as bob",
    "grant": "pod/a.txt --to ann",
    "revoke": "pod/a.txt --from ann",
    "simulate": "--data {features} --clients 2 --rounds 1",
    "silos": "{world} --parties 2",
    "forget": "client-1 --federation {empty}",
    "reproduce": "foltr --quick",
    "bench": "startup",
    "data inspect": "{letor}",
    "data make": "{features} --to {new}",
    "ledger export": "{new}",
    "ledger limit": "clinic --epsilon 3",
    "attack leakage-abuse": "--data {world}",
    "attack rare-term": "--world {world}",
    "sketch key": "{key} --show",
    "sketch build": "{world} --key {key} --out {new}",
    "sketch release": "{world} --key {key} --out {new} --epsilon 4 --unrecorded",
    "sketch query": "{sketch} cough --key {key}",
    "sketch show": "{sketch}",
    "sketch add": "{sketch} {letor} --key {key}",
    "sketch delete": "{sketch} x",
    "pods add": "{empty} --owner bob",
    "pods sync": "",
    "pods remove": "pod",
    "pods server-pod": "home {new}",
    "federation init": "{new} --consent-unprotected board",
    "federation publish": "{federation} clinic-a",
    "federation search": "{federation} cough --as clinic-a:bob",
    "serve": "{service}",
    "certs init": "--authority {new} --federation clinics",
    "certs issue": "node/new --authority {authority} --out {new}",
    "certs request": "node/new --federation clinics --out {new}",
    "certs sign": "{junk} node/new --authority {authority} --out {new}",
    "certs renew": "node/new --authority {authority} --out {new}",
    "certs revoke": "node/new --authority {authority}",
    "certs list": "--authority {authority}",
    "certs crl": "--authority {authority}",
    "token key": "{new}",
    "token issue": "clinic-a:bob --federation clinics --node clinic-a --key {token}",
    "token show": "{plain}",
    "vectors base": "--min-count 1 --out {new}",
    "vectors train": "--as bob --min-count 1 --out {new}",
    "cloud train": "--data {world} --out {new}",
    "cloud build": "--data {world} --model {junk} --client {new}.c --out {new}",
    "cloud serve": "{empty} --token-file {key}",
    "cloud upload": "{junk} --server http://127.0.0.1:9 --token-file {key}",
    "cloud search": "cough --client {junk} --server http://127.0.0.1:9 --token-file {key}",
    "cloud show": "{junk}",
    "nvflare provision": "{new} --roster {roster}",
    "nvflare start": "{empty}",
    "nvflare stop": "{empty}",
    "nvflare status": "{empty}",
    "nvflare train": "{empty} --roster {roster}",
    "flower provision": "{new} --coordinator {roster}",
    "flower start": "{empty}",
    "flower stop": "{empty}",
    "flower status": "{empty}",
    "flower train": "{empty}",
    "backup": "{ledger} --out {new}",
    "restore": "{plain} --state {new}",
}


def _generated(places: dict[str, str]) -> Iterator[WrongInput]:
    yield WrongInput("no such command", ("frobnicate",), 2)
    yield WrongInput("no such option", ("--frobnicate",), 2)
    yield WrongInput("an empty word", ("search", "", "--as", "bob"), 2)
    for path, command in _leaves():
        working = [part.format(**places) for part in _WORKING.get(" ".join(path), "").split()]
        yield WrongInput("no such option", (*path, *working, "--frobnicate"), 2)
        params = command.get_params(click.Context(command, info_name=path[-1]))
        if any(param.required for param in params):
            yield WrongInput("nothing given", path, 2)
        elif all(isinstance(param, click.Option) for param in params):
            yield WrongInput("one argument more", (*path, "surplus"), 2)
        for turn, param in enumerate(params):
            yield from _wrong_values(path, working, param, turn, places)


def _leaves() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Give every command that does something, with its path."""
    waiting: list[tuple[tuple[str, ...], click.Command]]
    waiting = [((name,), load_command(name)) for name in COMMANDS]
    while waiting:
        path, command = waiting.pop(0)
        if isinstance(command, click.Group):
            waiting[:0] = [((*path, name), inner) for name, inner in command.commands.items()]
        else:
            yield path, command


_MADE: Final = frozenset(  # paths of what a command makes; others are read
    {
        ("certs init", "authority"),
        ("cloud build", "client"),
        ("cloud serve", "folder"),
        ("federation init", "folder"),
        ("flower provision", "folder"),
        ("nvflare provision", "folder"),
        ("restore", "files"),
        ("restore", "home"),
        ("restore", "included"),
        ("sketch key", "file"),
        ("token key", "file"),
    }
)
_TRIED_ALONE: Final = frozenset({"certs sign", "cloud build", "cloud search", "restore"})
_MADE_EVERYWHERE: Final = frozenset({"out", "to", "keep_updates"})
_FOLDERS: Final = frozenset(
    {"authority", "data", "federation", "files", "folder", "folders", "home", "operator", "places"}
)


def _wrong_values(
    path: tuple[str, ...],
    working: list[str],
    param: click.Parameter,
    turn: int,
    places: dict[str, str],
) -> Iterator[WrongInput]:
    """Give a command that would work but for the value of one parameter, which cannot be meant."""

    def wrong(kind: str, value: str, code: int = 2) -> WrongInput:
        arguments = _with_value(working, param, value)
        return WrongInput(f"{kind} for {param.opts[0]}", (*path, *arguments), code)

    kind = param.type
    if isinstance(kind, click.types.IntParamType):
        least = getattr(kind, "min", None)
        below = [("too small a number", str(least - 1))] if least is not None else []
        choices = [("a word", "many"), ("too large a number", HUGE), *below]
        yield wrong(*choices[turn % len(choices)])
    elif isinstance(kind, click.types.FloatParamType):
        yield wrong(*(("a word", "much"), ("no number", "nan"), ("no end", "inf"))[turn % 3])
    elif isinstance(kind, click.Choice):
        yield wrong("an unknown word", "nowhere")
    elif isinstance(kind, click.Path):
        yield wrong("an empty path", "")
        if " ".join(path) in _TRIED_ALONE:  # nothing is made here with which they would work
            return
        made = (" ".join(path), param.name) in _MADE or param.name in _MADE_EVERYWHERE
        if made:
            yield wrong("a path below a file", places["below"])
        else:
            if param.name not in ("home", "include"):  # made where it is missing; any kind
                yield wrong("a path to nothing", places["missing"])
            file_wanted = param.name not in _FOLDERS
            if param.name != "include":
                there = places["empty" if file_wanted else "plain"]
                yield wrong("a path of the wrong kind", there)


def _with_value(working: list[str], param: click.Parameter, value: str) -> list[str]:
    """Return arguments in which a parameter has another value."""
    if isinstance(param, click.Option):
        option = max(param.opts, key=len)
        if option in working:
            at = working.index(option)
            return [*working[: at + 1], value, *working[at + 2 :]]
        return [*working, option, value]
    first = next((at for at, part in enumerate(working) if part.startswith("-")), len(working))
    named = [] if value.startswith("-") else working[:first]
    places = {"documents": 1 if len(named) > 1 else 0, "who": len(named) - 1}
    at = places.get(param.name or "", 0)
    return [*named[:at], value, *named[at + 1 :], *working[first:]]


def _typed(places: dict[str, str]) -> Iterator[WrongInput]:
    """Give what people typed: what only a person would think of."""
    for line, code in _TYPED:
        arguments = tuple(part.format(escapes=ESCAPES, **places) for part in line.split())
        yield WrongInput("typed", arguments, code)


_TYPED: Final = (
    # sizes that fit nowhere
    (f"simulate --data {{features}} --clients {10**12}", 2),
    (f"simulate --data {{features}} --clients 2 --rounds {10**12}", 2),
    (f"simulate --data {{features}} --clients 2 --queries-per-round {10**15}", 2),
    ("simulate --data {features} --ranker mlp --hidden 1000000000000 --clients 2", 2),
    (f"simulate --data world:features?queries={10**8}&documents=125 --clients 2 --rounds 1", 2),
    (f"data inspect world:features?queries={10**8}", 2),
    (f"data inspect world:features?queries={10**15}", 2),
    (f"data inspect world:features?features={10**20}", 2),
    (f"data inspect world:intents?documents={10**12}", 2),
    (f"data inspect world:clinic?pods={10**12}", 2),
    (f"data inspect world:clinic?staff={10**18}", 2),
    (f"data make features?queries={10**9} --to {{new}}", 2),
    (f"sketch build world:clinic?servers={10**9} --key {{key}} --out {{new}}", 2),
    (f"attack poison --attack lie --attackers 1 --clients {10**13}", 2),
    (f"attack clicks --data {{features}} --clients {10**13}", 2),
    (f"attack rare-term --world world:clinic?pods={10**13}", 2),
    (f"federation init {{new}} --port {10**9} --consent-unprotected board", 2),
    # worlds and collections
    ("data inspect world:nowhere", 2),
    ("data inspect world:", 2),
    ("data inspect world:features?queries", 2),
    ("data inspect world:features?queries=many", 2),
    ("data inspect world:features?queries=-3", 2),
    ("data inspect world:features?queries=3&queries=4", 2),
    ("data inspect world:features?query=3", 2),
    ("data inspect {missing}", 2),
    ("data inspect {empty}", 2),
    ("data inspect {junk}", 1),
    ("data inspect {plain}", 1),
    ("data inspect {escapes}", 2),
    ("data inspect irds:nowhere/at/all", 2),
    ("data make nowhere --to {new}", 2),
    ("data make features?queries=4 --to {pod}", 2),
    ("silos {missing}", 2),
    ("silos {letor}", 2),
    ("silos {world} --parties 9", 2),
    ("silos {world} --delta 0.1", 2),
    ("silos {beir}", 2),
    # simulations
    ("simulate --data {junk}", 1),
    ("simulate --data {missing}", 2),
    ("simulate --data {features} --clients 0", 2),
    ("simulate --data {features} --clients -5", 2),
    ("simulate --data {features} --rounds 0", 2),
    ("simulate --data {features} --clients 3 --attackers 7 --attack lie", 2),
    ("simulate --data {features} --clients 3 --rule krum --expected-attackers 3", 2),
    ("simulate --data {features} --click-model nobody", 2),
    ("simulate --data {features} --epsilon -1", 2),
    ("simulate --data {features} --epsilon 1 --delta 2", 2),
    ("simulate --data {features} --clients 2 --rounds 1 --epsilon 1e-9", 2),
    ("simulate --data {features} --clients 2 --rounds 1 --epsilon 1 --clip-norm 1e300", 2),
    ("simulate --data {features} --clients 2 --rounds 1 --method es --sigma 1e300", 2),
    ("simulate --data {features} --clients 2 --rounds 1 --paper-epsilon 1e-300", 2),
    ("simulate --data {features} --seeds one,two", 2),
    (f"simulate --data {{features}} --seeds {10**14}", 2),
    (f"simulate --data {{features}} --seeds {HUGE}", 2),
    (f"simulate --data {{features}} --seeds 1,{HUGE}", 2),
    ("simulate --data {features} --vary clients", 2),
    ("simulate --data {features} --vary frobs=1,2", 2),
    ("simulate --data {features} --config {junk}", 2),
    ("simulate --data {features} --config {plain}", 2),
    ("simulate --data {features} --config {frob}", 2),
    ("simulate --data {letor} --fold 3", 2),
    ("simulate --data {features} --target-feature 99 --attack promote-feature --attackers 1", 2),
    ("forget client-1 --federation {pod}", 2),
    ("reproduce nothing", 2),
    ("reproduce foltr --only nothing", 2),
    ("bench everything", 2),
    # pods and searches
    ("pods add {plain} --owner bob", 2),
    ("pods add {missing} --owner bob", 2),
    ("pods add {empty}", 2),
    ("pods add {empty} --owner {escapes}", 2),
    ("pods add {empty} --owner bob --pod {escapes}", 2),
    ("pods add {empty} --owner bob --pod ..", 2),
    ("pods add {empty} --owner bob --server ../../etc", 2),
    ("pods add {pod} --owner bob", 2),
    ("pods add {pod} --owner ann", 2),
    ("pods add {empty} --owner bob --credentials {plain}", 2),
    ("pods add https://pod.example --owner bob", 2),
    ("pods add https://pod.example/ --credentials {junk}", 1),
    ("pods add https://[::1/x/ --credentials {credentials}", 2),
    ("pods add https://pod.example:port/x/ --credentials {credentials}", 2),
    ("pods add https://user:secret@pod.example/x/ --credentials {credentials}", 2),
    ("pods add http://pod.example/x/ --credentials {credentials}", 2),
    ("pods remove pod --home {damaged_home}", 1),
    ("pods add {empty} --owner bob --home {damaged_home}", 1),
    ("pods sync --home {damaged_home}", 1),
    ("pods add {home} --owner bob", 2),
    ("pods sync nowhere", 2),
    ("pods sync {escapes}", 2),
    ("pods remove nowhere", 2),
    ("pods server-pod home", 2),
    ("pods server-pod nowhere {new}", 2),
    ("pods list --home /proc", 2),
    ("pods list --home {plain}", 2),
    ("search cough --as bob --home /proc", 2),
    ("search cough --as bob --home {empty}", 2),
    ("search cough --as bob --home {missing}", 2),
    ("search cough --as {escapes}", 2),
    ("search " + "x" * 100_000 + " --as bob", 2),
    ("search cough --as bob --vectors {missing}", 2),
    ("search cough --as bob --model w2v-cosine --vectors {junk}", 1),
    ("search cough --as bob --model w2v-cosine --statistics global", 2),
    ("search cough --as bob --from-pods", 2),
    ("search cough --as bob -k 0", 2),
    ("grant pod/a.txt", 2),
    ("grant pod/a.txt --to {escapes}", 2),
    ("grant pod/nothing.txt --to ann", 2),
    ("grant {escapes} --to ann", 2),
    ("revoke pod/a.txt", 2),
    ("revoke nothing --from ann", 2),
    ("vectors base --min-count 1 --out {ledger}", 2),
    ("vectors base --min-count 1 --out {key} --force", 2),
    ("vectors train --as bob --min-count 1 --out {letor} --force", 2),
    ("vectors train --as nobody --out {new}", 1),
    ("vectors train --as bob --base {junk} --out {new}", 1),
    ("vectors train --as bob --base {junk} --public --out {new}", 2),
    # ledgers
    ("ledger show --ledger {missing}", 2),
    ("ledger show --ledger {junk}", 1),
    ("ledger show --ledger {empty}", 2),
    ("ledger show --ledger {pod}", 2),
    ("ledger show --ledger nosql://somewhere", 2),
    ("ledger show --ledger sqlite://host/ledger.db", 2),
    ("ledger show --ledger :memory:", 2),
    ("ledger show --ledger postgresql://user@[::1/ledger", 2),
    ("ledger show --ledger postgresql://user@db.example/ledger?sslmode=require", 2),
    ("ledger show --party nosuch", 2),
    ("ledger check --ledger {missing}", 2),
    ("ledger check --head zzz", 2),
    ("ledger export {new} --ledger {missing}", 2),
    ("ledger export {below}", 2),
    ("ledger export {ledger}", 2),
    ("ledger export {ledger} --force", 2),
    ("ledger export {key} --force", 2),
    ("ledger limit clinic --epsilon lots", 2),
    ("ledger limit clinic --epsilon nan", 2),
    ("ledger limit clinic --epsilon 3 --delta 1", 2),
    ("ledger limit clinic --epsilon 3 --ledger {missing}", 2),
    ("ledger limit {escapes} --epsilon 3", 2),
    # sketches
    ("sketch key {key}", 2),
    ("sketch key {missing} --show", 2),
    ("sketch key {junk} --show", 1),
    ("sketch build {plain} --key {key} --out {new}", 2),
    ("sketch build {world} --key {junk} --out {new}", 1),
    ("sketch build {world} --key {key} --out {sketch}", 2),
    ("sketch query {junk} cough --key {key}", 1),
    ("sketch query {sketch} cough --key {junk}", 1),
    ("sketch show {plain}", 1),
    ("sketch delete {sketch} nosuch", 2),
    ("sketch delete {sketch}", 2),
    ("sketch add {sketch} {junk} --key {key}", 1),
    ("sketch release {world} --key {key} --out {new} --epsilon 4", 2),
    ("sketch release {world} --key {key} --out {new} --epsilon 0 --unrecorded", 2),
    ("sketch release {world} --key {key} --out {new} --epsilon 4 --memory-mb 1e-5 --unrecorded", 2),
    # federations
    ("federation init {pod} --consent-unprotected board", 2),
    ("federation init {new} --nodes a,a --consent-unprotected board", 2),
    ("federation init {new} --nodes a --consent-unprotected board", 2),
    ("federation init {new} --nodes broker,a,b --consent-unprotected board", 2),
    ("federation init {new} --nodes {escapes} --consent-unprotected board", 2),
    ("federation init {new} --world --settle 1e308 --consent-unprotected board", 2),
    ("federation init {new} --round-every 1e308 --consent-unprotected board", 2),
    ("federation init {new} --min-nodes 9 --consent-unprotected board", 2),
    ("federation init {new} --name ../up --consent-unprotected board", 2),
    ("federation init {new} --epsilon 1 --rounds 10 --users 0", 2),
    ("federation status {missing}", 2),
    ("federation status {empty}", 2),
    ("federation status {plain}", 2),
    ("federation up {missing}", 2),
    ("federation up {damaged_federation}", 2),
    ("federation status {damaged_federation}", 2),
    ("federation round {damaged_federation}", 2),
    ("federation down {empty}", 2),
    ("federation round {federation}", 1),
    ("federation pause {federation}", 1),
    ("federation resume {federation}", 1),
    ("federation try {federation}", 1),
    ("federation decide {federation}", 1),
    ("federation rollback {federation}", 1),
    ("federation publish {federation} nowhere", 2),
    ("federation publish {federation} clinic-a", 1),
    ("federation search {federation} cough --as bob", 2),
    ("federation search {federation} cough --as nowhere:bob", 2),
    ("federation search {federation} cough --as clinic-a:bob", 1),
    ("federation search {federation} cough --as clinic-a:bob --click 0", 2),
    ("federation search {federation} " + "x" * 1001 + " --as clinic-a:bob", 2),
    ("federation exclude {federation} nowhere", 2),
    ("federation readmit {federation} nowhere", 2),
    ("console {empty}", 2),
    ("serve {junk}", 2),
    ("serve {plain}", 2),
    ("serve {federation}", 2),
    ("serve {roster}", 2),
    # certificates and tokens
    ("certs init --authority {authority} --federation clinics", 2),
    ("certs init --authority {new} --federation {escapes}", 2),
    ("certs issue nobody --authority {authority} --out {new}", 2),
    ("certs issue node/b --authority {authority} --out {authority}", 2),
    ("certs issue king/x --authority {authority} --out {new}", 2),
    ("certs issue node/{escapes} --authority {authority} --out {new}", 2),
    ("certs issue node/a --authority {empty} --out {new}", 2),
    ("certs issue node/a --authority {authority} --out {new} --host 999.1.1.1", 2),
    ("certs issue node/a --authority {authority} --out {new} --passphrase-file {missing}", 2),
    ("certs sign {junk} node/a --authority {authority} --out {new}", 1),
    ("certs revoke nobody --authority {authority}", 2),
    ("certs renew node/never --authority {authority} --out {new}", 2),
    ("certs list --authority {pod}", 2),
    ("certs issue node/a --authority {damaged_authority} --out {new}", 1),
    ("certs crl --authority {damaged_authority}", 1),
    ("certs revoke node/a --authority {damaged_authority}", 1),
    ("token key {token}", 2),
    ("token issue clinic-a:bob --federation clinics --node clinic-a --key {junk}", 1),
    ("token issue clinic-b:bob --federation clinics --node clinic-a --key {token}", 2),
    ("token issue clinic-a:bob --federation {escapes} --node clinic-a --key {token}", 2),
    ("token show {junk}", 1),
    ("token show {missing}", 2),
    # engines
    ("nvflare provision {new} --roster {junk}", 1),
    ("nvflare provision {new} --roster {letor}", 1),
    ("nvflare start {empty}", 2),
    ("flower provision {new}", 2),
    ("flower start {empty}", 2),
    ("flower status {missing}", 2),
    # backups
    ("backup", 2),
    ("backup {missing} --out {new}", 2),
    ("backup {junk} --out {new}", 1),
    ("backup --check {missing}", 2),
    ("backup --check {plain}", 1),
    ("backup {ledger} --out {below}", 2),
    ("backup {ledger} --check {plain}", 2),
    ("backup {federation} --out {new}", 2),
    ("backup postgresql://user@[::1/x --out {new}", 2),
    ("restore {backup} --state {pod}", 2),
    ("restore {backup} --state {ledger}", 2),
    ("restore {backup} --state :memory:", 2),
    ("restore {plain} --state {new}", 1),
    ("restore {missing} --state {new}", 2),
    ("restore {plain} --state {ledger} --lost-epsilon 3 --nothing-released-since", 2),
    # the cloud
    ("cloud train --data {missing} --out {new}", 2),
    ("cloud show {junk}", 1),
    ("cloud serve {empty} --token-file {missing}", 2),
    ("cloud serve {empty} --token-file {key} --host 0.0.0.0", 2),
    ("cloud upload {missing} --server http://127.0.0.1:9 --token-file {key}", 2),
    ("cloud search cough --client {missing} --server nowhere --token-file {key}", 2),
    # attacks
    ("attack nothing", 2),
    ("attack poison --attack nothing", 2),
    ("attack distinguish --mechanism nothing", 2),
    ("attack distinguish --epsilon 0", 2),
    ("attack distinguish --confidence 2", 2),
    ("attack clicks --data {missing}", 2),
    ("attack membership --data {junk}", 1),
    ("attack rare-term --world {letor}", 2),
    ("attack term-frequency --data {missing}", 2),
)
