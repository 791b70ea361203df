"""PodSecurity: enforces the Pod Security Standard that a namespace's labels name.

Source: ``plugin/pkg/admission/security/podsecurity/admission.go``.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.controllers.pod_security.configuration import (
    PodSecurityConfiguration,
    PodSecuritySettings,
    read_configuration,
)
from pratique.controllers.pod_security.namespaces import validate_namespace
from pratique.controllers.pod_security.pods import WORKLOADS, validate_pod, validate_workload


class _PodSecurity(msgspec.Struct, frozen=True):
    settings: PodSecuritySettings

    def validate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Evaluate a Pod, a workload, or the labels of a Namespace."""
        resource = (review.resource.group, review.resource.resource)
        if resource == ("", "pods"):
            return validate_pod(self.settings, review)
        if resource == ("", "namespaces"):
            return validate_namespace(self.settings, review)
        return validate_workload(self.settings, review)


def _build(configuration: PodSecurityConfiguration) -> Handlers:
    return Handlers(validate=_PodSecurity(read_configuration(configuration)).validate)


_WORKLOADS = tuple(rule(resource, group=group) for group, resource in WORKLOADS)

CONTROLLER = Controller(
    name="PodSecurity",
    summary="Enforces the Pod Security Standard that a namespace's labels name.",
    phases=VALIDATE,
    rules=(rule("pods/*", "namespaces"), *_WORKLOADS),
    build=_build,
    settings=PodSecurityConfiguration,
    default=True,
    looks_up=("namespaces", "pods"),
    trusted=True,
)
