"""``pratique export`` against an API server: it mutates as the Python policy does."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from pratique.testing import admit
from support.api_servers import ApiServer
from support.forked_commands import PROGRAM, run
from support.waiting import within

NAMESPACE = "exports"
SOURCE = '''
from pratique import Answer, Edits, Review, allow, member, mutator, rule


@mutator("TeamOfTemplate", rule("podtemplates", operations=("CREATE",)))
def team_of_template(review: Review) -> Answer:
    """Says whose a PodTemplate is."""
    edits = Edits(review.object)
    if member(review.object, "metadata", "labels", "keep") == "yes":
        return allow()
    if edits.get(("metadata", "labels", "team")) is None:
        edits.set(("metadata", "labels", "team"), "unknown")
    edits.set(("metadata", "annotations", "acme.example/seen"), "true")
    edits.append(("template", "spec", "tolerations"), {"key": "spot", "operator": "Exists"})
    edits.remove(("template", "metadata", "annotations", "acme.example/secret"))
    return edits.answer()
'''
TEMPLATES: dict[str, dict[str, Any]] = {
    "bare": {},
    "named": {"labels": {"team": "shop", "app": "web"}, "annotations": {"note": "x"}},
    "kept": {"labels": {"keep": "yes"}},
}


def template(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "a:1"}]}
    inner = {"metadata": {"annotations": {"acme.example/secret": "x", "stays": "y"}}, "spec": spec}
    metadata = {"name": name, "namespace": NAMESPACE, **TEMPLATES[name]}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": inner}


@pytest.fixture(name="module", scope="module")
def _module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    file = tmp_path_factory.mktemp("exports") / "team_of_template.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("team_of_template", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="mutating", scope="module")
def _mutating(
    api_server: ApiServer, module: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    api_server.create_namespace(NAMESPACE)
    ran = run([PROGRAM, "export", module.__file__])
    assert ran.returncode == 0, ran.stderr
    file = tmp_path_factory.mktemp("exported") / "policies.yaml"
    file.write_text(ran.stdout)
    applied = api_server.kubectl("apply", "-f", str(file))
    assert applied.returncode == 0, applied.stderr
    assert within(
        60, lambda: "acme.example/seen" in created(api_server, "bare")["metadata"].get("annotations", {})
    )
    yield api_server
    api_server.kubectl("delete", "-f", str(file))


def created(server: ApiServer, name: str) -> Any:
    """What the API server would store of a template."""
    path = f"/api/v1/namespaces/{NAMESPACE}/podtemplates?dryRun=All"
    return server.ask("POST", path, template(name)).body


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_exported_policy_mutates_as_the_python_policy_does(
    mutating: ApiServer, module: ModuleType, name: str
) -> None:
    ours = admit(module.team_of_template, json.dumps(template(name))).object
    theirs = what_policies_touch(created(mutating, name))
    assert theirs == what_policies_touch(ours)
    assert (theirs["tolerations"] is None) is (name == "kept")


def what_policies_touch(document: Any) -> dict[str, Any]:
    """All that the policy may change, without what an API server sets by itself."""
    inner = document["template"]
    metadata = {key: document["metadata"].get(key) for key in ("labels", "annotations")}
    return {**metadata, "inner": inner["metadata"], "tolerations": inner["spec"].get("tolerations")}
