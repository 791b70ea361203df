"""RoleBindings and ClusterRoleBindings: v1alpha1 names the version of a subject, and a user ``*``.

Source: ``pkg/apis/rbac/v1alpha1/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import changed_items, text, without

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Family

_GROUP = "rbac.authorization.k8s.io"
_VERSIONED = f"{_GROUP}/v1alpha1"


def _to_shared(binding: JSONObject) -> JSONObject:
    return changed_items(binding, "subjects", _subject_to_shared)


def _subject_to_shared(subject: JSONObject) -> JSONObject:
    kind = text(subject.get("kind"), "kind")
    group = _group_of(kind, text(subject.get("apiVersion"), "apiVersion"))
    plain = without(subject, "apiVersion", "apiGroup") | ({"apiGroup": group} if group else {})
    if (kind, subject.get("name")) == ("User", "*"):
        return {**plain, "kind": "Group", "name": "system:authenticated"}
    return plain


def _group_of(kind: str, api_version: str) -> str:
    if kind in {"User", "Group"}:
        return _GROUP
    if kind == "ServiceAccount" or api_version.count("/") != 1:
        return ""
    return api_version.partition("/")[0]


def _from_shared(binding: JSONObject) -> JSONObject:
    return changed_items(binding, "subjects", _subject_from_shared)


def _subject_from_shared(subject: JSONObject) -> JSONObject:
    kind, group = text(subject.get("kind"), "kind"), text(subject.get("apiGroup"), "apiGroup")
    if kind == "ServiceAccount" and not group:
        api_version = "v1"
    elif kind in {"User", "Group"} and group == _GROUP:
        api_version = _VERSIONED
    else:
        api_version = f"{group}/" if group else ""
    return without(subject, "apiVersion", "apiGroup") | ({"apiVersion": api_version} if api_version else {})


BINDINGS: Family = {
    f"{_GROUP}/v1": SHARED,
    f"{_GROUP}/v1beta1": SHARED,
    _VERSIONED: Form(_to_shared, _from_shared),
}
