"""Experiments of search across pods: federations at the size of the ESPRESSO paper."""
