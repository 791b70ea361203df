"""Bytes to the suites of ``pratique test``, up to cases that could be run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.seed_files import files
from pratique.apimachinery.errors import InputError
from pratique_cli.suites.reading import find_suites, read_cases
from support.policy_suites import HEAD, case, deployment, write_suite


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Write the policies that suites name."""
    file = write_suite(folder, HEAD)
    (folder / "pod.yaml").write_text(deployment())

    def attempt(data: bytes) -> bool:
        file.write_bytes(data)
        problems: list[InputError] = []
        cases = list(read_cases(find_suites([file], problems), problems))
        assert cases or problems
        assert all(str(file) in str(problem) for problem in problems)
        return any(one.full_name for one in cases)

    yield attempt


def seeds() -> Iterator[bytes]:
    """The suite of the examples, and some with every member."""
    yield from files("*/suite.yaml")
    request = (
        "request: {operation: update, old: pod.yaml, user: ann, groups: [a], dryRun: true}\nphase: mutate"
    )
    expectations = [
        "{allowed: true}",
        "{allowed: false, code: 422, reason: Invalid, message: 'at most', warnings: [], patch: []}",
        "{object: pod.yaml, contains: {spec: {replicas: 1}}, unchanged: true, fixedPoint: true}",
        "{steps: [{controller: a, outcome: denied, reason: b}], expanded: [{allowed: true}], auditAnnotations: {a: b}}",
    ]
    for expectation in expectations:
        yield (HEAD + case(expectation, further=request)).encode()
        yield (HEAD + case(expectation, manifest="pod.yaml", further="cluster: [{kind: Pod}]")).encode()
