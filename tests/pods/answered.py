"""Answers a Solid client's requests by a function, without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx

from cloister.pods.http_transport import AnswerTaking, PodTransport

__all__ = ["Answered"]


class Answered(PodTransport):
    def __init__(self, handler: Callable[[httpx.Request], httpx.Response]) -> None:
        self._handler = handler

    def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        answer: AnswerTaking,
    ) -> int:
        found = self._handler(httpx.Request(method, url, headers=dict(headers), content=content))
        answer.take_line(b"HTTP/1.1 %d\r\n" % found.status_code)
        for name, value in found.headers.raw:
            answer.take_line(name + b": " + value + b"\r\n")
        answer.take_line(b"\r\n")
        if method != "HEAD" and found.content:
            answer.take_piece(found.content)
        return found.status_code

    def close(self) -> None:
        pass
