"""Ranking on an untrusted server: term closures, the closed soft match map, private trees."""
