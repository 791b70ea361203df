"""RBAC bindings, PriorityLevelConfigurations and CustomResourceDefinitions in all their versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cluster.conversion_shapes import (
    SHARED,
    Change,
    Form,
    annotated,
    annotation,
    changed,
    changed_items,
    mapping,
    mappings,
    present,
    renamed,
    text,
    without,
)

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON, JSONObject
    from pratique.cluster.conversion_shapes import Family

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


_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def _renaming(old: str, new: str) -> Change:
    return lambda level: changed(
        level, "spec", lambda spec: changed(spec, "limited", lambda limited: renamed(limited, {old: new}))
    )


def _v1beta3_to_shared(level: JSONObject) -> JSONObject:
    return annotated(level, {}, [_ZERO])


def _v1beta3_from_shared(level: JSONObject) -> JSONObject:
    limited = mapping(mapping(level.get("spec"), "spec").get("limited"), "limited")
    if limited.get("nominalConcurrencyShares") != 0 or annotation(level, _ZERO) is not None:
        return level
    return annotated(level, {_ZERO: ""})


_ASSURED, _NOMINAL = "assuredConcurrencyShares", "nominalConcurrencyShares"
_EARLY = Form(_renaming(_ASSURED, _NOMINAL), _renaming(_NOMINAL, _ASSURED))
_PRIORITY_LEVELS_GROUP = "flowcontrol.apiserver.k8s.io"

LEVELS: Family = {
    f"{_PRIORITY_LEVELS_GROUP}/v1": SHARED,
    f"{_PRIORITY_LEVELS_GROUP}/v1beta3": Form(_v1beta3_to_shared, _v1beta3_from_shared),
    f"{_PRIORITY_LEVELS_GROUP}/v1beta2": _EARLY,
    f"{_PRIORITY_LEVELS_GROUP}/v1beta1": _EARLY,
    f"{_PRIORITY_LEVELS_GROUP}/v1alpha1": _EARLY,
}


_SHARED_FIELDS = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""What a version says, and as what v1beta1 says it of all versions."""


def _v1_to_shared(definition: JSONObject) -> JSONObject:
    return changed(definition, "spec", _v1_spec_to_shared)


def _v1_spec_to_shared(spec: JSONObject) -> JSONObject:
    versions = [_columns_to_shared(version) for version in mappings(spec.get("versions"), "versions")]
    common = _common(versions)
    converted = changed(
        {
            **without(spec, "versions", *_SHARED_FIELDS.values()),
            **({"versions": [without(version, *common) for version in versions]} if versions else {}),
            **present(**{_SHARED_FIELDS[name]: value for name, value in common.items()}),
            # Absent means false in v1, and true in v1beta1.
            "preserveUnknownFields": spec.get("preserveUnknownFields") or False,
        },
        "conversion",
        _conversion_to_shared,
    )
    return {**converted, "version": text(versions[0].get("name"), "name")} if versions else converted


def _common(versions: list[JSONObject]) -> dict[str, JSON]:
    """The fields that all versions have the same value of; no value is one, too."""
    if not versions:
        return {}
    first = versions[0]
    common = {
        name: first.get(name)
        for name in _SHARED_FIELDS
        if all(version.get(name) == first.get(name) for version in versions)
    }
    # Selectable fields are of the schema, and stay beside it.
    return common if "schema" in common else {n: v for n, v in common.items() if n != "selectableFields"}


def _columns_to_shared(version: JSONObject) -> JSONObject:
    return changed_items(
        version, "additionalPrinterColumns", lambda one: renamed(one, {"jsonPath": "JSONPath"})
    )


def _columns_from_shared(version: JSONObject) -> JSONObject:
    return changed_items(
        version, "additionalPrinterColumns", lambda one: renamed(one, {"JSONPath": "jsonPath"})
    )


def _conversion_to_shared(conversion: JSONObject) -> JSONObject:
    webhook = mapping(conversion.get("webhook"), "webhook")
    return without(conversion, "webhook") | present(
        webhookClientConfig=webhook.get("clientConfig"),
        conversionReviewVersions=webhook.get("conversionReviewVersions"),
    )


def _v1_from_shared(definition: JSONObject) -> JSONObject:
    return changed(definition, "spec", _v1_spec_from_shared)


def _v1_spec_from_shared(spec: JSONObject) -> JSONObject:
    versions = mappings(spec.get("versions"), "versions")
    if not versions and spec.get("version"):
        versions = [{"name": spec["version"], "served": True, "storage": True}]
    common = {name: spec[of_all] for name, of_all in _SHARED_FIELDS.items() if spec.get(of_all) is not None}
    written = [_columns_from_shared({**version, **common}) for version in versions]
    converted = {
        **without(spec, "version", "versions", "preserveUnknownFields", *_SHARED_FIELDS.values()),
        **({"versions": written} if written else {}),
        # v1beta1 keeps what no schema knows, unless it says otherwise: its defaults.go.
        **({} if spec.get("preserveUnknownFields") is False else {"preserveUnknownFields": True}),
    }
    return changed(converted, "conversion", _conversion_from_shared)


def _conversion_from_shared(conversion: JSONObject) -> JSONObject:
    webhook = present(
        clientConfig=conversion.get("webhookClientConfig"),
        conversionReviewVersions=conversion.get("conversionReviewVersions"),
    )
    plain = without(conversion, "webhook", "webhookClientConfig", "conversionReviewVersions")
    return {**plain, "webhook": webhook} if webhook else plain


DEFINITIONS: Family = {
    "apiextensions.k8s.io/v1": Form(_v1_to_shared, _v1_from_shared),
    "apiextensions.k8s.io/v1beta1": SHARED,
}
