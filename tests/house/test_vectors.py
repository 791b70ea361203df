"""Every case of Kubernetes' own tables is run by a test that is called by it, and by one module alone."""

from __future__ import annotations

import collections
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import vector_cases

TESTS = Path(__file__).parents[1]


def modules_by_id() -> dict[str, set[str]]:
    """The modules of all tests that are called by a case, by its name; asked of pytest itself."""
    modules = [str(path) for path in TESTS.rglob("test_*.py") if "vector_cases" in path.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *modules]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    found = collections.defaultdict(set)
    for line in done.stdout.splitlines():
        if test := re.fullmatch(r"([^:]+)::\w+\[(.*)\]", line):
            found[test[2]].add(test[1])
    return found


@pytest.fixture(scope="module")
def claims() -> dict[str, set[str]]:
    return modules_by_id()


def test_every_case_of_webhooks_is_run_by_one_module(claims: dict[str, set[str]]) -> None:
    cases = vector_cases.webhooks()
    wrong = {
        case["source"]: sorted(claims.get(case["source"], ()))
        for case in cases
        if len(claims.get(case["source"], ())) != 1
    }
    assert not wrong
    assert len(cases) > 200


def test_no_two_cases_have_one_name() -> None:
    names = [vector_cases.source(case) for case in vector_cases.webhooks()]
    assert len(set(names)) == len(names)
