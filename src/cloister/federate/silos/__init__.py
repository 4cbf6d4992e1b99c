"""Learning to rank across silos: parties keep documents and queries, and train on both."""
