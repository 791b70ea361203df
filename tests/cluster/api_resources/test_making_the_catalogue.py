"""Making the catalogue of resources from Kubernetes' published API descriptions."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pratique.apimachinery.json_values import JSON

SCRIPT = Path(__file__).parents[3] / "scripts" / "make_resources.py"
CATALOGUE = Path(__file__).parents[3] / "services" / "pratique" / "cluster" / "resources.json"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_resources", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def operation(group: str, version: str, kind: str) -> JSON:
    return {"get": {"x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind}}}


def old_release(folder: Path) -> Path:
    """A release that has only an OpenAPI document, with apps/v1beta1 and pods in it."""
    deployments = "/apis/apps/v1beta1/namespaces/{namespace}/deployments"
    paths = {
        "/api/v1/": {"get": {}},
        "/api/v1/pods": operation("", "v1", "Pod"),
        "/api/v1/namespaces/{namespace}/pods": operation("", "v1", "Pod"),
        "/api/v1/namespaces/{namespace}/pods/{name}/eviction": operation("policy", "v1beta1", "Eviction"),
        "/api/v1/namespaces/{name}/status": operation("", "v1", "Namespace"),
        "/api/v1/namespaces/{name}": operation("", "v1", "Namespace"),
        "/api/v1/watch/pods": operation("", "v1", "Pod"),
        deployments: operation("apps", "v1beta1", "Deployment"),
        f"{deployments}/{{name}}/scale": operation("apps", "v1beta1", "Scale"),
    }
    file = folder / "old" / "api" / "openapi-spec" / "swagger.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"paths": paths}))
    return folder / "old"


def new_release(folder: Path) -> Path:
    """A release with discovery documents, with pods and namespaces in them."""
    resources: JSON = [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1", "namespaced": True},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    ]
    file = folder / "new" / "api" / "discovery" / "api__v1.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"groupVersion": "v1", "resources": resources}))
    return folder / "new"


def test_every_release_is_read_and_removed_versions_are_dated(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "resources.json"
    monkeypatch.setattr(script, "TARGET", target)
    assert script.main([f"1.15={old_release(tmp_path)}", f"1.36={new_release(tmp_path)}"]) == 0
    assert json.loads(target.read_text())["resources"] == [
        ["", "v1", "namespaces", "Namespace", False, None, {}],
        ["", "v1", "pods", "Pod", True, None, {"eviction": "policy/v1/Eviction"}],
        ["apps", "v1beta1", "deployments", "Deployment", True, "1.36", {"scale": "Scale"}],
    ]


def test_a_newer_release_is_added_to_those_that_the_file_has(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "resources.json"
    monkeypatch.setattr(script, "TARGET", target)
    old, new = old_release(tmp_path), new_release(tmp_path)
    assert script.main([f"1.15={old}", f"1.36={new}"]) == 0
    at_once = target.read_text()
    assert script.main([f"1.15={old}"]) == 0
    assert script.main(["--add", f"1.36={new}"]) == 0
    assert target.read_text() == at_once


def test_without_releases_the_script_explains_itself(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([]) == 2
    assert "RELEASE=FOLDER" in capsys.readouterr().err


def test_stable_versions_come_before_beta_and_newer_before_older(script: ModuleType) -> None:
    versions = ["v1alpha1", "v2beta1", "v1", "v2", "v2beta2", "v1beta1"]
    assert sorted(versions, key=script.version_order) == [
        "v2",
        "v1",
        "v2beta2",
        "v2beta1",
        "v1beta1",
        "v1alpha1",
    ]


def test_the_catalogue_names_its_origin_and_licence() -> None:
    catalogue = json.loads(CATALOGUE.read_text())
    assert "Kubernetes 1.10 to 1.37" in catalogue["origin"]
    assert "Apache-2.0" in catalogue["license"]
    assert SCRIPT.name in catalogue["made_by"]


def test_the_script_needs_nothing_but_python() -> None:
    imported = {
        line.split()[1].split(".")[0]
        for line in SCRIPT.read_text().splitlines()
        if line.startswith("import ")
    }
    assert imported <= sys.stdlib_module_names
