"""Suites: cases for ``pratique test``, which say what a chain is to decide. Read, run, compared and written here."""

from pratique.apimachinery.documents import SUITE_GROUP

API_VERSION = f"{SUITE_GROUP}/v1"
"""The version of the file format."""

KIND = "TestSuite"
"""The kind of its documents."""
