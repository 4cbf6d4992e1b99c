"""The description of a service."""

from __future__ import annotations

from cloister.web.limits import ServiceLimits
from web.small_service import small_service


def test_a_description_is_made_once() -> None:
    service = small_service(ServiceLimits())
    assert service.openapi() is service.openapi()
