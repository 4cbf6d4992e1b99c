"""Parties with documents of their own that learn to rank together: worlds and experiments."""
