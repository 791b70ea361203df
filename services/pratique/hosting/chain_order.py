"""The order in which controllers run: Kubernetes' own as Kubernetes runs them, and others where they wish to be."""

from __future__ import annotations

import difflib
import graphlib
import heapq
import itertools
from collections.abc import Iterable, Mapping

from pratique.admission.controllers import Controller
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.statuses import go_quoted

CHAIN_ORDER = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "SecurityContextDeny",
    "LimitPodHardAntiAffinityTopology",
    "InitialResources",
    "PodPreset",
    "ResourceDefaults",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodSecurityPolicy",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "DenyEscalatingExec",
    "DenyExecOnPrivileged",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "PersistentVolumeLabel",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    # Controllers of other packages come here, by name.
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "Initializers",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""Every admission controller that Kubernetes has or had, in the order in which they run.

This is the order of 1.37 (``pkg/kubeapiserver/options/plugins.go`` ``AllOrderedPlugins``), with those of 1.10 at their
place among their neighbours, and ResourceDefaults, from before 1.0, in front of its successor.
"""

_PLACES: Mapping[str, int] = {name: place for place, name in enumerate(CHAIN_ORDER)}
_USUAL_PLACE = _PLACES["MutatingAdmissionPolicy"] - 0.5
"""Of controllers of other packages."""
_BESIDE = 0.25
"""How far from its neighbour a controller wants to be: nearer than the next one of Kubernetes."""


def in_chain_order(controllers: Iterable[Controller]) -> tuple[Controller, ...]:
    """Sort controllers into chain order.

    Controllers of other packages run after Kubernetes' own and before any policy and webhook, by name, unless they wish
    to run ``before`` or ``after`` others; then as near to those as they may.

    Raises:
        ConfigurationError: a controller wants to run before or after one that there is not, or after ResourceQuota,
            which charges what everything else has allowed; or wishes contradict each other.
    """
    by_name = {controller.name: controller for controller in controllers}
    own = sorted(_PLACES.keys() & by_name.keys(), key=_PLACES.__getitem__)
    following: dict[str, set[str]] = {name: set() for name in by_name}
    for first, second in itertools.pairwise(own):
        following[first].add(second)
    for controller in by_name.values():
        for other in (*controller.before, *controller.after):
            _check_neighbour(controller, other, by_name)
        following[controller.name].update(controller.before)
        for other in controller.after:
            following[other].add(controller.name)
    _check_no_circle(following)
    return tuple(map(by_name.__getitem__, _sorted(following, by_name)))


def _check_neighbour(controller: Controller, other: str, by_name: Mapping[str, Controller]) -> None:
    field = "before" if other in controller.before else "after"
    begins = f"admission controller {go_quoted(controller.name)} wants to run {field} {go_quoted(other)}"
    if other not in by_name:
        close = difflib.get_close_matches(other, by_name, n=1)
        hint = f"; did you mean {go_quoted(close[0])}?" if close else ""
        raise ConfigurationError(f"{begins}, which is unknown{hint}")
    if field == "after" and by_name[other].commits_quota:
        raise ConfigurationError(f"{begins}, which charges what everything else has allowed")


def _check_no_circle(following: Mapping[str, set[str]]) -> None:
    try:
        graphlib.TopologicalSorter(following).prepare()
    except graphlib.CycleError as error:
        circle = [name for name in reversed(error.args[1]) if name not in CHAIN_ORDER] or error.args[1]
        names = ", ".join(sorted({go_quoted(name) for name in circle}))
        raise ConfigurationError(
            f"the wishes of {names} to run before or after other admission controllers contradict each other"
            " or the order of Kubernetes' own"
        ) from None


def _sorted(following: Mapping[str, set[str]], by_name: Mapping[str, Controller]) -> Iterable[str]:
    """Sort topologically; of those that may come next, the one that wants to be first does."""
    waiting = dict.fromkeys(by_name, 0)
    for others in following.values():
        for other in others:
            waiting[other] += 1
    ready = [(_wanted_place(name, by_name), name) for name, count in waiting.items() if not count]
    heapq.heapify(ready)
    while ready:
        _, name = heapq.heappop(ready)
        yield name
        for other in following[name]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (_wanted_place(other, by_name), other))


def _wanted_place(
    name: str, by_name: Mapping[str, Controller], asking: frozenset[str] = frozenset()
) -> float:
    """Where a controller wants to be. Those of ``asking`` want to be beside it, so their places do not say."""
    if name in _PLACES:
        return _PLACES[name]
    controller, asking = by_name[name], asking | {name}
    if before := [
        _wanted_place(other, by_name, asking) for other in controller.before if other not in asking
    ]:
        return min(before) - _BESIDE
    if after := [_wanted_place(other, by_name, asking) for other in controller.after if other not in asking]:
        return max(after) + _BESIDE
    return _USUAL_PLACE
