"""Search over many servers: choose sources, rank, merge, explain."""
