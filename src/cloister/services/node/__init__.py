"""The node: next to the data. Documents, index, clicks, local updates."""
