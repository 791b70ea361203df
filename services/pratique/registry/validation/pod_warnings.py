"""What is odd in Pods and their templates, and no error: what an API server warns of.

Source: ``pkg/api/pod/warnings.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT, FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import go_quoted
from pratique.pods.pod_spec import APP_ARMOR_ANNOTATION
from pratique.registry.strategies.pod_strategies import APP_ARMOR_FIELD, app_armor_profile
from pratique.registry.validation.addresses import ip_warnings
from pratique.registry.validation.node_labels import DEPRECATED_NODE_LABELS
from pratique.registry.validation.persistent_volume_claims import claim_spec_warnings
from pratique.registry.validation.resource_amounts import is_fractional

_DEPRECATED_ANNOTATIONS: Mapping[str, str] = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_DEPRECATED_VOLUMES: Mapping[str, str] = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
"""Volumes that work no longer, in the API server's order; what ephemeral ones hold comes before the last two."""
_LAST_VOLUMES = ("cephfs", "rbd")
_ODD_VOLUMES = _DEPRECATED_VOLUMES.keys() | {"ephemeral"}
"""Volumes that there may be something to warn of."""
_VOLUME_NAMES = {"storageos": "storageOS"}
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_IN_BYTES = ("memory", "ephemeral-storage")


class _Place(NamedTuple):
    """A container, and where it is."""

    container: JSONObject
    path: FieldPath


_MAX_GENERATED, _GENERATED = 58, "x" * 5
"""How much of ``generateName`` is kept, and what stands for what comes behind it: ``storage/names/generate.go``."""


def host_name_warnings(named: JSONObject, use: str) -> Iterator[str]:
    """Warn that the name of an object makes no good host name; ``use`` says for what it is one."""
    metadata = named.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')[:_MAX_GENERATED]}{_GENERATED}"
    if messages := names.check_dns1123_label(name):
        problem = f"{use}, which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: {problem}: [{' '.join(messages)}]"


def pod_template_warnings(
    template: JSONObject, path: FieldPath, old: JSONObject | None = None
) -> Iterator[str]:
    """What is odd in a Pod or a Pod template, which is at a path: ``warningsForPodSpecAndMeta``.

    There may be as many warnings as there are pairs of ports, so that each is made only if it is asked for.
    """
    del old  # what is stored already is warned of as well
    spec, metadata = template.get("spec") or {}, template.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    place = path / "spec"
    containers = [
        _Place(container, place / field / index)
        for field in ("initContainers", "containers", "ephemeralContainers")
        if field in spec
        for index, container in enumerate(spec[field] or ())
    ]
    # Nearly all Pods have nothing odd, so that what they have not is not looked into.
    is_plain = _LOOKED_INTO.isdisjoint(spec)
    if not is_plain:
        yield from _of_placement(spec, place)
    if annotations:
        yield from _of_annotations(annotations, path / "metadata" / "annotations")
    if volumes := spec.get("volumes"):
        yield from _of_all_volumes(volumes, place / "volumes")
    if not is_plain:
        yield from _of_references(spec, place)
    yield from _of_containers(spec, annotations, containers, path / "metadata" / "annotations")
    yield from _of_all_ports(containers)
    yield from _of_grace(spec, place)
    if not is_plain:
        yield from _of_pod_affinity(spec.get("affinity") or {}, place / "affinity")
        yield from _of_addresses(spec, place)


_LOOKED_INTO = frozenset(
    {
        "affinity", "dnsConfig", "hostAliases", "imagePullSecrets", "nodeSelector", "overhead",
        "topologySpreadConstraints",
    }
)  # fmt: skip
"""Fields of a spec that most Pods have not."""


def _of_annotations(annotations: JSONObject, path: FieldPath) -> Iterator[str]:
    for key, message in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path.key(key)}: {message}"


def _of_references(spec: JSONObject, path: FieldPath) -> Iterator[str]:
    yield from _of_duplicates(spec.get("hostAliases") or (), "ip", path / "hostAliases")
    yield from _of_pull_secrets(spec.get("imagePullSecrets") or (), path / "imagePullSecrets")
    yield from _of_amounts(spec.get("overhead") or {}, path / "overhead")


def _of_placement(spec: JSONObject, path: FieldPath) -> Iterator[str]:
    for label in spec.get("nodeSelector") or ():
        if label in DEPRECATED_NODE_LABELS:
            yield f"{(path / 'nodeSelector').key(label)}: {DEPRECATED_NODE_LABELS[label]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    place = path / "affinity" / "nodeAffinity"
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = place / "requiredDuringSchedulingIgnoredDuringExecution" / "nodeSelectorTerms"
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from _of_node_term(term, terms / index, with_values=False)
    preferred = place / "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        yield from _of_node_term(
            term.get("preference") or {}, preferred / index / "preference", with_values=True
        )
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        place, key = path / "topologySpreadConstraints" / index, constraint.get("topologyKey", "")
        if key in DEPRECATED_NODE_LABELS:
            yield f"{place / 'topologyKey'}: {key} is {DEPRECATED_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{place / 'labelSelector'}: {_NO_SELECTOR}"


def _of_node_term(term: JSONObject, path: FieldPath, *, with_values: bool) -> Iterator[str]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        place, key = path / "matchExpressions" / index, requirement.get("key", "")
        if key in DEPRECATED_NODE_LABELS:
            yield f"{place / 'key'}: {key} is {DEPRECATED_NODE_LABELS[key]}"
        for number, value in enumerate((requirement.get("values") or ()) if with_values else ()):
            for message in names.check_label_value(value):
                yield f"{place / 'values' / number}: {value} is invalid, {message}"


def _of_all_volumes(volumes: Sequence[JSONObject], path: FieldPath) -> Iterator[str]:
    with_files = [volume for volume in volumes if not _WITH_FILES.isdisjoint(volume)]
    yield from _of_volumes(volumes, path)
    if with_files:
        yield from _of_overlaps(with_files)


def _of_volumes(volumes: Sequence[JSONObject], path: FieldPath) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        if _ODD_VOLUMES.isdisjoint(volume):
            continue
        for source, message in _DEPRECATED_VOLUMES.items():
            if source == _LAST_VOLUMES[0]:
                template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
                claim = path / index / "ephemeral" / "volumeClaimTemplate" / "spec"
                yield from claim_spec_warnings((template or {}).get("spec") or {}, claim)
            if volume.get(source) is not None:
                yield f"{path / index / _VOLUME_NAMES.get(source, source)}: {message}"


class _Path(NamedTuple):
    """A path in a volume, and what it comes from."""

    path: str
    source: str

    def __str__(self) -> str:
        return go_quoted(self.path) + (f" ({self.source})" if self.source else "")


def _of_overlaps(volumes: Sequence[JSONObject]) -> Iterator[str]:
    """Paths of one volume that hide one another: ``warningsForOverlappingVirtualPaths``."""
    for volume in volumes:
        for field, (title, name) in _FILES_OF.items():
            items = volume[field].get("items") if volume.get(field) is not None else None
            for text in _overlaps([[_Path(item.get("path", ""), "") for item in items]]) if items else ():
                named = f"{title} {go_quoted(volume[field].get(name, ''))}" if name else title
                yield f"{_titled(volume)} ({named}): overlapping paths: {text}"
        if (projected := volume.get("projected")) is None:
            continue
        groups: list[list[_Path]] = []
        for source in projected.get("sources") or ():
            if all(value is None for value in source.values()):
                yield f"{_titled(volume)} (Projected) has no sources provided"
            else:
                groups.append(_projected_paths(source))
        for text in _overlaps(groups):
            yield f"{_titled(volume)} (Projected): overlapping paths: {text}"


_FILES_OF = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "downwardAPI": ("DownwardAPI", ""),
}
"""The volumes with files of one source, what they are called, and the field with the name of the source."""
_WITH_FILES = _FILES_OF.keys() | {"projected"}


def _titled(volume: JSONObject) -> str:
    return f"volume {go_quoted(volume.get('name', ''))}"


def _projected_paths(source: JSONObject) -> list[_Path]:
    for field, title in (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI")):
        given = source.get(field)
        if given is not None and given.get("items") is not None:
            name = f" {go_quoted(given.get('name', ''))}" if field != "downwardAPI" else ""
            return [_Path(item.get("path", ""), f"{title}{name}") for item in given["items"]]
    if (token := source.get("serviceAccountToken")) is not None:
        return [_Path(token.get("path", ""), "ServiceAccountToken")]
    if (bundle := source.get("clusterTrustBundle")) is not None:
        name = bundle.get("name") if bundle.get("name") is not None else bundle.get("signerName") or ""
        return [_Path(bundle.get("path", ""), f"ClusterTrustBundle {go_quoted(name)}")]
    certificate = source.get("podCertificate") or {}
    parts = {
        "certificateChainPath": "PodCertificate chain",
        "keyPath": "PodCertificate key",
        "credentialBundlePath": "PodCertificate credential bundle",
    }
    return [_Path(certificate[field], title) for field, title in parts.items() if certificate.get(field)]


def _overlaps(groups: Iterable[Sequence[_Path]]) -> Iterator[str]:
    before: list[_Path] = []
    paths = [path for group in groups for path in group]
    texts = {found.path for found in paths}
    if len(texts) == len(paths) and not any("/" in text for text in texts):
        return  # the names of different files
    for found in paths:
        needle = found._replace(path=found.path.rstrip("/"))
        for item in before if needle.path else ():
            inside, around = f"{needle.path}/", f"{item.path}/"
            if item.path and (inside.startswith(around) or around.startswith(inside)):
                yield f"{needle} with {item}"
        before.append(needle)


def _of_duplicates(items: Sequence[JSONObject], field: str, path: FieldPath) -> Iterator[str]:
    found: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(field, "")
        if value in found:
            yield f"{path / index / field}: duplicate {field} {go_quoted(value)}"
        found.add(value)


def _of_pull_secrets(secrets: Sequence[JSONObject], path: FieldPath) -> Iterator[str]:
    yield from _of_duplicates(secrets, "name", path)
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path / index / "name"}: invalid empty name ""'


def _of_amounts(amounts: JSONObject, path: FieldPath) -> Iterator[str]:
    for name in _IN_BYTES:
        if name in amounts:
            amount = Quantity.from_json(amounts[name])
            if is_fractional(amount):
                value = go_quoted(str(amount))
                yield f"{path.key(name)}: fractional byte value {value} is invalid, must be an integer"


def _of_containers(
    spec: JSONObject, annotations: JSONObject, containers: Sequence[_Place], path: FieldPath
) -> Iterator[str]:
    if _SECCOMP_POD in annotations and not _has_seccomp(spec):
        yield f"{path.key(_SECCOMP_POD)}: {_SECCOMP}"
    for container, place in containers:
        if annotations:
            yield from _of_profiles(container, spec, annotations, path)
        if resources := container.get("resources"):
            yield from _of_resources(resources, place / "resources")
        variables = container.get("env") or ()
        if len(variables) > 1 and len({variable.get("name", "") for variable in variables}) < len(variables):
            yield from _of_environment(variables, place / "env")


def _of_profiles(
    container: JSONObject, spec: JSONObject, annotations: JSONObject, path: FieldPath
) -> Iterator[str]:
    key = _SECCOMP_CONTAINER + container.get("name", "")
    if key in annotations and not _has_seccomp(container):
        yield f"{path.key(key)}: {_SECCOMP}"
    key = APP_ARMOR_ANNOTATION + container.get("name", "")
    if path != _OF_POD and key in annotations and _is_alone(annotations[key], container, spec):
        yield f"{path.key(key)}: {APP_ARMOR_FIELD}"


def _of_resources(resources: JSONObject, path: FieldPath) -> Iterator[str]:
    for name in _IN_BYTES:
        for field in ("limits", "requests"):
            amounts = resources.get(field)
            if amounts and name in amounts and not _is_whole(amounts[name]):
                yield from _of_amounts({name: amounts[name]}, path / field)


def _is_whole(amount: JSON) -> bool:
    """Tell most amounts of whole bytes from those that may be none, or overflow in thousandths of a byte."""
    return (
        type(amount) is str
        and len(amount) <= _NEVER_OVERFLOWS
        and amount.isalnum()
        and amount[-1] not in "num"
        and amount[-2:] not in {"Ti", "Pi", "Ei"}
    )


_NEVER_OVERFLOWS = 8
"""Characters of an amount up to gibibytes with which it is far from overflowing."""


_OF_POD = ROOT / "metadata" / "annotations"
"""Of Pods themselves, strategies warn."""


def _is_alone(annotation: JSON, container: JSONObject, spec: JSONObject) -> bool:
    """Whether an annotation with a profile of AppArmor says what no field says."""
    own, common = (
        (holder.get("securityContext") or {}).get("appArmorProfile") for holder in (container, spec)
    )
    return own is None and (common is None or common != app_armor_profile(annotation))


def _has_seccomp(holder: JSONObject) -> bool:
    return (holder.get("securityContext") or {}).get("seccompProfile") is not None


def _of_environment(variables: Sequence[JSONObject], path: FieldPath) -> Iterator[str]:
    """Variables that hide another one of their name, unless their value refers to it."""
    found: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name not in found:
            found.add(name)
        elif variable.get("valueFrom") is not None or value == reference or reference not in value:
            hidden = f"hides previous definition of {go_quoted(name)}, which may be dropped when using apply"
            yield f"{path / index}: {hidden}"


class _Port(NamedTuple):
    """A port of a container, and where it is."""

    port: JSONObject
    container: FieldPath
    number: int

    @property
    def path(self) -> FieldPath:
        """The path to it, which few are asked for."""
        return self.container / "ports" / self.number


def _of_all_ports(containers: Sequence[_Place]) -> Iterator[str]:
    all_ports = [port for container, _ in containers for port in container.get("ports") or ()]
    if not all_ports or (len(all_ports) == 1 and not all_ports[0].get("hostIP")):
        return
    ports = [
        _Port(port, place, index)
        for container, place in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    yield from _of_ports(ports)
    yield from _of_port_names(ports)


def _of_ports(ports: Sequence[_Port]) -> Iterator[str]:
    found: dict[tuple[JSON, JSON], list[tuple[_Port, str, int]]] = {}
    for item in ports:
        port = item.port
        ip, host = port.get("hostIP", ""), port.get("hostPort") or 0
        if ip and not host:
            yield f"{item.path}: hostIP set without hostPort: {_port_text(port)}"
        others = found.setdefault((port.get("containerPort") or 0, port.get("protocol", "")), [])
        for other, other_ip, other_host in others:
            if (ip, host) == (other_ip, other_host):
                yield f"{item.path}: duplicate port definition with {other.path}"
            elif not host or not other_host:
                yield f"{item.path}: overlapping port definition with {other.path}"
            elif host == other_host and bool(ip) is not bool(other_ip):
                yield f"{item.path}: dangerously ambiguous port definition with {other.path}"
        others.append((item, ip, host))


def _port_text(port: JSONObject) -> str:
    """A port as Go's ``%+v`` writes it."""
    fields = {
        "Name": port.get("name", ""),
        "HostPort": port.get("hostPort") or 0,
        "ContainerPort": port.get("containerPort") or 0,
        "Protocol": port.get("protocol", ""),
        "HostIP": port.get("hostIP", ""),
    }
    return f"{{{' '.join(f'{name}:{value}' for name, value in fields.items())}}}"


def _of_port_names(ports: Sequence[_Port]) -> Iterator[str]:
    found: dict[str, _Port] = {}
    for item in ports:
        name = item.port.get("name", "")
        if name and name in found:
            told = f"services and probes that select ports by name will use {found[name].path}"
            yield f"{item.path}: duplicate port name {go_quoted(name)} with {found[name].path}, {told}"
        elif name:
            found[name] = item


def _of_grace(spec: JSONObject, path: FieldPath) -> Iterator[str]:
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        told = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path / 'terminationGracePeriodSeconds'}: {told}"


def _of_pod_affinity(affinity: JSONObject, path: FieldPath) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        given, place = affinity.get(field) or {}, path / field
        required, preferred = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in _KINDS)
        for index, term in enumerate(given.get(required) or ()):
            if term.get("labelSelector") is None:
                yield f"{place / required / index / 'labelSelector'}: {_NO_SELECTOR}"
        for index, term in enumerate(given.get(preferred) or ()):
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None:
                selector = place / preferred / index / "podAffinityTerm" / "labelSelector"
                yield f"{selector}: {_NO_SELECTOR}"


_KINDS = ("required", "preferred")


def _of_addresses(spec: JSONObject, path: FieldPath) -> Iterator[str]:
    servers = (spec.get("dnsConfig") or {}).get("nameservers") or ()
    for index, server in enumerate(servers):
        yield from ip_warnings(server, path / "dnsConfig" / "nameservers" / index)
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_warnings(alias.get("ip", ""), path / "hostAliases" / index / "ip")
