"""Updates that do not say which version of the object they change, or name what is no version.

Of most kinds, such an update changes whatever is stored. Of custom resources and of the kinds here it is refused:
``AllowUnconditionalUpdate`` of ``pkg/registry/*/*/strategy.go``, and ``Update`` of
``k8s.io/apiserver/pkg/registry/generic/registry/store.go``.
"""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import ROOT, invalid
from pratique.apimachinery.json_values import member
from pratique.apimachinery.names import name_of
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.api_resources import storage_group

_ADMISSION = "admissionregistration.k8s.io"
_REFUSING = frozenset(
    {
        (_ADMISSION, "mutatingadmissionpolicies"),
        (_ADMISSION, "mutatingadmissionpolicybindings"),
        (_ADMISSION, "mutatingwebhookconfigurations"),
        (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "validatingadmissionpolicybindings"),
        (_ADMISSION, "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("certificates.k8s.io", "clustertrustbundles"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("coordination.k8s.io", "leasecandidates"),
        ("coordination.k8s.io", "leases"),
        ("internal.apiserver.k8s.io", "storageversions"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "compositepodgroups"),
        ("scheduling.k8s.io", "podgroups"),
        ("scheduling.k8s.io", "workloads"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csistoragecapacities"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)


def refused_update(review: Review, *, is_custom: bool) -> Status | None:
    """Why an update is refused for its resource version, or for having none; None if it is not.

    A manifest that does not have the field at all is an update as ``kubectl apply`` and ``kubectl replace`` make it,
    which fill the version in. The Status names the resource in the place of the kind, as the API server's does.
    """
    version = member(review.object, "metadata", "resourceVersion")
    if review.operation is not Operation.UPDATE or version is None:
        return None
    if version:
        return _unreadable(version)
    resource = review.resource
    if (
        not is_custom
        and (storage_group(resource.group, resource.resource), resource.resource) not in _REFUSING
    ):
        return None
    error = invalid(ROOT / "metadata" / "resourceVersion", 0, "must be specified for an update")
    return statuses.invalid(resource.group, resource.resource, review.name or name_of(review.object), [error])


_DIGITS = pattern(r"[0-9]+")
_MAXIMUM, _MOST_DIGITS = 2**64 - 1, 20


def _unreadable(version: str) -> Status | None:
    """What is wrong with a version that is no number: ``ParseResourceVersion`` of ``k8s.io/apiserver/pkg/storage``."""
    fault = "" if _DIGITS.fullmatch(version) else "invalid syntax"
    digits = version.lstrip("0")
    if not fault and (len(digits) > _MOST_DIGITS or int(digits or "0") > _MAXIMUM):
        fault = "value out of range"
    return (
        statuses.plain_error(f"strconv.ParseUint: parsing {go_quoted(version)}: {fault}") if fault else None
    )
