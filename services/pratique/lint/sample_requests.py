"""Typical requests of Kubernetes' own components, for rules that ask whether a webhook is called for them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_resources import ApiResources
from pratique.lint.outage_simulation import CONTROLLER_MANAGER

_NAME = "sample"


class SampleRequest(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A typical request of a system component."""

    group: str = ""
    version: str = "v1"
    resource: str
    subresource: str = ""
    kind: str
    operation: Operation = Operation.CREATE
    namespace: str = ""
    """Empty for cluster-scoped resources."""
    user: UserInfo = CONTROLLER_MANAGER
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        named = qualified_resource(self.group, self.resource)
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.operation} of {named}{'/' * bool(self.subresource)}{self.subresource}{where}"

    @functools.cached_property
    def cached_review(self) -> Review:
        """The review of this request, always the same object, so that its result can be cached."""
        return self.review()

    def versions(self, resources: ApiResources) -> Iterator[SampleRequest]:
        """Yield the request in each group and version in which a current API server accepts it."""
        requested = GroupVersionResource(self.group, self.version, self.resource)
        for equivalent in resources.equivalents(requested, self.subresource):
            known = resources.for_resource(equivalent, self.subresource)
            if known is not None and known.served and known.removed_in is None:
                yield msgspec.structs.replace(self, group=equivalent.group, version=equivalent.version)

    def review(self) -> Review:
        """Make the review of this request."""
        document = Document.from_data(self._object())
        return Review(
            uid=_NAME,
            operation=self.operation,
            kind=GroupVersionKind(self.group, self.version, self.kind),
            resource=GroupVersionResource(self.group, self.version, self.resource),
            subresource=self.subresource,
            name=_NAME,
            namespace=self.namespace,
            user=self.user,
            object_document=document,
            old_object_document=Document.from_data(self._object() if self.operation == "UPDATE" else None),
        )

    def _object(self) -> JSONObject:
        return {
            "apiVersion": f"{self.group}/{self.version}".lstrip("/"),
            "kind": self.kind,
            "metadata": {
                "name": _NAME,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
        }


_SYSTEM_NAMESPACE = "kube-system"
_KUBELET = UserInfo("system:node:sample", groups=("system:nodes", "system:authenticated"))
_BY_KUBELET = functools.partial(SampleRequest, user=_KUBELET)

SYSTEM_OBJECTS = (
    SampleRequest(resource="pods", kind="Pod", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="replicasets", kind="ReplicaSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="deployments", kind="Deployment", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(group="apps", resource="daemonsets", kind="DaemonSet", namespace=_SYSTEM_NAMESPACE),
    SampleRequest(
        resource="configmaps", kind="ConfigMap", operation=Operation.UPDATE, namespace=_SYSTEM_NAMESPACE
    ),
)
LEASE_UPDATES = (
    _BY_KUBELET(
        group="coordination.k8s.io",
        resource="leases",
        kind="Lease",
        operation=Operation.UPDATE,
        namespace="kube-node-lease",
    ),
)
NODE_REQUESTS = (
    _BY_KUBELET(resource="nodes", kind="Node"),
    _BY_KUBELET(resource="nodes", subresource="status", kind="Node", operation=Operation.UPDATE),
    _BY_KUBELET(resource="nodes", kind="Node", operation=Operation.UPDATE),
)
ACCESS_REVIEW_REQUESTS = (
    SampleRequest(group="authentication.k8s.io", resource="tokenreviews", kind="TokenReview"),
    SampleRequest(group="authorization.k8s.io", resource="subjectaccessreviews", kind="SubjectAccessReview"),
)
EVENT_REQUESTS = (
    SampleRequest(resource="events", kind="Event", namespace="default"),
    SampleRequest(group="events.k8s.io", resource="events", kind="Event", namespace="default"),
)
POD_STATUS_UPDATES = (
    SampleRequest(
        resource="pods", subresource="status", kind="Pod", operation=Operation.UPDATE, namespace="default"
    ),
)
MIRROR_POD_REQUESTS = (
    _BY_KUBELET(
        resource="pods",
        kind="Pod",
        namespace=_SYSTEM_NAMESPACE,
        annotations={"kubernetes.io/config.mirror": "sample", "kubernetes.io/config.source": "file"},
    ),
)
