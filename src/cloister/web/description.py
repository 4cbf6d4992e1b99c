"""A service's description in OpenAPI: what FastAPI writes, our refusals, roles, identity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cloister.web.admission import RouteRule

__all__ = ["describe"]

_REFUSED: Final = {
    "type": "object",
    "title": "Refused",
    "required": ["error", "remedy"],
    "properties": {"error": {"type": "string"}, "remedy": {"type": "string"}},
}
_ANSWER: Final = {"application/json": {"schema": {"$ref": "#/components/schemas/Refused"}}}
_SCHEMES: Final = {
    "token": {"type": "http", "scheme": "bearer"},
    "certificate": {"type": "mutualTLS"},
}
_OF_FASTAPI: Final = ("HTTPValidationError", "ValidationError")  # we refuse in our own form


def describe(service: FastAPI, rules: Iterable[RouteRule]) -> dict[str, Any]:
    """Return the OpenAPI document of a service."""
    document = get_openapi(title=service.title, version=service.version, routes=service.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _OF_FASTAPI:
        schemas.pop(name, None)
    schemas["Refused"] = _REFUSED
    components["securitySchemes"] = _SCHEMES
    for rule in rules:
        for method in rule.route.methods or ():
            operation = document["paths"].get(rule.route.path_format, {}).get(method.lower())
            if operation is not None:
                _complete(operation, rule)
    return document


def _complete(operation: dict[str, Any], rule: RouteRule) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    for status, text in (("4XX", "Refused"), ("5XX", "Failed")):
        answers.setdefault(status, {"description": text, "content": _ANSWER})
    if not rule.open:
        operation["security"] = [{"token": []}, {"certificate": []}]
        operation["x-roles"] = sorted(rule.roles)
