"""What policies in CEL cost: an ordinary expression by itself, and reviews beside one that costs all it may."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from deployments import configured, deployed
from measures import REVIEW, Effort, Section, Shape, Target, load, medians, tell

from pratique.apimachinery.json_values import JSONObject
from pratique.cel.costs import Budget
from pratique.cel.environments import Environment
from pratique.cel.expressions import compile_expression

EVALUATIONS = 20_000
EXPRESSION = "object.spec.containers.all(c, c.image.startsWith('registry.example/'))"
CHEAP = "object.spec.containers.all(c, c.image != '')"
"""What most expressions in policies are like: a look at each container."""
TEN = "[1,2,3,4,5,6,7,8,9,0]"
MILLION = f"{TEN}.all(a, " * 6 + "true" + ")" * 6
"""A million steps, which is more than an expression may cost."""
ALONE, BESIDE = "alone", "beside a million steps"


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


def measure_expression() -> Section:
    """One evaluation on a Pod of four containers."""
    containers = [{"name": f"c{number}", "image": f"registry.example/c{number}:1"} for number in range(4)]
    variables = {"object": {"spec": {"containers": containers}}}
    expression = compile_expression(EXPRESSION, Environment(), "bool")
    times = []
    for _ in range(EVALUATIONS):
        budget = Budget(10_000_000)
        begun = time.perf_counter()
        expression.evaluate(variables, budget)
        times.append(time.perf_counter() - begun)
    return {"an expression over four containers": {"whole": {"p50": statistics.median(times)}}}


def measure_beside_a_slow_one(effort: Effort, folder: Path) -> Section:
    """``/validate``, alone and while a policy is evaluated elsewhere that costs all it may."""
    slow = json.loads(REVIEW.read_text())
    slow["request"]["resource"]["resource"] = "configmaps"
    slow["request"]["kind"]["kind"] = "ConfigMap"
    body = folder / "slow.json"
    body.write_text(json.dumps(slow))
    documents = policy("quick", "true", "pods") + policy("slow", MILLION, "configmaps")
    with deployed(configured(folder, "slow", documents, "ValidatingAdmissionPolicy")) as ours:
        target, alone, beside = ours.target("/validate"), [], []
        for number in range(effort.rounds):
            tell(f"beside a slow policy, round {number + 1} of {effort.rounds}")
            alone.append(load(target, Shape(), seconds=effort.seconds))
            with in_background(target, body, 2 * effort.seconds + 2):
                beside.append(load(target, Shape(), seconds=effort.seconds))
    tell("")
    return {"/validate": {ALONE: medians(alone), BESIDE: medians(beside)}}


@contextlib.contextmanager
def in_background(target: Target, body: Path, seconds: float) -> Iterator[None]:
    """One caller whose reviews are slow, for as long as the block takes."""
    task = {"kind": "http", "port": target.port, "path": target.path, "seconds": seconds, "body": str(body)}
    loads = str(Path(__file__).with_name("loads.py"))
    with subprocess.Popen(
        [sys.executable, loads], stdin=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL
    ) as one:
        assert one.stdin is not None
        one.stdin.write(json.dumps(task))
        one.stdin.close()
        time.sleep(0.5)
        try:
            yield
        finally:
            one.terminate()
