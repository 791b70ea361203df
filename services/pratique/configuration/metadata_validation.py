"""What the API server says of metadata, and of configurations whose names end in ``.static.k8s.io``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.selectors import validate_labels
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.policies import MutatingAdmissionPolicy, ValidatingAdmissionPolicy
from pratique.configuration.webhooks import GROUP, STATIC_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.configuration.policies import PolicyBindingDocument, PolicyDocument
    from pratique.configuration.webhooks import WebhookConfigurationDocument, ObjectMeta

_MAXIMUM_ANNOTATIONS = 256 * 1024  # bytes of all keys and values together


def validate_metadata(metadata: ObjectMeta, path: FieldPath) -> list[FieldError]:
    """Check the metadata of an object that is cluster-scoped and whose name is a DNS subdomain."""
    errors = []
    if not metadata.name:
        errors.append(required(path / "name", "name or generateName is required"))
    else:
        messages = names.check_dns1123_subdomain(metadata.name)
        errors += [invalid(path / "name", metadata.name, message) for message in messages]
    if metadata.namespace:
        errors.append(forbidden(path / "namespace", "not allowed on this type"))
    errors += validate_labels(metadata.labels, path / "labels")
    return errors + _validate_annotations(metadata.annotations, path / "annotations")


def _validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    errors = [
        invalid(path, key, message)
        for key in sorted(annotations)
        for message in names.check_qualified_name(key.lower())
    ]
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > _MAXIMUM_ANNOTATIONS:
        errors.append(too_long(path, _MAXIMUM_ANNOTATIONS))
    return errors


_NOT_SUPPORTED = "is not supported for static manifests"


def validate_static(document: WebhookConfigurationDocument) -> list[FieldError]:
    """Check what holds for static configurations beyond what holds for all; others are right."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors = _validate_version(document)
    for index, webhook in enumerate(document.webhooks):
        if webhook.client_config.service is not None:
            path = ROOT / "webhooks" / index / "clientConfig" / "service"
            detail = (
                "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            )
            errors.append(forbidden(path, detail))
    return errors


def validate_static_policy(document: PolicyDocument | PolicyBindingDocument) -> list[FieldError]:
    """Check what holds for static policies and bindings beyond what holds for all; others are right."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors, path = _validate_version(document), ROOT / "spec"
    if isinstance(document, ValidatingAdmissionPolicy | MutatingAdmissionPolicy):
        if document.spec.param_kind is not None:
            errors.append(forbidden(path / "paramKind", f"spec.paramKind {_NOT_SUPPORTED}"))
        return errors
    policy = document.spec.policy_name
    if not policy.endswith(STATIC_SUFFIX):
        errors.append(invalid(path / "policyName", policy, f"must end with {go_quoted(STATIC_SUFFIX)}"))
    if document.spec.param_ref is not None:
        errors.append(forbidden(path / "paramRef", f"spec.paramRef {_NOT_SUPPORTED}"))
    return errors


def _validate_version(document: WebhookConfigurationDocument | PolicyDocument | PolicyBindingDocument) -> list[FieldError]:
    if document.version == "v1":
        return []
    return [not_supported(ROOT / "apiVersion", document.api_version, (f"{GROUP}/v1",))]
