"""What kube-apiserver demands of configurations whose names end in ``.static.k8s.io``: those for files alone.

Sources, below ``k8s.io/apiserver/pkg/admission/plugin``: ``webhook/manifest/loader/loader.go`` and
``policy/manifest/loader/loader.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.configurations.policies import MutatingDocument, ValidatingDocument
from pratique.configurations.webhooks import GROUP, STATIC_SUFFIX
from pratique.field_errors import ROOT, FieldError, forbidden, invalid, not_supported
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.configurations.policies import BindingDocument, PolicyDocument
    from pratique.configurations.webhooks import ConfigurationDocument

_NOT_SUPPORTED = "is not supported for static manifests"


def validate_static(document: ConfigurationDocument) -> list[FieldError]:
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


def validate_static_policy(document: PolicyDocument | BindingDocument) -> list[FieldError]:
    """Check what holds for static policies and bindings beyond what holds for all; others are right."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors, path = _validate_version(document), ROOT / "spec"
    if isinstance(document, ValidatingDocument | MutatingDocument):
        if document.spec.param_kind is not None:
            errors.append(forbidden(path / "paramKind", f"spec.paramKind {_NOT_SUPPORTED}"))
        return errors
    policy = document.spec.policy_name
    if not policy.endswith(STATIC_SUFFIX):
        errors.append(invalid(path / "policyName", policy, f"must end with {go_quoted(STATIC_SUFFIX)}"))
    if document.spec.param_ref is not None:
        errors.append(forbidden(path / "paramRef", f"spec.paramRef {_NOT_SUPPORTED}"))
    return errors


def _validate_version(document: ConfigurationDocument | PolicyDocument | BindingDocument) -> list[FieldError]:
    if document.version == "v1":
        return []
    return [not_supported(ROOT / "apiVersion", document.api_version, (f"{GROUP}/v1",))]
