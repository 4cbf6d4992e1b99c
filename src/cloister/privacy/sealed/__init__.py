"""Messages between parties through a relay that sees nothing of their content.

`Sender.seal` makes an envelope for one recipient; `Receiver.open` opens it, once, inside the
caller's transaction. `Prekeys` are the recipient's keys that are destroyed again, so that old
envelopes can no longer be read by anybody. A `Relay` stores envelopes and passes them on.
``docs/sealed-messages.md`` says what is guaranteed against whom, and what is not.
"""
