"""The ledger: every release recorded with its payload before it may be sent, or refused."""
