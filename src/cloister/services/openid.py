"""An OpenID provider's public keys, over HTTPS: fetched when they are needed, kept for a while.

The provider is found by its discovery document (OpenID Connect Discovery 1.0), which must name the
very issuer that was asked for. Nothing else of it is used but where its keys are.

*Guaranteed*, against whoever cannot break TLS or the certificate authorities that are trusted:
the keys are the provider's, not older than ``max_age_s``. *Not protected:* a provider can name any
of the agents with its prefix. A key that it withdraws is believed here for up to ``refresh_s`` and
the moment in which the first token after that brings new keys; while the provider does not answer,
or nobody comes, for up to ``max_age_s``.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from cloister.core.errors import (
    CloisterError,
    DataError,
    MissingDependency,
    SettingsError,
    StoreError,
    kind_in_words,
)
from cloister.core.settings import Settings
from cloister.pods.overlay.token_keys import Algorithm, read_keys
from cloister.web.addresses import is_loopback

if TYPE_CHECKING:
    import httpx

__all__ = ["MAX_WAITING", "KeyCache", "OpenIdSettings", "fetch_keys", "require_unbound"]

DISCOVERY: Final = "/.well-known/openid-configuration"
MAX_DOCUMENT_BYTES: Final = 262_144
MAX_KEYS: Final = 64
MAX_WAITING: Final = 4  # fewer than the threads that identify callers (web.admission)
_STEPS: Final = 4  # to connect and to read, twice
MIN_REFRESH_S: Final = 60.0  # an unknown key id brings no more requests than one a minute

_log = logging.getLogger(__name__)


def require_unbound(bound: bool) -> bool:
    """Refuse settings with which nobody could come in."""
    if bound:
        raise ValueError(
            "no route takes proofs from users, so that nobody could come in: leave it out, and "
            "keep tokens short (max_lifetime_s)"
        )
    return bound


class OpenIdSettings(Settings):
    """A provider whose tokens a node believes about its users.

    Parameters
    ----------
    issuer
        Its address, exactly as in ``iss``; ``https``, or ``http`` on this machine.
    audience
        What must be in ``aud``: the node's own name at the provider.
    ca_file
        Certificates that the provider's own is checked against, in PEM; the system's unless given.
    agent_claim, agent_prefix
        A user is called ``NODE:`` + prefix + claim. A claim that people can change, such as a mail
        address, lets them become somebody else.
    groups_claim, group_prefix
        The same of groups; an empty claim believes no groups.
    algorithms
        How tokens may be signed. ``none`` and shared secrets never are.
    bound
        Whether tokens must be bound to a key of their holder: cannot be set, since no route takes
        proofs from users yet.
    max_lifetime_s, clock_skew_s
        Tokens for longer are refused; by how much the provider's clock may be ahead.
    untyped_access_tokens
        Whether access tokens are taken whose header has ``typ: JWT`` or none, as Keycloak sends
        them. Unless set, only ``at+jwt`` (RFC 9068) is: an ID token, which the provider gives to
        every web application for its users, is then never taken for an access token. Where it is
        set, a token must have a scope (``scope`` or ``scp``), and is refused with ``nonce``,
        ``at_hash``, ``c_hash``, ``s_hash``, ``events``, or a ``token_use`` or ``typ`` of another
        kind.
    timeout_s
        For each step of a request to the provider, and for reading an answer.
    refresh_s, max_age_s
        When keys are fetched again; when keys are dropped that could not be.
    """

    issuer: str
    audience: str = Field(min_length=1)
    ca_file: Path | None = None
    agent_claim: str = Field(default="sub", min_length=1)
    agent_prefix: str = ""
    groups_claim: str = "groups"
    group_prefix: str = ""
    algorithms: tuple[Algorithm, ...] = Field(
        default=("Ed25519", "EdDSA", "ES256", "PS256", "RS256"), min_length=1
    )
    bound: bool = False
    max_lifetime_s: float = Field(default=5_400.0, gt=0, le=86_400.0)
    clock_skew_s: float = Field(default=30.0, ge=0, le=300.0)
    untyped_access_tokens: bool = False
    timeout_s: float = Field(default=5.0, gt=0, le=60.0)
    refresh_s: float = Field(default=3_600.0, ge=MIN_REFRESH_S)
    max_age_s: float = Field(default=86_400.0, ge=MIN_REFRESH_S)

    _unbound = field_validator("bound")(require_unbound)

    @field_validator("issuer")
    @classmethod
    def _reachable(cls, issuer: str) -> str:
        _checked_address(issuer)
        if "?" in issuer or "#" in issuer:
            raise ValueError("an issuer has neither ? nor #")
        return issuer

    def below(self, folder: Path) -> Self:
        """Return the settings with their paths as seen from everywhere."""
        ca_file = None if self.ca_file is None else folder / self.ca_file
        return self.model_copy(update={"ca_file": ca_file})


class KeyCache:
    """One provider's keys; threads may share it.

    They are fetched in a thread of their own. Whoever has a known key never waits for that. With
    an unknown one few wait, so that strangers who invent keys cannot hold up others while a
    provider is silent; the rest is refused until the keys are there.

    Parameters
    ----------
    settings
        The provider.
    take
        Told the new key set whenever one was fetched; may raise `SettingsError`.
    drop
        Told when the keys are too old.
    waiting
        How many may wait at a time, for all providers together.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        settings: OpenIdSettings,
        take: Callable[[dict[str, Any]], None],
        drop: Callable[[], None],
        *,
        waiting: threading.Semaphore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._take, self._drop, self._clock = settings, take, drop, clock
        self._waiting = waiting or threading.Semaphore(MAX_WAITING)
        self._lock = threading.Lock()  # for moments only, never while the provider is asked
        self._key_ids: frozenset[str] = frozenset()
        self._fetched_s = self._tried_s = float("-inf")
        self._done = threading.Event()
        self._done.set()

    def ensure(self, key_id: str) -> None:
        """See that a key is there, if the provider has it, and that none is too old."""
        with self._lock:
            self._drop_old()
            known = key_id in self._key_ids
            if not known or self._age_s() > self._settings.refresh_s:
                self._begin()
            done = self._done
        if known or done.is_set() or not self._waiting.acquire(blocking=False):
            return
        try:
            done.wait(_STEPS * self._settings.timeout_s)
        finally:
            self._waiting.release()

    def _age_s(self) -> float:
        return self._clock() - self._fetched_s

    def _drop_old(self) -> None:
        if self._key_ids and self._age_s() > self._settings.max_age_s:
            self._key_ids = frozenset()
            self._drop()

    def _begin(self) -> None:
        """Fetch in the background, unless somebody does, or did within the last minute."""
        now_s, done = self._clock(), threading.Event()
        if not self._done.is_set() or now_s - self._tried_s < MIN_REFRESH_S:
            return
        threading.Thread(target=self._fetch, args=(now_s, done), daemon=True).start()
        self._tried_s, self._done = now_s, done

    def _fetch(self, began_s: float, done: threading.Event) -> None:
        try:
            key_set = fetch_keys(self._settings)
            with self._lock:
                self._take(key_set)
                self._fetched_s = began_s
                self._key_ids = frozenset(one["kid"] for one in key_set["keys"])
        except CloisterError as error:
            _log.warning("keys of %s: %s", self._settings.issuer, error.what)
        finally:
            done.set()


def fetch_keys(settings: OpenIdSettings) -> dict[str, Any]:
    """Return the provider's public keys of the kinds that may sign, as a JSON Web Key Set."""
    with _client(settings) as http:
        found = _document(http, settings.issuer.rstrip("/") + DISCOVERY, settings)
        if found.get("issuer") != settings.issuer:
            raise DataError("the provider calls itself otherwise", where=settings.issuer)
        address = found.get("jwks_uri")
        if not isinstance(address, str):
            raise DataError("the provider does not say where its keys are", where=settings.issuer)
        try:
            listed = _document(http, _checked_address(address), settings).get("keys")
        except ValueError as error:
            raise DataError(str(error), where=settings.issuer) from None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise DataError("no keys, or too many", where=settings.issuer)
    return {"keys": [one for one in listed if _is_usable(one, settings)]}


def _is_usable(key: Any, settings: OpenIdSettings) -> bool:
    """Say whether a published key signs tokens as the settings allow; others are passed over."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig":
        return False
    try:
        read_keys(settings.issuer, {"keys": [key]}, settings.algorithms)
    except SettingsError:
        return False
    return isinstance(key["kid"], str)


def _document(http: httpx.Client, url: str, settings: OpenIdSettings) -> dict[str, Any]:
    """Fetch one JSON object, of bounded size, in bounded time; redirects are not followed."""
    import httpx

    deadline_s = time.monotonic() + settings.timeout_s
    content = bytearray()
    try:
        with http.stream("GET", url, headers={"accept": "application/json"}) as answer:
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > MAX_DOCUMENT_BYTES or time.monotonic() > deadline_s:
                    raise StoreError("the answer is too long or too slow", where=url)
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise StoreError(f"no answer ({kind_in_words(error)})", where=url) from None
    try:
        found = json.loads(bytes(content)) if status == 200 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise DataError(f"not a JSON object (status {status})", where=url)
    return found


def _client(settings: OpenIdSettings) -> httpx.Client:
    try:
        import httpx
    except ImportError:
        raise MissingDependency(
            "OpenID providers need httpx", remedy="pip install 'cloister[services]'"
        ) from None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError):
        raise SettingsError(
            "cannot be read as certificates in PEM", where=str(settings.ca_file)
        ) from None
    headers = {"accept-encoding": "identity"}  # what is counted is what is read
    return httpx.Client(
        timeout=settings.timeout_s, verify=context, trust_env=False, headers=headers
    )


def _checked_address(url: str) -> str:
    """Return an address where nobody on the way can answer in the provider's place."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("not an address") from None
    local = parts.scheme == "http" and is_loopback(host)
    if not host or "@" in parts.netloc or not (parts.scheme == "https" or local):
        raise ValueError("a provider is found over https, or on this machine")
    return url
