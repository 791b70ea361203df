"""Test suites for ``pratique test``: reading, running, comparing, writing and reporting their cases."""

from pratique.apimachinery.documents import SUITE_GROUP

API_VERSION = f"{SUITE_GROUP}/v1"
"""The version of the file format."""

KIND = "TestSuite"
"""The kind of a suite's document."""
