"""The addresses of a server that keeps private indexes.

=======  ====================================  ===================================================
PUT      ``/indexes/{id}``                     store an index, in the place of one that is there
GET      ``/indexes/{id}``                     its counts and sizes
DELETE   ``/indexes/{id}``                     remove it
POST     ``/indexes/{id}/rank``                a `cloister.cloud.rank_request.RankRequest`
GET      ``/indexes/{id}/documents/{number}``  a document's text, sealed, if it was stored
GET      ``/health``                           whether the server answers; needs no token
=======  ====================================  ===================================================

Every other request needs the bearer token. Whoever has it may do all of the above; it does not open
boxes. Errors are JSON objects with ``error`` and ``remedy``, and name no file.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cloister.cloud.index_folder import IndexFolder, IndexUpload
from cloister.cloud.rank_request import RankRequest
from cloister.core.errors import (
    AccessDenied,
    CloisterError,
    DataError,
    NotFound,
    SettingsError,
)
from cloister.core.settings import Settings
from cloister.web.limits import ServiceLimits
from cloister.web.metrics import ServiceMetrics

__all__ = ["CloudServiceLimits", "cloud_service"]

_CHUNK_BYTES: Final = 1 << 20
_FAILED: Final = 500
_GONE_AWAY: Final = 400  # nobody reads it


class CloudServiceLimits(Settings):
    """What a server takes from others.

    Parameters
    ----------
    max_index_bytes
        Of one index.
    max_indexes
        Kept at a time.
    max_request_bytes
        Of a query.
    max_requests
        Worked on at a time; more are told to come later.
    max_connections
        Open at a time; those that wait make room for new ones.
    head_s
        For a request's head, from its first byte or from the beginning of a connection.
    idle_s
        A client that sends nothing, or reads nothing, for so long is given up.
    upload_s
        For a whole body.
    """

    max_index_bytes: int = Field(default=16 << 30, ge=1)
    max_indexes: int = Field(default=100, ge=1)
    max_request_bytes: int = Field(default=16 << 20, ge=1)
    max_requests: int = Field(default=64, ge=1)
    max_connections: int = Field(default=512, ge=1)
    head_s: float = Field(default=10.0, gt=0)
    idle_s: float = Field(default=30.0, gt=0)
    upload_s: float = Field(default=86_400.0, gt=0)

    def of_connections(self, *, one_address: bool) -> ServiceLimits:
        """Return what holds for connections; a proxy's clients all have one address."""
        usual = ServiceLimits()
        most = self.max_connections if one_address else usual.max_connections_of_address
        return ServiceLimits(
            head_s=self.head_s,
            idle_s=self.idle_s,
            body_s=self.upload_s,
            max_connections=self.max_connections,
            max_connections_of_address=min(most, self.max_connections),
        )


class _TooLong(CloisterError):
    """More was sent than is taken."""

    usual_remedy = "send less"


class _Busy(CloisterError):
    """More requests are worked on than the server takes."""

    usual_remedy = "try again later"


def cloud_service(folder: IndexFolder, token: str, limits: CloudServiceLimits) -> FastAPI:
    """Return the service over a folder of indexes."""
    service = FastAPI(title="Cloister private indexes", openapi_url=None)
    service.state.metrics = ServiceMetrics()  # of connections; no address shows them
    service.add_exception_handler(CloisterError, _told)
    service.add_exception_handler(HTTPException, _told_status)
    service.add_exception_handler(RequestValidationError, _told_invalid)
    service.add_exception_handler(Exception, _told_nothing)

    @service.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    service.include_router(_Routes(folder, token, limits).router())
    return service


class _Routes:
    """What is done at each address."""

    def __init__(self, folder: IndexFolder, token: str, limits: CloudServiceLimits) -> None:
        self._folder, self._limits = folder, limits
        self._token = token.encode()
        self._n_requests = 0

    def router(self) -> APIRouter:
        """Return the routes, all behind the token."""
        router = APIRouter(prefix="/indexes/{index_id}", dependencies=[Depends(self._admit)])
        router.add_api_route("", self._put, methods=["PUT"], status_code=204)
        router.add_api_route("", self._describe, methods=["GET"])
        router.add_api_route("", self._delete, methods=["DELETE"], status_code=204)
        router.add_api_route("/rank", self._rank, methods=["POST"], response_model=None)
        router.add_api_route(
            "/documents/{number}", self._document, methods=["GET"], response_model=None
        )
        return router

    async def _admit(self, request: Request) -> AsyncIterator[None]:
        """Let in who has the token, while there is room; no body is read before."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), self._token):
            raise AccessDenied("the token is missing or wrong", remedy="send the server's token")
        if self._n_requests >= self._limits.max_requests:
            raise _Busy("the server works on as many requests as it takes")
        self._n_requests += 1
        try:
            yield
        finally:
            self._n_requests -= 1

    async def _put(self, index_id: str, request: Request) -> Response:
        try:
            with self._folder.upload(index_id) as upload:
                await self._receive(request, upload)
                await run_in_threadpool(upload.settle)
        except ClientDisconnect:
            return Response(status_code=_GONE_AWAY)
        return Response(status_code=204)

    async def _describe(self, index_id: str) -> dict[str, Any]:
        server = await run_in_threadpool(self._folder.server, index_id)
        return {"index_id": index_id, **server.description()}

    async def _delete(self, index_id: str) -> Response:
        await run_in_threadpool(self._folder.remove, index_id)
        return Response(status_code=204)

    async def _rank(self, index_id: str, request: Request) -> Response:
        content = bytearray()
        try:
            async for chunk in self._chunks(request, self._limits.max_request_bytes):
                content += chunk
        except ClientDisconnect:
            return Response(status_code=_GONE_AWAY)
        answer = await run_in_threadpool(self._answer, index_id, bytes(content))
        return Response(answer, media_type="application/json")

    async def _document(self, index_id: str, number: int) -> Response:
        server = await run_in_threadpool(self._folder.server, index_id)
        sealed = await run_in_threadpool(server.document_text, number)
        return Response(sealed, media_type="application/octet-stream")

    def _answer(self, index_id: str, content: bytes) -> bytes:
        server = self._folder.server(index_id)
        return server.rank(RankRequest.from_json(content)).to_json()

    async def _receive(self, request: Request, upload: IndexUpload) -> None:
        waiting = bytearray()
        async for chunk in self._chunks(request, self._limits.max_index_bytes):
            waiting += chunk
            if len(waiting) >= _CHUNK_BYTES:
                await run_in_threadpool(upload.write, bytes(waiting))
                waiting.clear()
        await run_in_threadpool(upload.write, bytes(waiting))

    async def _chunks(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes, up to a size, from a client that keeps sending."""
        said = request.headers.get("content-length", "0")
        if not said.isdecimal() or int(said) > limit:
            raise _TooLong(f"at most {limit} bytes are taken")
        n_bytes, parts = 0, request.stream()
        while True:
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    chunk = await anext(parts)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise DataError("the body did not come", remedy="send it again") from None
            n_bytes += len(chunk)
            if n_bytes > limit:
                raise _TooLong(f"at most {limit} bytes are taken")
            yield chunk


_STATUS: Final[tuple[tuple[type[CloisterError], int], ...]] = (
    (_TooLong, 413),
    (_Busy, 503),
    (AccessDenied, 401),
    (NotFound, 404),
    (DataError, 400),
    (SettingsError, 400),
)


def _refusal(status: int, what: str, remedy: str) -> JSONResponse:
    return JSONResponse({"error": what, "remedy": remedy}, status)


async def _told(request: Request, error: Exception) -> Response:
    if not isinstance(error, CloisterError):
        return await _told_nothing(request, error)
    statuses = (status for kind, status in _STATUS if isinstance(error, kind))
    status = next(statuses, _FAILED)
    return _refusal(status, error.what, error.remedy)


async def _told_status(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else _FAILED
    return _refusal(status, "there is nothing of this kind at this address", "check the address")


async def _told_invalid(_: Request, __: Exception) -> Response:
    return _refusal(400, "the address cannot be read", "check the address")


async def _told_nothing(_: Request, __: Exception) -> Response:
    return _refusal(_FAILED, "the server failed", "see the server's log")
