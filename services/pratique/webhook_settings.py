"""What MutatingAdmissionWebhook and ValidatingAdmissionWebhook can be told in an AdmissionConfiguration."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

import msgspec

from pratique.definitions import Halves
from pratique.errors import ConfigurationError
from pratique.field_errors import ROOT, forbidden, invalid


class WebhookAdmissionConfiguration(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """How webhooks are called.

    Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/config``.
    """

    api_version: Literal["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"] = (
        "apiserver.config.k8s.io/v1"
    )
    kind: Literal["WebhookAdmissionConfiguration", "WebhookAdmission"] = "WebhookAdmissionConfiguration"
    kube_config_file: str = ""
    """The absolute path of a kubeconfig file with the credentials to show to webhooks; empty for none."""
    static_manifests_dir: str = ""
    """Refused: ``--config`` takes the folder."""


def build(settings: WebhookAdmissionConfiguration) -> Halves:
    """Check the settings. There are no halves: the front door calls webhooks itself.

    Raises:
        ConfigurationError: a path is not absolute, or a folder of manifests is named.
    """
    path = settings.kube_config_file
    if path and not PurePosixPath(path).is_absolute():
        raise ConfigurationError(str(invalid(ROOT / "kubeConfigFile", path, "must be an absolute file path")))
    if settings.static_manifests_dir:
        raise ConfigurationError(
            str(forbidden(ROOT / "staticManifestsDir", "give the folder to --config instead"))
        )
    return Halves()
