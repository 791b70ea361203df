"""Measures: what services count of themselves, and how Prometheus comes by it."""
