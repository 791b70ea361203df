"""MutatingAdmissionWebhook: calls the webhooks of MutatingWebhookConfigurations.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating``. The front door runs it.
"""

from __future__ import annotations

from pratique.admission.controllers import MUTATE, Controller
from pratique.configuration.admission_configuration import (
    WebhookAdmissionConfiguration,
    check_webhook_settings,
)

CONTROLLER = Controller(
    name="MutatingAdmissionWebhook",
    summary="Calls the mutating webhooks that match, one after another.",
    phases=MUTATE,
    build=check_webhook_settings,
    settings=WebhookAdmissionConfiguration,
    default=True,
    looks_up=("namespaces",),
    location_settings=("kubeConfigFile",),
    hosted=False,
    trusted=True,
)
