"""Personal datastores, the nodes that serve them, and the overlay between nodes."""
