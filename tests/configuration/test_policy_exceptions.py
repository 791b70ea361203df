"""PolicyExceptions that do not say what, whom, why or until when are refused."""

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
SPEC = {"reason": "later", "until": "2099-01-01T00:00:00Z", "policies": [POLICY], "namespaces": ["shop"]}


def load(folder: Path, name: str = "one", version: str = "v1alpha1", **changes: Any) -> Configurations:
    spec = {field: value for field, value in {**SPEC, **changes}.items() if value is not None}
    path = folder / "exception.json"
    kind = {"apiVersion": f"policy.pratique/{version}", "kind": "PolicyException"}
    path.write_text(json.dumps({**kind, "metadata": {"name": name}, "spec": spec}))
    return load_configurations([path])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"reason": None}, "spec.reason: Required value"),
        ({"reason": " "}, "spec.reason: Required value"),
        ({"until": None}, "spec.until: Required value"),
        ({"until": "2099-01-01"}, 'spec.until: Invalid value: "2099-01-01": must be a time as in RFC 3339'),
        (
            {"until": "2099-13-01T00:00:00Z"},
            'spec.until: Invalid value: "2099-13-01T00:00:00Z": month must be',
        ),
        ({"policies": []}, "spec.policies: Required value"),
        ({"namespaces": []}, "spec: Required value: at least one of namespaces, namespaceSelector"),
        ({"namespaceSelector": {}}, "spec.namespaceSelector: Invalid value: {}: must not be empty"),
        (
            {"objectSelector": {"matchLabels": {}}},
            "spec.objectSelector: Invalid value: {}: must not be empty",
        ),
        ({"namespaces": ["*"]}, 'spec.namespaces[0]: Invalid value: "*"'),
        ({"policies": [{"kind": "Pod", "name": "a"}]}, 'spec.policies[0].kind: Unsupported value: "Pod"'),
        ({"policies": [{"kind": POLICY["kind"]}]}, "spec.policies[0].name: Required value"),
        (
            {"policies": [{"kind": "ValidatingWebhookConfiguration", "name": "checks"}]},
            "spec.policies[0].webhook: Required value: name the webhook of the configuration",
        ),
        (
            {"policies": [{"kind": "AdmissionController", "name": "ValidatingAdmissionWebhook"}]},
            "exempts from all it runs; name them one by one, by kind ValidatingWebhookConfiguration",
        ),
        ({"policies": [{**POLICY, "webhook": "a"}]}, "spec.policies[0].webhook: Forbidden"),
        (
            {"policies": [{"kind": "AdmissionController", "name": "PodSecurity", "binding": "a"}]},
            "spec.policies[0].binding: Forbidden: only policies have bindings",
        ),
        ({"subjects": [{"kind": "Role", "name": "a"}]}, 'spec.subjects[0].kind: Unsupported value: "Role"'),
        ({"subjects": [{"kind": "User"}]}, "spec.subjects[0].name: Required value"),
        ({"subjects": [{"kind": "ServiceAccount", "name": "a"}]}, "spec.subjects[0].namespace: Required"),
        ({"subjects": [{"kind": "User", "name": "a", "namespace": "b"}]}, "a User has no namespace"),
        ({"resourceRules": [{}]}, "spec.resourceRules[0].operations: Required value"),
        ({"users": ["ann"]}, 'unknown field "spec.users"'),
        ({"version": "v1"}, 'no kind "PolicyException" is registered for version "policy.pratique/v1"'),
    ],
)
def test_an_exception_that_says_too_little_or_wrong_is_refused(
    tmp_path: Path, changes: Any, error: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, **changes)
    assert error in str(refused.value)


def test_an_exception_counts_in_the_digest_of_the_configuration(tmp_path: Path) -> None:
    found = [Configurations(), load(tmp_path), load(tmp_path, until="2098-01-01T00:00:00Z")]
    assert len(set(map(configuration_digest, found))) == len(found)


def test_exceptions_are_loaded_with_their_names(tmp_path: Path) -> None:
    (exception,) = load(tmp_path, name="later").exceptions
    assert (exception.name, exception.spec.namespaces) == ("later", ("shop",))


def test_the_example_of_the_page_is_the_exception_of_the_example() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "exceptions.md").read_text("utf-8")
    example = (root / "examples" / "10-exceptions" / "exceptions.yaml").read_text("utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert example.endswith(shown)
    console = page.partition("$ pratique review")[2].partition("```")[0]
    done = forked_commands.run(
        [PROGRAM, "review", *console.splitlines()[0].split()], cwd=root / "examples" / "10-exceptions"
    )
    assert done.stdout.splitlines() == console.splitlines()[1:]
