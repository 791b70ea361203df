"""DenyServiceExternalIPs: Services may not use external IPs that they do not use yet.

Source: ``plugin/pkg/admission/network/denyserviceexternalips/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, list_at
from pratique.apimachinery.kinds import is_kind


def validate(review: Review) -> Answer:
    """Deny a Service that names an external IP which the stored Service does not name."""
    old = review.old_object
    if not is_kind(review.object, "Service") or not (old is None or is_kind(old, "Service")):
        return deny(status=statuses.internal_error(f"Expected Service resource, got: {review.kind}"))
    if _external_ips(review.object) <= _external_ips(old):
        return allow()
    return deny("Use of external IPs is denied by admission control")


def _external_ips(service: JSON) -> set[JSON]:
    return set(list_at(service, "spec", "externalIPs"))


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="DenyServiceExternalIPs",
    summary="Denies Services that use external IPs, or more of them than before.",
    phases=VALIDATE,
    rules=(rule("services"),),
    build=_build,
    trusted=True,
)
