"""The types of the API: PodSecurityPolicies, Pods and their security contexts, as far as policies look at them.

Source: ``k8s.io/api/policy/v1beta1/types.go`` and ``pkg/securitycontext/accessors.go`` of 1.24:
where a container leaves a field of its security context unset, the Pod's value applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import ROOT, FieldPath, GoLiteral
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.prepared_types import prepared
from pratique.pods.pod_spec import CONTAINER_FIELDS


class SELinuxOptions(msgspec.Struct, frozen=True):
    """SELinux labels."""

    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None

    @property
    def document(self) -> JSONObject:
        """The labels as written into a Pod."""
        return {name: label for name, label in msgspec.structs.asdict(self).items() if label}


class SeccompProfile(msgspec.Struct, frozen=True, rename="camel"):
    """A seccomp profile in a field."""

    type: str | None = None
    localhost_profile: str | None = None


class Sysctl(msgspec.Struct, frozen=True):
    """A kernel parameter that a Pod sets."""

    name: str | None = None


class Capabilities(msgspec.Struct, frozen=True):
    """The capabilities that a container adds and drops."""

    add: list[str] | None = None
    drop: list[str] | None = None


class PodSecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """``spec.securityContext`` of a Pod."""

    se_linux_options: SELinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: list[int] | None = None
    fs_group: int | None = None
    seccomp_profile: SeccompProfile | None = None
    sysctls: list[Sysctl] | None = None


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """``securityContext`` of a container."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a container."""

    host_port: int | None = None


class VolumeMount(msgspec.Struct, frozen=True, rename="camel"):
    """A mount of a container."""

    name: str | None = None
    read_only: bool | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """A container, with the fields that policies look at."""

    name: str | None = None
    security_context: SecurityContext | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None

    @property
    def context(self) -> SecurityContext:
        """Its own security context."""
        return self.security_context or _EMPTY_CONTEXT


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``spec`` of a Pod, with the fields that policies look at."""

    security_context: PodSecurityContext | None = None
    init_containers: list[Container] | None = None
    containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    volumes: list[dict[str, object]] | None = None
    runtime_class_name: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")

    @property
    def context(self) -> PodSecurityContext:
        """The security context of the Pod."""
        return self.security_context or _EMPTY_POD_CONTEXT

    def all_containers(self) -> Iterator[tuple[FieldPath, Container]]:
        """All containers with their paths, in the order in which Kubernetes visits them."""
        groups = (self.init_containers, self.containers, self.ephemeral_containers)
        for field, group in zip(CONTAINER_FIELDS, groups, strict=True):
            for index, container in enumerate(group or ()):
                yield SPEC / field / index, container

    def effective(self, container: Container) -> SecurityContext:
        """The effective security context of a container: its own values, otherwise the Pod's."""
        own, pods = container.context, self.context
        return msgspec.structs.replace(
            own,
            se_linux_options=_own_or_pod(own.se_linux_options, pods.se_linux_options),
            run_as_user=_own_or_pod(own.run_as_user, pods.run_as_user),
            run_as_group=_own_or_pod(own.run_as_group, pods.run_as_group),
            run_as_non_root=_own_or_pod(own.run_as_non_root, pods.run_as_non_root),
        )


class PodMetadata(msgspec.Struct, frozen=True):
    """``metadata`` of a Pod, with the fields that policies look at."""

    annotations: dict[str, str] | None = None


class Pod(msgspec.Struct, frozen=True):
    """A Pod, with the fields that policies look at."""

    metadata: PodMetadata | None = None
    given_spec: PodSpec | None = msgspec.field(default=None, name="spec")

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations; empty if it has none."""
        return (self.metadata.annotations if self.metadata else None) or {}

    @property
    def spec(self) -> PodSpec:
        """Its spec; empty if it has none."""
        return self.given_spec or _EMPTY_SPEC


SPEC = ROOT / "spec"
_EMPTY_SPEC = PodSpec()
_EMPTY_POD_CONTEXT = PodSecurityContext()
_EMPTY_CONTEXT = SecurityContext()


def read_pod(document: JSON) -> Pod:
    """Read a Pod.

    Raises:
        RefusalError: A field has the wrong type; 400, and the text names the field.
    """
    try:
        return msgspec.convert(document, prepared(Pod))
    except msgspec.ValidationError as error:
        text = f'Pod in version "v1" cannot be handled as a Pod: {error}'
        raise RefusalError(statuses.bad_request(text)) from None


def _own_or_pod(own: JSON, pods: JSON) -> JSON:
    return pods if own is None else own


NULL = "null"
"""How field errors print a nil pointer, in quotes."""


def go_int64s(numbers: Sequence[int] | None) -> GoLiteral:
    """A Go slice: ``[]int64{1, 2}``, or ``[]int64(nil)`` for None."""
    if numbers is None:
        return GoLiteral("[]int64(nil)")
    return GoLiteral(f"[]int64{{{', '.join(map(str, numbers))}}}")


def ranges(values: Sequence[IDRange]) -> str:
    """Ranges of ids as Go prints them: ``[{1 1} {5 10}]``."""
    return f"[{' '.join(f'{{{each.min} {each.max}}}' for each in values)}]"


class IDRange(msgspec.Struct, frozen=True):
    """Integers from ``min`` to ``max`` inclusive: ids of users or groups, or ports."""

    min: int = 0
    max: int = 0

    def __contains__(self, number: int) -> bool:
        """Whether a number is in the range."""
        return self.min <= number <= self.max


class IDStrategyOptions(msgspec.Struct, frozen=True):
    """The strategy for ids, and the ranges that some strategies need."""

    rule: str = ""
    ranges: tuple[IDRange, ...] = ()


class SELinuxStrategyOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The strategy for SELinux labels, and the labels that ``MustRunAs`` needs."""

    rule: str = ""
    se_linux_options: SELinuxOptions | None = None


class AllowedHostPath(msgspec.Struct, frozen=True, rename="camel"):
    """A path prefix on the node below which folders may be mounted."""

    path_prefix: str = ""
    read_only: bool = False


class AllowedFlexVolume(msgspec.Struct, frozen=True):
    """A driver of flexVolumes that may be used."""

    driver: str = ""


class AllowedCSIDriver(msgspec.Struct, frozen=True):
    """A driver of inline CSI volumes that may be used."""

    name: str = ""


class RuntimeClassStrategyOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The RuntimeClasses that a Pod may name, and the default one."""

    allowed_runtime_class_names: tuple[str, ...] = ()
    default_runtime_class_name: str | None = None


_RUN_AS_ANY = IDStrategyOptions("RunAsAny")


class PodSecurityPolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """A policy's spec. Missing fields have the API server's defaults."""

    privileged: bool = False
    default_add_capabilities: tuple[str, ...] = ()
    required_drop_capabilities: tuple[str, ...] = ()
    allowed_capabilities: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    host_network: bool = False
    host_ports: tuple[IDRange, ...] = ()
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    host_ipc: bool = msgspec.field(default=False, name="hostIPC")
    se_linux: SELinuxStrategyOptions = SELinuxStrategyOptions()
    run_as_user: IDStrategyOptions = IDStrategyOptions()
    run_as_group: IDStrategyOptions = _RUN_AS_ANY
    """Added later than the others: a policy without it allows any group."""
    supplemental_groups: IDStrategyOptions = IDStrategyOptions()
    fs_group: IDStrategyOptions = IDStrategyOptions()
    read_only_root_filesystem: bool = False
    default_allow_privilege_escalation: bool | None = None
    allow_privilege_escalation: bool = True
    allowed_host_paths: tuple[AllowedHostPath, ...] = ()
    allowed_flex_volumes: tuple[AllowedFlexVolume, ...] = ()
    allowed_csi_drivers: tuple[AllowedCSIDriver, ...] = msgspec.field(default=(), name="allowedCSIDrivers")
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    forbidden_sysctls: tuple[str, ...] = ()
    allowed_proc_mount_types: tuple[str, ...] = ()
    runtime_class: RuntimeClassStrategyOptions | None = None


class PodSecurityPolicy(msgspec.Struct, frozen=True):
    """A PodSecurityPolicy."""

    name: str
    annotations: Mapping[str, str]
    """They control seccomp and AppArmor, and sysctls up to 1.10."""
    spec: PodSecurityPolicySpec


class _PolicyMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _PolicyDocument(msgspec.Struct, frozen=True):
    metadata: _PolicyMetadata = _PolicyMetadata()
    spec: PodSecurityPolicySpec = PodSecurityPolicySpec()


def policy_name(document: JSONObject) -> str:
    """The name of a policy."""
    return str(member(document, "metadata", "name") or "")


def read_policy(document: JSONObject) -> PodSecurityPolicy:
    """Read a policy from a file or an API server.

    Raises:
        InputError: A field has the wrong type. The text names the field.
    """
    try:
        read = msgspec.convert(_without_nulls(document), prepared(_PolicyDocument))
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from None
    return PodSecurityPolicy(policy_name(document), read.metadata.annotations, read.spec)


def _without_nulls(value: JSON) -> JSON:
    """Drop nulls, which equal missing fields."""
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value
