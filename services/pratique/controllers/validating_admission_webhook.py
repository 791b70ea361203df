"""ValidatingAdmissionWebhook: calls the webhooks of ValidatingWebhookConfigurations.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/validating``. The front door runs it.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller
from pratique.configuration.admission_configuration import (
    WebhookAdmissionConfiguration,
    check_webhook_settings,
)

CONTROLLER = Controller(
    name="ValidatingAdmissionWebhook",
    summary="Calls the validating webhooks that match, side by side.",
    phases=VALIDATE,
    build=check_webhook_settings,
    settings=WebhookAdmissionConfiguration,
    default=True,
    looks_up=("namespaces",),
    location_settings=("kubeConfigFile",),
    hosted=False,
    trusted=True,
)
