"""What the pages of the controllers promise, executed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from pratique.admission.controllers import Controller
from pratique.apimachinery.json_values import JSON, JSONObject, decode, encode, member
from pratique.apimachinery.statuses import to_document
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.configuration.loading import load_configurations
from pratique.hosting.catalogue import load_catalogue
from support.admissions import admit, review_of

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENTRIES = (
    "## What it refuses",
    "## How it differs from Kubernetes",
    "| phases |",
    "| matches |",
    "| needs |",
)


@dataclasses.dataclass(frozen=True)
class Example:
    """The inputs of an expectation on a page."""

    document: str
    controller: Controller
    input: JSONObject
    expected: JSONObject
    configuration: JSON
    cluster: list[JSONObject] | None
    kubeconfig: str = ""
    """The content of ``kubeconfig.yaml`` in the folder where the example runs."""
    policies: str = ""
    """The content of ``--config``."""

    def __str__(self) -> str:
        return f"{self.document}: {member(self.input, 'kind')} {self.expected['allowed']}"


def examples_of(path: Path, controller: Controller | None) -> Iterator[Example]:
    parts: dict[str, str] = {}
    for language, role, text in FENCE.findall(path.read_text("utf-8")):
        if language == "python":
            controller = controller_in(text)
        parts[role] = text
        if role == "expected":
            assert controller is not None
            cluster = parts.get("cluster")
            yield Example(
                document=path.stem,
                controller=controller,
                input=yaml.safe_load(parts["input"]),
                expected=yaml.safe_load(text),
                configuration=yaml.safe_load(parts.get("configuration", "")),
                cluster=None if cluster is None else list(yaml.safe_load_all(cluster)),
                kubeconfig=parts.get("kubeconfig", ""),
                policies=parts.get("policies", ""),
            )
            parts.clear()


def controller_in(code: str) -> Controller:
    names: dict[str, object] = {"__name__": "policy"}
    exec(compile(code, "policy.py", "exec", dont_inherit=True), names)
    (controller,) = (value for value in names.values() if isinstance(value, Controller))
    return controller


def all_examples() -> Iterator[Example]:
    catalogue = load_catalogue()
    for path in sorted((DOCS / "controllers").glob("*.md")):
        yield from examples_of(path, catalogue.get(path.stem))
    yield from examples_of(DOCS / "writing-policies.md", None)


def request_of(document: JSONObject) -> JSONObject:
    """The request in a document, or the request that creates it."""
    if document["kind"] == "AdmissionReview":
        return dict(document["request"])
    found = built_in_resources().for_object(document)
    return {
        "operation": "CREATE",
        "kind": msgspec.structs.asdict(found.kind),
        "resource": msgspec.structs.asdict(found.resource),
        "name": member(document, "metadata", "name"),
        "namespace": member(document, "metadata", "namespace") if found.namespaced else "",
        "object": document,
    }


def assert_holds(actual: JSON, expected: JSON) -> None:
    """Assert an expectation; objects may have more members."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_holds(actual[name], value)
    else:
        assert actual == expected


@pytest.mark.parametrize("example", list(all_examples()), ids=str)
def test_every_example_gets_the_decision_that_its_page_states(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kubeconfig.yaml").write_text(example.kubeconfig, "utf-8")
    cluster = ANY_NAMESPACE if example.cluster is None else ObjectStore(example.cluster)
    review = review_of(request_of(example.input), cluster)
    (tmp_path / "policies.yaml").write_text(example.policies, "utf-8")
    policies = load_configurations([tmp_path / "policies.yaml"]) if example.policies else None
    found = admit(example.controller, review, example.configuration, configurations=policies)
    decision = {
        "allowed": found.allowed,
        "status": to_document(found.status) if found.status else None,
        "patch": list(found.operations),
        "warnings": list(found.warnings),
        "auditAnnotations": dict(found.audit_annotations),
    }
    assert_holds(decode(encode(decision)), example.expected)


@pytest.mark.parametrize(
    "controller", [controller for controller in load_catalogue() if controller.hosted], ids=lambda c: c.name
)
def test_every_hosted_controller_has_a_page(controller: Controller) -> None:
    text = (DOCS / "controllers" / f"{controller.name}.md").read_text("utf-8")
    assert text.startswith(f"# {controller.name}\n")
    assert all(entry in text for entry in ENTRIES)
    assert f"| on by default | {'yes' if controller.default else 'no'} |" in text
    assert list(examples_of(DOCS / "controllers" / f"{controller.name}.md", controller))


def test_every_policy_of_the_guide_has_an_example() -> None:
    text = (DOCS / "writing-policies.md").read_text("utf-8")
    assert text.count("```python") == text.count("```yaml expected") == 5
