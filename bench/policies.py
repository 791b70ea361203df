"""Measure what policies in CEL cost: ``make bench``.

An ordinary expression by itself; ``/validate`` with a hundred bound policies against one; and the 99th percentile of
other reviews while a policy is evaluated that goes through all that an expression may cost.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from run import REVIEW, Figures, load, medians

from pratique.cel.budgets import Budget
from pratique.cel.environments import Environment
from pratique.cel.expressions import compile_expression
from stacks import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSONObject

EVALUATIONS = 20_000
ROUNDS = 5
SECONDS = 2.0
EXPRESSION = "object.spec.containers.all(c, c.image.startsWith('registry.example/'))"
TARGETS = {"expression": 40.0, "hundred": 4.0, "slow": 2.0}
"""Microseconds, and two ratios."""
TEN = "[1,2,3,4,5,6,7,8,9,0]"
MILLION = f"{TEN}.all(a, " * 6 + "true" + ")" * 6
"""A million steps, which is more than an expression may cost."""


def policy(name: str, expression: str, resource: str) -> list[JSONObject]:
    """A policy and what binds it."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [
        {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "failurePolicy": "Ignore",
                "validations": [{"expression": expression}],
            },
        },
        {
            **head,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def microseconds_of_an_expression() -> float:
    """Median time of one evaluation on a Pod of four containers."""
    containers = [{"name": f"c{number}", "image": f"registry.example/c{number}:1"} for number in range(4)]
    variables = {"object": {"spec": {"containers": containers}}}
    expression = compile_expression(EXPRESSION, Environment(), "bool")
    times = []
    for _ in range(EVALUATIONS):
        budget = Budget(10_000_000)
        begun = time.perf_counter()
        expression.evaluate(variables, budget)
        times.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times)


@contextlib.contextmanager
def stack(folder: Path, documents: list[JSONObject]) -> Iterator[int]:
    """A front door and a validator with these policies; gives the front door's port."""
    folder.mkdir()
    (folder / "policies.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
    chain = ("--admission-control", "ValidatingAdmissionPolicy", "--config", str(folder))
    with contextlib.ExitStack() as running:
        _, validator = running.enter_context(
            process("-m", "pratique_cli", "serve", "validator", "--port", "0", *chain)
        )
        _, port = running.enter_context(
            process(
                "-m", "pratique_cli", "serve", "frontdoor", "--port", "0", *chain,
                "--validator", f"127.0.0.1:{validator}", "--mutator", f"127.0.0.1:{validator}",
            )
        )  # fmt: skip
        yield port


def ratio_of_a_hundred(folder: Path) -> float:
    """p50 of ``/validate`` with a hundred matching policies, by that with one."""
    expression = "object.spec.containers.all(c, c.image != '')"
    many = [part for number in range(100) for part in policy(f"p{number}", expression, "pods")]
    with (
        stack(folder / "one", policy("p", expression, "pods")) as one,
        stack(folder / "many", many) as hundred,
    ):
        runs: dict[int, list[Figures]] = {one: [], hundred: []}
        for _ in range(ROUNDS):
            for port, found in runs.items():
                found.append(load("http", port, 1, SECONDS, "/validate"))
    return medians(runs[hundred])["p50"] / medians(runs[one])["p50"]


def ratio_beside_a_slow_one(folder: Path) -> float:
    """p99 of ``/validate`` while a policy is evaluated elsewhere that costs all it may, by that without."""
    slow = json.loads(REVIEW.read_text())
    slow["request"]["resource"]["resource"] = "configmaps"
    slow["request"]["kind"]["kind"] = "ConfigMap"
    (folder / "slow.json").write_text(json.dumps(slow))
    documents = policy("quick", "true", "pods") + policy("slow", MILLION, "configmaps")
    with stack(folder / "slow", documents) as port:
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(load("http", port, 1, SECONDS, "/validate"))
            with in_background(port, folder / "slow.json"):
                beside.append(load("http", port, 1, SECONDS, "/validate"))
    return medians(beside)["p99"] / medians(alone)["p99"]


@contextlib.contextmanager
def in_background(port: int, body: Path) -> Iterator[None]:
    """One caller whose reviews are slow, for as long as the block takes."""
    task = {"kind": "http", "port": port, "path": "/validate", "connections": 1, "seconds": 2 * SECONDS}
    loads = str(Path(__file__).with_name("loads.py"))
    with subprocess.Popen(
        [sys.executable, loads], stdin=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
    ) as one:
        assert one.stdin is not None
        one.stdin.write(json.dumps({**task, "body": str(body)}))
        one.stdin.close()
        time.sleep(0.5)
        try:
            yield
        finally:
            one.terminate()


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "expression": microseconds_of_an_expression(),
            "hundred": ratio_of_a_hundred(folder),
            "slow": ratio_beside_a_slow_one(folder),
        }
    for what, text in (
        ("expression", "an expression over four containers: {:.1f} µs, target {:g} µs"),
        ("hundred", "/validate, p50 with 100 policies by that with 1: {:.2f}, target {:g}"),
        ("slow", "/validate, p99 beside a million steps by that alone: {:.2f}, target {:g}"),
    ):
        print(text.format(found[what], TARGETS[what]))


if __name__ == "__main__":
    main()
