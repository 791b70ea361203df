"""Roles and bindings, written short."""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery.json_values import JSONObject

GROUP = "rbac.authorization.k8s.io"


def rule(
    verbs: Sequence[str] = (),
    *,
    groups: Sequence[str] = ("",),
    resources: Sequence[str] = (),
    names: Sequence[str] = (),
    urls: Sequence[str] = (),
) -> JSONObject:
    """Write one rule, without empty fields."""
    written = {
        "verbs": list(verbs),
        "apiGroups": list(groups) if resources else [],
        "resources": list(resources),
        "resourceNames": list(names),
        "nonResourceURLs": list(urls),
    }
    return {name: value for name, value in written.items() if value}


def role_of(name: str, *rules: JSONObject, namespace: str = "", **labels: str) -> JSONObject:
    """Write a Role, or a ClusterRole where no namespace is given."""
    metadata: JSONObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    kind = "Role" if namespace else "ClusterRole"
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": list(rules)}


def role(name: str, namespace: str = "", **fields: Sequence[str]) -> JSONObject:
    """Write a Role of one rule, or a ClusterRole where no namespace is given; ``fields`` are those of :func:`rule`."""
    return role_of(name, rule(**fields), namespace=namespace)


def binding(name: str, role: str, *subjects: str, namespace: str = "", version: str = "v1") -> JSONObject:
    """Write a RoleBinding, or a ClusterRoleBinding where no namespace is given.

    ``role`` is written ``ClusterRole/view``; subjects ``User/ann``, ``Group/staff``, ``ServiceAccount/robot`` or
    ``ServiceAccount/shop/robot``.
    """
    kind, _, role_name = role.partition("/")
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [_subject(each) for each in subjects],
    }


def _subject(written: str) -> JSONObject:
    kind, *place, name = written.split("/")
    return {"kind": kind, "name": name} | ({"namespace": place[0]} if place else {})
