"""CustomResourceDefinitions: v1 says of each version what v1beta1 can also say of all of them.

Source: ``k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import (
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
    from pratique.json_values import JSON, JSONObject
    from pratique.versioned_kinds.forms import Family

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
