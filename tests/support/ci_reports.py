"""Reports for CI systems, read as their consumers read them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest
from jsonschema.protocols import Validator

SCHEMA = Path(__file__).parents[1] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json"


@functools.cache
def _validator() -> Validator:
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text()))


def read_sarif(log: str | bytes) -> dict[str, Any]:
    """Parse a SARIF log, validate it against the schema of SARIF 2.1.0, and return its only run."""
    parsed = json.loads(log)
    faults = [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(parsed)]
    assert not faults
    (run,) = parsed["runs"]
    found: dict[str, Any] = run
    return found


def read_junit(report: str) -> junitparser.JUnitXml:
    """Parse a JUnit report, and check that the counts of suites match their cases."""
    parsed = junitparser.JUnitXml.fromstring(report.encode())
    for suite in parsed:
        said, seconds = (suite.tests, suite.failures, suite.errors, suite.skipped), suite.time
        suite.update_statistics()  # type: ignore[no-untyped-call]  # junitparser's own; it rounds times
        assert said == (suite.tests, suite.failures, suite.errors, suite.skipped)
        assert seconds == pytest.approx(suite.time, abs=0.001)
    return parsed
