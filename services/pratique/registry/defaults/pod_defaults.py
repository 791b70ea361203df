"""Computed defaults of Pods and what they are made of, and of what else belongs to the core group.

Source: ``pkg/apis/core/v1/defaults.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.defaults.literal_defaults import Literals

_POD_SPEC = Literals(
    zero={"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"},
    missing={"securityContext": {}, "terminationGracePeriodSeconds": 30},
)
_CONTAINER = Literals(
    zero={"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
)


def _objects(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _pod(pod: JSONObject) -> JSONObject:
    """Fill in what Pods have and templates of Pods do not."""
    spec = pod.get("spec") or {}
    filled: JSONObject = {}
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        filled["terminationGracePeriodSeconds"] = 1
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list):
            changed = [_with_requests(container) for container in containers]
            if spec.get("hostNetwork"):
                changed = [_with_host_ports(container) for container in changed]
            if any(new is not old for new, old in zip(changed, containers, strict=True)):
                filled[field] = changed
    if spec.get("enableServiceLinks") is None:
        filled["enableServiceLinks"] = True
    return {**pod, "spec": {**spec, **filled}} if filled else pod


def _with_requests(container: JSON) -> JSON:
    """Request what is limited, where nothing else is requested."""
    resources = container.get("resources") if isinstance(container, dict) else None
    limits = resources.get("limits") if resources else None
    if not limits or not resources:
        return container
    requests = resources.get("requests") or {}
    missing = {name: limit for name, limit in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def _with_host_ports(container: JSON) -> JSON:
    ports = container.get("ports") if isinstance(container, dict) else None
    if not ports or all(port.get("hostPort") for port in ports):
        return container
    bound = [
        port if port.get("hostPort") or not port.get("containerPort")
        else {**port, "hostPort": port["containerPort"]}
        for port in ports
    ]  # fmt: skip
    return {**container, "ports": bound} if bound != ports else container


def _pod_spec(spec: JSONObject) -> JSONObject:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account and not (spec.get("serviceAccountName") == spec.get("serviceAccount") == account):
        spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    return _POD_SPEC.fill(spec)


def _pod_status(status: JSONObject) -> JSONObject:
    """Keep the first address of a Pod the same in both fields."""
    address, addresses = status.get("podIP"), _objects(status.get("podIPs"))
    if not address:
        first = addresses[0].get("ip") if addresses else None
        return {**status, "podIP": first} if first else status
    if not addresses or (addresses[0].get("ip") or "") != address:
        return {**status, "podIPs": [{"ip": address}]}
    return status


def _container(container: JSONObject) -> JSONObject:
    filled = _CONTAINER.fill(container)
    if filled.get("imagePullPolicy"):
        return filled
    policy = pull_policy(filled.get("image") or "")
    return {**filled, "imagePullPolicy": policy}


def _volume(volume: JSONObject) -> JSONObject:
    """Make a volume that says not what it is an empty folder."""
    if not any(value is not None for name, value in volume.items() if name != "name"):
        return {**volume, "emptyDir": {}}
    image = volume.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        return {**volume, "image": {**image, "pullPolicy": pull_policy(image.get("reference") or "")}}
    return volume


_IDENTIFIER = pattern("[a-f0-9]{64}")
_COMPONENT = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_COMPONENT}(?:\.{_COMPONENT})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
_REMOTE_NAME = rf"{_PATH_COMPONENT}(?:/{_PATH_COMPONENT})*"
_DIGEST = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = pattern(
    rf"(?P<domain>(?:{_DOMAIN})/)?(?P<path>{_REMOTE_NAME})"
    rf"(?::(?P<tag>[a-zA-Z0-9_][a-zA-Z0-9_.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?"
)
_MAX_REPOSITORY_NAME = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


_LONGEST_REMEMBERED = 512
"""Characters of what is remembered: names of images have fewer, and whoever makes Pods could fill the memory."""


def pull_policy(image: str) -> str:
    """When to pull an image: always if it is the latest, by its tag or for want of one."""
    return _known_policy(image) if len(image) <= _LONGEST_REMEMBERED else _policy_of(image)


def _policy_of(image: str) -> str:
    return "Always" if image_tag(image) == "latest" else "IfNotPresent"


_known_policy = functools.lru_cache(4096)(_policy_of)


def image_tag(image: str) -> str:
    """The tag of an image, ``latest`` if it has neither tag nor digest; empty if it is no image's name.

    Sources: ``ParseImageName`` in ``pkg/util/parsers/parsers.go``, and ``github.com/distribution/reference``.
    """
    if _IDENTIFIER.fullmatch(image):
        return ""
    domain, remainder = _split_domain(image)
    if remainder.partition(":")[0] != remainder.partition(":")[0].lower():
        return ""
    found = _REFERENCE.fullmatch(f"{domain}/{remainder}")
    if found is None or len(found["path"]) > _MAX_REPOSITORY_NAME or not _is_digest(found["digest"]):
        return ""
    return found["tag"] or ("" if found["digest"] else "latest")


_DEFAULT_DOMAIN = "docker" + ".io"  # the domain of names without one: nothing here asks it


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    if not slash:
        return _DEFAULT_DOMAIN, f"library/{image}"
    domain, remainder = _DEFAULT_DOMAIN, image
    if first == f"index.{_DEFAULT_DOMAIN}":
        remainder = rest
    elif first == "localhost" or "." in first or ":" in first or first.lower() != first:
        domain, remainder = first, rest
    if domain == _DEFAULT_DOMAIN and "/" not in remainder:
        remainder = f"library/{remainder}"
    return domain, remainder


def _is_digest(digest: str | None) -> bool:
    if digest is None:
        return True
    algorithm, _, encoded = digest.partition(":")
    return len(encoded) == _DIGEST_LENGTHS.get(algorithm) and encoded == encoded.lower()


def _namespace(namespace: JSONObject) -> JSONObject:
    """Label a Namespace with its name, once it has one."""
    metadata = namespace.get("metadata") or {}
    name, labels = metadata.get("name"), metadata.get("labels") or {}
    if not name or labels.get("kubernetes.io/metadata.name") == name:
        return namespace
    labels = {**labels, "kubernetes.io/metadata.name": name}
    return {**namespace, "metadata": {**metadata, "labels": labels}}


def _node_status(status: JSONObject) -> JSONObject:
    if status.get("allocatable") is None and status.get("capacity"):
        return {**status, "allocatable": status["capacity"]}
    return status


def _limit_range_item(item: JSONObject) -> JSONObject:
    """Limit containers by default to the maximum, and request the limit or the minimum."""
    if item.get("type") != "Container":
        return item
    limits = {**(item.get("max") or {}), **(item.get("default") or {})}
    requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
    wanted = {name: values for name, values in (("default", limits), ("defaultRequest", requests)) if values}
    return item if all(item.get(name) == values for name, values in wanted.items()) else {**item, **wanted}


def _endpoints(endpoints: JSONObject) -> JSONObject:
    subsets = endpoints.get("subsets")
    ports = [port for subset in _objects(subsets) for port in _objects(subset.get("ports"))]
    if all(port.get("protocol") for port in ports):
        return endpoints
    filled = [
        {**subset, "ports": [_PROTOCOL.fill(port) for port in subset["ports"]]} if subset.get("ports") else subset
        for subset in _objects(subsets)
    ]  # fmt: skip
    return {**endpoints, "subsets": filled}


_PROTOCOL = Literals(zero={"protocol": "TCP"})
_VOLUME = Literals(zero={"persistentVolumeReclaimPolicy": "Retain"}, missing={"volumeMode": "Filesystem"})
_PENDING = Literals(zero={"phase": "Pending"})


def _persistent_volume(volume: JSONObject) -> JSONObject:
    spec, status = volume.get("spec") or {}, volume.get("status") or {}
    filled, pending = _VOLUME.fill(spec), _PENDING.fill(status)
    return volume if filled is spec and pending is status else {**volume, "spec": filled, "status": pending}


def _persistent_volume_claim(claim: JSONObject) -> JSONObject:
    status = claim.get("status") or {}
    pending = _PENDING.fill(status)
    return claim if pending is status else {**claim, "status": pending}


def _replication_controller(controller: JSONObject) -> JSONObject:
    """Select by the labels of the template, and have the same."""
    spec, metadata = controller.get("spec") or {}, controller.get("metadata") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not spec.get("selector"):
        controller = {**controller, "spec": {**spec, "selector": labels}}
    if labels and not metadata.get("labels"):
        controller = {**controller, "metadata": {**metadata, "labels": labels}}
    return controller


CORE_DEFAULTS: Mapping[str, Callable[[JSONObject], JSONObject]] = {
    "core.v1.Container": _container,
    "core.v1.Endpoints": _endpoints,
    "core.v1.EphemeralContainer": _container,
    "core.v1.LimitRangeItem": _limit_range_item,
    "core.v1.Namespace": _namespace,
    "core.v1.NodeStatus": _node_status,
    "core.v1.PersistentVolume": _persistent_volume,
    "core.v1.PersistentVolumeClaim": _persistent_volume_claim,
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.PodStatus": _pod_status,
    "core.v1.ReplicationController": _replication_controller,
    "core.v1.Volume": _volume,
}
"""What functions of the core group do that compute."""
