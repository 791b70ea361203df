"""What kube-apiserver demands of configurations whose names end in ``.static.k8s.io``: those for files alone.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/manifest/loader/loader.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.configurations.webhooks import GROUP, STATIC_SUFFIX
from pratique.field_errors import ROOT, FieldError, forbidden, not_supported

if TYPE_CHECKING:
    from pratique.configurations.webhooks import ConfigurationDocument


def validate_static(document: ConfigurationDocument) -> list[FieldError]:
    """Check what holds for static configurations beyond what holds for all; others are right."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors = []
    if document.version != "v1":
        errors.append(not_supported(ROOT / "apiVersion", document.api_version, (f"{GROUP}/v1",)))
    for index, webhook in enumerate(document.webhooks):
        if webhook.client_config.service is not None:
            path = ROOT / "webhooks" / index / "clientConfig" / "service"
            detail = (
                "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            )
            errors.append(forbidden(path, detail))
    return errors
