"""Loading a cluster from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import ConfigurationError
from pratique.cluster.files import load_cluster

NAMESPACES = """
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: web}}
---
# nothing here
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
"""

ORDER = """
apiVersion: example.com/v1
kind: Order
metadata: {name: o, namespace: shop}
"""

ORDERS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: orders.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: orders, kind: Order}
  versions: [{name: v1, served: true, storage: true}]
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(*paths: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_cluster(paths)
    return str(caught.value)


def test_without_files_every_namespace_exists() -> None:
    store = load_cluster(None)
    assert store.get("", "namespaces", "anything") is not None
    assert store.get("", "pods", "p", "anything") is None


def test_with_files_only_their_objects_exist(tmp_path: Path) -> None:
    store = load_cluster([write(tmp_path, "a.yaml", NAMESPACES)])
    assert store.get("", "namespaces", "shop") is not None
    assert store.get("", "serviceaccounts", "default", "shop") is not None
    assert store.get("", "namespaces", "default") is None


def test_an_empty_list_of_files_is_an_empty_cluster() -> None:
    assert load_cluster([]).get("", "namespaces", "default") is None


def test_a_loaded_namespace_can_be_selected_by_its_name(tmp_path: Path) -> None:
    found = load_cluster([write(tmp_path, "a.yaml", NAMESPACES)]).get("", "namespaces", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == {"team": "web", "kubernetes.io/metadata.name": "shop"}


def test_folders_and_files_are_read_together(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    write(folder, "a.yaml", NAMESPACES)
    write(folder, "empty.yaml", "# to be written\n")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    store = load_cluster([folder, write(tmp_path, "nodes.json", json.dumps(node))])
    assert store.get("", "namespaces", "shop") is not None
    assert store.get("", "nodes", "n") == node


def test_lists_are_unwrapped(tmp_path: Path) -> None:
    items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in "ba"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    found = load_cluster([write(tmp_path, "list.json", text)]).list("", "nodes")
    assert [document["metadata"]["name"] for document in found] == ["a", "b"]


def test_a_custom_resource_may_precede_its_definition(tmp_path: Path) -> None:
    store = load_cluster([write(tmp_path, "a.yaml", ORDER), write(tmp_path, "b.yaml", ORDERS)])
    assert store.get("example.com", "orders", "o", "shop") is not None


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    first = write(tmp_path, "a.yaml", f"{ORDER}\n---\n{NAMESPACES}\n---\napiVersion: v1\nkind: Pod\n")
    second = write(tmp_path, "b.yaml", "apiVersion: v1\nkind: Deploymnt\nmetadata: {name: d}\n")
    lines = refusal(first, second, tmp_path / "missing.yaml").splitlines()
    assert len(lines) == 4
    assert any(line.startswith(f"{tmp_path / 'missing.yaml'}: ") for line in lines)
    assert any(line.startswith(f"{first}: document 1, line 2") and '"Order"' in line for line in lines)
    assert any(line.startswith(f"{first}: document 4, line ") and "metadata" in line for line in lines)
    assert any(line.startswith(f"{second}: document 1, line 1") and "Deployment" in line for line in lines)


def test_an_unparsable_file_does_not_hide_problems_in_others(tmp_path: Path) -> None:
    broken = write(tmp_path, "a.yaml", "apiVersion: [v1\n")
    pod = write(tmp_path, "b.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {}\n")
    text = refusal(tmp_path)
    assert str(broken) in text
    assert f"{pod}: document 1, line 1" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{NAMESPACES}\n---\n{NAMESPACES}",
         ['namespaces "shop" is there twice, first in document 1', 'serviceaccounts "shop/default" is']),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", ["metadata.name: must be a string, not a num"]),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n", ["metadata.name: Required value"]),
        ("apiVersion: v1\nkind: 3\nmetadata: {name: p}\n", ["kind: must be a string"]),
        ("kind: Pod\nmetadata: {name: p}\n", ["apiVersion not set"]),
        (ORDERS.replace("group: example.com", "group: ''"), ["document 1", "spec.group: Required value"]),
        ("", ["a.yaml"]),
        ("just text", ["a.yaml"]),
    ],
)  # fmt: skip
def test_a_problem_names_file_and_document(tmp_path: Path, text: str, expected: list[str]) -> None:
    found = refusal(write(tmp_path, "a.yaml", text))
    assert str(tmp_path / "a.yaml") in found
    assert all(part in found for part in expected), found


def test_an_object_in_two_versions_is_a_duplicate(tmp_path: Path) -> None:
    old = write(
        tmp_path, "old.yaml", "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\n"
    )
    new = write(tmp_path, "new.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n")
    text = refusal(old, new)
    assert text == (
        f'{new}: document 1, line 1, column 1: deployments.apps "default/d" is there twice, '
        f"first in {old}, document 1"
    )


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    assert str(tmp_path / "nothing") in refusal(tmp_path / "nothing")


def test_further_documents_join_those_of_the_files(tmp_path: Path) -> None:
    further = list(read_text(ORDERS.encode(), "elsewhere.yaml"))
    store = load_cluster([write(tmp_path, "order.yaml", ORDER)], further)
    assert store.get("example.com", "orders", "o", "shop") is not None


def test_test_suites_are_not_stored(tmp_path: Path) -> None:
    file = write(tmp_path, "all.yaml", f"{NAMESPACES}---\napiVersion: test.pratique/v1\nkind: TestSuite\n")
    assert len(load_cluster([file]).list("", "namespaces")) == 1
