"""Which versions of a collection an API server serves side by side.

A review does not name the release of its API server, but the version of the request implies it: a version that
Kubernetes still has comes from the current release, a removed one from the last release that had it. Versions that a
release serves only on request (``--runtime-config``) count as served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pratique.apimachinery.kinds import GroupVersionResource, ResourceType

if TYPE_CHECKING:
    from pratique.cluster.api_resources import ApiResources

_LEASE_CANDIDATES = {"v1alpha2": "1.32", "v1beta1": "1.33"}
_ADDRESSES = {"v1beta1": "1.31", "v1": "1.33"}
_FLOW_CONTROL = {"v1beta1": "1.20", "v1beta2": "1.23", "v1beta3": "1.26", "v1": "1.29"}
_DEVICES = {"v1alpha2": "1.27", "v1alpha3": "1.31", "v1beta1": "1.32", "v1beta2": "1.33", "v1": "1.34"}

_INTRODUCED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("batch", "cronjobs"): {"v1": "1.21"},
    ("certificates.k8s.io", "clustertrustbundles"): {"v1": "1.37"},
    ("certificates.k8s.io", "podcertificaterequests"): {"v1beta1": "1.35", "v1": "1.37"},
    ("coordination.k8s.io", "leasecandidates"): _LEASE_CANDIDATES,
    ("discovery.k8s.io", "endpointslices"): {"v1beta1": "1.17", "v1": "1.21"},
    ("networking.k8s.io", "ipaddresses"): _ADDRESSES,
    ("networking.k8s.io", "servicecidrs"): _ADDRESSES,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _FLOW_CONTROL,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _FLOW_CONTROL,
    ("resource.k8s.io", "deviceclasses"): _DEVICES,
    ("resource.k8s.io", "podschedulingcontexts"): _DEVICES,
    ("resource.k8s.io", "resourceclaims"): _DEVICES,
    ("resource.k8s.io", "resourceclaimtemplates"): _DEVICES,
    ("resource.k8s.io", "resourceclasses"): _DEVICES,
    ("resource.k8s.io", "resourceslices"): _DEVICES,
    ("scheduling.k8s.io", "podgroups"): {"v1alpha3": "1.37", "v1beta1": "1.37"},
    ("scheduling.k8s.io", "workloads"): {"v1alpha2": "1.36", "v1alpha3": "1.37", "v1beta1": "1.37"},
    ("storage.k8s.io", "csistoragecapacities"): {"v1": "1.24"},
    ("storagemigration.k8s.io", "storageversionmigrations"): {"v1beta1": "1.35", "v1": "1.37"},
}
"""The release that introduced a version, listed only if an older version was removed by then. Source:
``APILifecycleIntroduced`` in ``k8s.io/api/*/*/zz_generated.prerelease-lifecycle.go``, and the changelogs.
"""


def served_beside(
    resources: ApiResources, resource: GroupVersionResource, subresource: str = ""
) -> tuple[GroupVersionResource, ...]:
    """The other versions and groups under which an API server serves a collection, in the order of registration.

    An unknown version counts as one of the current release.
    """
    asked = resources.for_resource(resource, subresource)
    gone = asked.removed_in if asked is not None else None
    return tuple(
        other
        for other in resources.equivalents(resource, subresource)
        if other != resource and _is_served(resources.for_resource(other, subresource), gone)
    )


def is_served_beside(resources: ApiResources, other: ResourceType, asked: GroupVersionResource) -> bool:
    """Tell whether an API server that serves one collection also serves another."""
    known = resources.for_resource(asked)
    return _is_served(other, known.removed_in if known is not None else None)


def _is_served(other: ResourceType | None, gone: str | None) -> bool:
    """Tell whether the last release before ``gone`` served a collection; None stands for the next release."""
    if other is None:
        return False
    if gone is None:
        return other.removed_in is None
    at = other.resource
    introduced = _INTRODUCED.get((at.group, at.resource), {}).get(at.version)
    if introduced is not None and _order(introduced) >= _order(gone):
        return False
    return other.removed_in is None or _order(other.removed_in) >= _order(gone)


def _order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
