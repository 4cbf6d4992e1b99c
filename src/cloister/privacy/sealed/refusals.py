"""Why a message is not opened."""

from __future__ import annotations

from cloister.core.errors import AccessDenied

__all__ = ["MessageRefused", "Replayed"]


class MessageRefused(AccessDenied):
    """A message cannot be opened, or may not be; nothing was changed.

    The same bytes will be refused again: take them from the queue and tell their sender.
    """

    usual_remedy = "drop the message and ask its sender to send it again"


class Replayed(MessageRefused):
    """The message was accepted before; a relay that delivers at least once does this."""

    usual_remedy = "acknowledge it to the relay and do nothing else"
