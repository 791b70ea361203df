"""PolicyRollouts that do not say what is rolled out and how far are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.input_digests import configuration_digest
from pratique.configuration.loading import Configurations, load_configurations
from support import forked_commands
from support.forked_commands import PROGRAM

POLICY = {"kind": "ValidatingAdmissionPolicy", "name": "replicas"}
SPEC = {"mode": "Shadow", "policies": [POLICY]}


def document(name: str = "one", version: str = "v1alpha1", **changes: Any) -> Any:
    spec = {field: value for field, value in {**SPEC, **changes}.items() if value is not None}
    kind = {"apiVersion": f"policy.pratique/{version}", "kind": "PolicyRollout"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def load(folder: Path, *documents: Any) -> Configurations:
    path = folder / "rollouts.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return load_configurations([path])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"mode": None}, "spec.mode: Required value"),
        ({"mode": "shadow"}, 'spec.mode: Unsupported value: "shadow": supported values: "Shadow", "Canary"'),
        ({"policies": []}, "spec.policies: Required value"),
        ({"policies": [{"kind": "Pod", "name": "a"}]}, 'spec.policies[0].kind: Unsupported value: "Pod"'),
        (
            {"policies": [{"kind": "AdmissionController", "name": "MutatingAdmissionPolicy"}]},
            "concerns all it runs; name them one by one, by kind MutatingAdmissionPolicy",
        ),
        (
            {"policies": [{"kind": "AdmissionController", "name": "ResourceQuota"}]},
            'Invalid value: "ResourceQuota": charges quotas, which no shadow can do',
        ),
        ({"percent": 10}, "spec.percent: Forbidden: only mode Canary is enforced for some namespaces"),
        ({"mode": "Enforce", "namespaces": ["a"]}, "spec.namespaces: Forbidden: only mode Canary"),
        (
            {"mode": "Canary"},
            "spec: Required value: at least one of percent, namespaces and namespaceSelector",
        ),
        ({"mode": "Canary", "percent": 0}, "spec.percent: Invalid value: 0: must be from 1 to 100"),
        ({"mode": "Canary", "percent": 101}, "spec.percent: Invalid value: 101: must be from 1 to 100"),
        ({"mode": "Canary", "percent": "10"}, "spec.percent"),
        ({"mode": "Canary", "namespaces": ["*"]}, 'spec.namespaces[0]: Invalid value: "*"'),
        (
            {"mode": "Canary", "namespaceSelector": {}},
            "spec.namespaceSelector: Invalid value: {}: must not be",
        ),
        ({"share": 10}, 'unknown field "spec.share"'),
        ({"version": "v1"}, 'no kind "PolicyRollout" is registered for version "policy.pratique/v1"'),
    ],
)
def test_a_rollout_that_says_too_little_or_wrong_is_refused(tmp_path: Path, changes: Any, error: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, document(**changes))
    assert error in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (POLICY, POLICY, True),
        (POLICY, {**POLICY, "binding": "b"}, True),
        ({**POLICY, "binding": "a"}, {**POLICY, "binding": "b"}, False),
        (POLICY, {**POLICY, "kind": "MutatingAdmissionPolicy"}, False),
    ],
)
def test_nothing_is_in_two_rollouts(tmp_path: Path, first: Any, second: Any, *, refused: bool) -> None:
    documents = [document("one", policies=[first]), document("two", policies=[second])]
    if not refused:
        assert len(load(tmp_path, *documents).rollouts) == 2
        return
    with pytest.raises(ConfigurationError) as twice:
        load(tmp_path, *documents)
    assert 'PolicyRollout "two": spec.policies[0].name: Invalid value: "replicas"' in str(twice.value)
    assert 'PolicyRollout "one" names it already' in str(twice.value)


def test_a_rollout_counts_in_the_digest_of_the_configuration(tmp_path: Path) -> None:
    documents = [document(), document(mode="Enforce"), document(mode="Canary", percent=10)]
    digests = {configuration_digest(load(tmp_path, one)) for one in documents}
    assert len({configuration_digest(Configurations()), *digests}) == 4


def test_the_page_shows_the_example_and_what_it_decides() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "rollouts.md").read_text("utf-8")
    example = root / "examples" / "11-shadow-and-canary"
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert (example / "rollouts.yaml").read_text("utf-8").endswith(shown)
    console = page.partition("$ pratique review")[2].partition("```")[0]
    done = forked_commands.run([PROGRAM, "review", *console.splitlines()[0].split()], cwd=example)
    assert done.stdout.splitlines() == console.splitlines()[1:]
