"""ESPRESSO."""
