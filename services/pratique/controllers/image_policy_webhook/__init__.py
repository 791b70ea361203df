"""ImagePolicyWebhook: a backend decides which images Pods may use.

Sources: ``plugin/pkg/admission/imagepolicy/{admission,config}.go``. The package has a file for the configuration, for
what is sent and answered, for what is remembered, and for the asking.
"""

from __future__ import annotations

from pathlib import Path

from pratique.admission.controllers import VALIDATE, Controller, Handlers, OpenBackend
from pratique.admission.rules import rule
from pratique.apimachinery.errors import ConfigurationError
from pratique.controllers.image_policy_webhook.configurations import Settings


def _build(settings: Settings, open_backend: OpenBackend) -> Handlers:
    # Here, because retries and caches are slow to import, and most chains ask no backend.
    from pratique.controllers.image_policy_webhook.image_reviews import ImageReviewer  # noqa: PLC0415

    policy = settings.image_policy
    if policy is None:
        raise ConfigurationError("no config specified: imagePolicy is missing")
    limits = policy.limits()
    if not policy.kube_config_file:
        raise ConfigurationError("imagePolicy.kubeConfigFile: Required value")
    try:
        backend = open_backend(Path(policy.kube_config_file))
    except ConfigurationError as error:
        raise ConfigurationError(f"imagePolicy.kubeConfigFile: {error}") from None
    return Handlers(validate=ImageReviewer(backend, limits).validate, close=backend.close)


CONTROLLER = Controller(
    name="ImagePolicyWebhook",
    summary="Has a backend decide which images Pods may use.",
    phases=VALIDATE,
    rules=(rule("pods", "pods/ephemeralcontainers"),),
    build=_build,
    settings=Settings,
    needs_backend=True,
    location_settings=("kubeConfigFile",),
    may_patch=True,
    trusted=True,
)
