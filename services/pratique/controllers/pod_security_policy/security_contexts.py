"""Security contexts: what a Pod asks for itself and for its containers, with the types that it must have.

Source: ``pkg/securitycontext/accessors.go`` of 1.24: what a container does not say, its Pod says for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import ROOT, FieldPath
from pratique.pods.containers import CONTAINER_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.apimachinery.json_values import JSON, JSONObject


class SELinuxOptions(msgspec.Struct, frozen=True):
    """SELinux labels."""

    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None

    @property
    def document(self) -> JSONObject:
        """The labels as they are written into a Pod."""
        return {name: label for name, label in msgspec.structs.asdict(self).items() if label}


class SeccompProfile(msgspec.Struct, frozen=True, rename="camel"):
    """A seccomp profile as current Pods name it."""

    type: str | None = None
    localhost_profile: str | None = None


class Sysctl(msgspec.Struct, frozen=True):
    """A kernel parameter that a Pod wants to have set."""

    name: str | None = None


class Capabilities(msgspec.Struct, frozen=True):
    """The capabilities that a container wants to have added and dropped."""

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
    """A container, as far as policies look at it."""

    name: str | None = None
    security_context: SecurityContext | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None

    @property
    def context(self) -> SecurityContext:
        """What it says itself."""
        return self.security_context or _EMPTY_CONTEXT


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``spec`` of a Pod, as far as policies look at it."""

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
        """What the Pod says for itself and for all of its containers."""
        return self.security_context or _EMPTY_POD_CONTEXT

    def all_containers(self) -> Iterator[tuple[FieldPath, Container]]:
        """All containers, and where they are, in the order in which Kubernetes visits them."""
        groups = (self.init_containers, self.containers, self.ephemeral_containers)
        for field, group in zip(CONTAINER_FIELDS, groups, strict=True):
            for index, container in enumerate(group or ()):
                yield SPEC / field / index, container

    def effective(self, container: Container) -> SecurityContext:
        """What holds for a container: its own word, else the Pod's."""
        own, pods = container.context, self.context
        return msgspec.structs.replace(
            own,
            se_linux_options=_own_or_pod(own.se_linux_options, pods.se_linux_options),
            run_as_user=_own_or_pod(own.run_as_user, pods.run_as_user),
            run_as_group=_own_or_pod(own.run_as_group, pods.run_as_group),
            run_as_non_root=_own_or_pod(own.run_as_non_root, pods.run_as_non_root),
        )


class PodMetadata(msgspec.Struct, frozen=True):
    """``metadata`` of a Pod, as far as policies look at it."""

    annotations: dict[str, str] | None = None


class Pod(msgspec.Struct, frozen=True):
    """A Pod, as far as policies look at it."""

    metadata: PodMetadata | None = None
    given_spec: PodSpec | None = msgspec.field(default=None, name="spec")

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return (self.metadata.annotations if self.metadata else None) or {}

    @property
    def spec(self) -> PodSpec:
        """What it runs."""
        return self.given_spec or _EMPTY_SPEC


SPEC = ROOT / "spec"
_EMPTY_SPEC = PodSpec()
_EMPTY_POD_CONTEXT = PodSecurityContext()
_EMPTY_CONTEXT = SecurityContext()


def read_pod(document: JSON) -> Pod:
    """Read a Pod.

    Raises:
        RefusalError: a field is of another type than it must be; 400, and the text names the field.
    """
    try:
        return msgspec.convert(document, Pod)
    except msgspec.ValidationError as error:
        text = f'Pod in version "v1" cannot be handled as a Pod: {error}'
        raise RefusalError(statuses.bad_request(text)) from None


def _own_or_pod(own: JSON, pods: JSON) -> JSON:
    return pods if own is None else own
