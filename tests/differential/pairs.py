"""What is compared: a world, a request in it, and what each side answers."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import built_in_resources
from support.webhook_servers import WebhookServer


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """A resource as a path names it, and the kind that goes with it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As in an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where its objects, or one of them, or a part of one, are."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        steps = [step for step in (self.plural, name, subresource) if step]
        return f"{root}{inside}/{'/'.join(steps)}"


def core(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    """A resource of the core group."""
    return Resource("", "v1", plural, kind, namespaced)


PODS = core("pods", "Pod")
NAMESPACES = core("namespaces", "Namespace", namespaced=False)
NODES = core("nodes", "Node", namespaced=False)
SERVICES = core("services", "Service")
CONFIG_MAPS = core("configmaps", "ConfigMap")
SECRETS = core("secrets", "Secret")
SERVICE_ACCOUNTS = core("serviceaccounts", "ServiceAccount")
LIMIT_RANGES = core("limitranges", "LimitRange")
RESOURCE_QUOTAS = core("resourcequotas", "ResourceQuota")
VOLUMES = core("persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS = core("persistentvolumeclaims", "PersistentVolumeClaim")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
TRUST_BUNDLES = Resource(
    "certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle", namespaced=False
)
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
EVENTS = core("events", "Event")
VALIDATING_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)

RESOURCES = {
    (resource.api_version, resource.kind): resource
    for resource in list(globals().values())
    if isinstance(resource, Resource)
}
"""All of them, by the type of their objects."""


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of a kind, one of those above or any other that is built in."""
    known = RESOURCES.get((api_version, kind))
    if known is not None:
        return known
    found = built_in_resources().for_object({"apiVersion": api_version, "kind": kind})
    at = found.resource
    return Resource(at.group, at.version, at.resource, kind, found.namespaced)


class User(enum.StrEnum):
    """Who asks; the value is the bearer token."""

    ADMIN = "admin"
    """In system:masters, so that everything is allowed."""
    AUTHOR = "author"
    """May do everything that RBAC knows, but is not in system:masters."""
    GUEST = "guest"
    """May read, create, update and delete, but has no verb of any other name, and no subresource ``finalizers``."""
    NODE = "node"
    """``system:node:n0`` in ``system:nodes``."""
    SERVICE_ACCOUNT = "robot"
    """``system:serviceaccount:robots:robot``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request to an API server, always a dry run."""

    user: User
    method: str
    """``POST``, ``PUT`` or ``DELETE``."""
    resource: Resource
    namespace: str
    name: str
    body: JSON
    subresource: str = ""

    @property
    def path(self) -> str:
        """The path, without the query."""
        collection = self.method == "POST" and not self.subresource
        name = "" if collection else self.name
        return self.resource.path(self.namespace, name, self.subresource)

    def describe(self) -> str:
        """The request in a line, without its body."""
        return f"{self.method} {self.path} as {self.user}"


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """How API servers run, and Pratique beside them."""

    plugins: tuple[str, ...]
    """What is enabled beside the default plugins."""
    configurations: Mapping[str, JSONObject] = dataclasses.field(default_factory=dict)
    """The configuration of each plugin that has one, of both sides."""
    flags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Further flags of the API servers."""
    gates: Mapping[str, JSONObject] = dataclasses.field(default_factory=dict)
    """What an API server takes from flags, and Pratique as configurations of plugins."""

    def admission(self, folder: Path, *, ours: bool = False) -> JSONObject | None:
        """The AdmissionConfiguration of one side; None if it has none.

        ``$FOLDER`` stands for the folder with the kubeconfig of the images' backend.
        """
        every = {**self.configurations, **(self.gates if ours else {})}
        if not every:
            return None
        written = json.dumps(every).replace("$FOLDER", str(folder))
        return {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": name, "configuration": it} for name, it in json.loads(written).items()],
        }

    def __hash__(self) -> int:
        """By the plugins alone: setups are few."""
        return hash(self.plugins)


USUAL = Setup(
    (
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "ExtendedResourceToleration",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceExists",
        "NodeRestriction",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)
"""All plugins that need no configuration and leave enough requests to the others."""


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """What exists before the first request, in the order in which it is created."""

    objects: tuple[JSONObject, ...]
    """With a ``status``, if the API server is to be told one."""
    namespace: str
    """Where most requests go."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What one side says to a request."""

    code: int
    reason: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    object: JSON = None
    """The object as it would be stored; None where there is none, or where the request is refused."""
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What it adds to the audit log, by the keys that a webhook's answer has."""

    @property
    def allowed(self) -> bool:
        """Whether the request goes through."""
        return self.code < 300

    def words(self) -> Mapping[str, JSON]:
        """Everything but the object."""
        return {
            "code": 200 if self.allowed else self.code,
            "reason": self.reason,
            "message": self.message,
            "warnings": list(self.warnings),
        }


class Family(Protocol):
    """A kind of worlds, and of requests in them."""

    @property
    def name(self) -> str:
        """As in the table of ``docs/conformance.md``."""

    @property
    def requests(self) -> int:
        """How many requests each world is worth; making a world takes a few seconds."""

    @property
    def setup(self) -> Setup:
        """How the API servers run."""

    def world(self, random: Random, suffix: str, server: WebhookServer, /) -> World:
        """Draw a world; ``suffix`` makes the names of cluster-scoped objects unique, ``server`` serves webhooks."""

    def request(self, random: Random, world: World, /) -> Request:
        """Draw a request in it."""


def made(resource: Resource, name: str, namespace: str = "", **members: JSON) -> JSONObject:
    """An object of a resource."""
    metadata: JSONObject = {"name": name, **({"namespace": namespace} if namespace else {})}
    given = members.pop("metadata", None)
    if isinstance(given, dict):
        metadata |= given
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}


_T = TypeVar("_T")


def some(random: Random, share: float, values: Sequence[_T]) -> tuple[_T, ...]:
    """Each of some values with a probability."""
    return tuple(value for value in values if random.random() < share)
