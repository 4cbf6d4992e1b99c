"""Both databases for what the online loop keeps."""

from store.conftest import address, database, open_database, server

__all__ = ["address", "database", "open_database", "server"]
