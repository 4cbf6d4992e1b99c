"""Messages between services: JSON by type, or bytes.

A JSON body is a `Message`: typed, frozen, with a version, and no fields that are not known; what is
of another type is refused, not turned into the right one. Routes that take or give bytes say so by
`binary_body` and `binary_answer`, so that the service's description names them and its limits for
bytes hold::

    @router.post("/v1/updates", **binary_body("a masked update"), **binary_answer("a receipt"))
    def take(content: BinaryBody, caller: Annotated[Caller, allowed(Role.NODE)]) -> BinaryAnswer:
        return BinaryAnswer(receive(content))
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, field_validator
from starlette.requests import ClientDisconnect

from cloister.core.errors import DataError
from cloister.web.limits import ServiceLimits
from cloister.web.refusals import TooLong

__all__ = [
    "BINARY",
    "BinaryAnswer",
    "BinaryBody",
    "Message",
    "binary_answer",
    "binary_body",
    "read_binary",
]

BINARY: Final = "application/octet-stream"
_SCHEMA: Final = {"type": "string", "format": "binary"}


class Message(BaseModel):
    """Base of all JSON messages.

    Examples
    --------
    >>> class Ask(Message):
    ...     round: int
    >>> Ask(round=3).model_dump_json()
    '{"version":1,"round":3}'
    """

    # strict: "yes" is no bool and "3" no number, as the service's description says
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    version: Literal[1] = 1

    @field_validator("*", mode="before")
    @classmethod
    def _one_kind_of_number(cls, value: object) -> object:
        """Take 84.0 for 84: JSON has one kind of number."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


class BinaryAnswer(Response):
    """An answer of bytes."""

    media_type = BINARY


def binary_body(text: str) -> dict[str, Any]:
    """Return what a route's decorator takes to say that its body is bytes."""
    content = {BINARY: {"schema": _SCHEMA}}
    body = {"description": text, "required": True, "content": content}
    return {"openapi_extra": {"requestBody": body}}


def binary_answer(text: str) -> dict[str, Any]:
    """Return what a route's decorator takes to say that its answer is bytes."""
    answer = {"description": text, "content": {BINARY: {"schema": _SCHEMA}}}
    return {"response_class": BinaryAnswer, "response_model": None, "responses": {200: answer}}


async def read_binary(request: Request, limits: ServiceLimits | None = None) -> bytes:
    """Return a body of bytes, read as it comes and cut at the limit.

    A service made by `cloister.web.service.make_service` cuts at its own limit already; ``limits``
    is for a smaller one.
    """
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk
            if limits is not None and len(content) > limits.max_binary_bytes:
                raise TooLong(f"at most {limits.max_binary_bytes} bytes are taken")
    except ClientDisconnect:
        raise DataError("the body did not come", remedy="send it again") from None
    return bytes(content)


async def _content(request: Request) -> bytes:
    return await read_binary(request)


BinaryBody = Annotated[bytes, Depends(_content)]
