"""PodSecurityPolicies as an API server has stored them, and values as this controller prints them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import GoLiteral
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.controllers.pod_security_policy.security_contexts import SELinuxOptions  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NULL = "null"
"""What field errors print, in quotes, of a pointer to nothing."""


def go_int64s(numbers: Sequence[int] | None) -> GoLiteral:
    """A list of numbers: ``[]int64{1, 2}``, ``[]int64(nil)`` where there is none."""
    if numbers is None:
        return GoLiteral("[]int64(nil)")
    return GoLiteral(f"[]int64{{{', '.join(map(str, numbers))}}}")


def ranges(values: Sequence[IDRange]) -> str:
    """Ranges of ids: ``[{1 1} {5 10}]``."""
    return f"[{' '.join(f'{{{each.min} {each.max}}}' for each in values)}]"


class IDRange(msgspec.Struct, frozen=True):
    """Whole numbers from ``min`` to ``max``, both among them: ids of users or groups, or ports."""

    min: int = 0
    max: int = 0

    def __contains__(self, number: int) -> bool:
        """Tell whether a number is in the range."""
        return self.min <= number <= self.max


class IDStrategyOptions(msgspec.Struct, frozen=True):
    """By which rule ids are chosen and judged, and the ranges that some rules need."""

    rule: str = ""
    ranges: tuple[IDRange, ...] = ()


class SELinuxStrategyOptions(msgspec.Struct, frozen=True, rename="camel"):
    """By which rule SELinux labels are judged, and the labels that it needs."""

    rule: str = ""
    se_linux_options: SELinuxOptions | None = None


class AllowedHostPath(msgspec.Struct, frozen=True, rename="camel"):
    """A folder of the node that may be mounted, with all below it."""

    path_prefix: str = ""
    read_only: bool = False


class AllowedFlexVolume(msgspec.Struct, frozen=True):
    """A driver of flexVolumes that may be used."""

    driver: str = ""


class AllowedCSIDriver(msgspec.Struct, frozen=True):
    """A driver of inline CSI volumes that may be used."""

    name: str = ""


class RuntimeClassStrategyOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The RuntimeClasses that a Pod may name, and the one of those that name none."""

    allowed_runtime_class_names: tuple[str, ...] = ()
    default_runtime_class_name: str | None = None


_RUN_AS_ANY = IDStrategyOptions("RunAsAny")


class PodSecurityPolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a policy says. What it leaves out has the value that an API server gives it."""

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
    """Came later than the others: a policy that leaves it out allows everything."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class PodSecurityPolicy:
    """A PodSecurityPolicy."""

    name: str
    annotations: Mapping[str, str]
    """Hold what it says of seccomp and AppArmor, and of sysctls up to 1.10."""
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
    """Read a policy as a file or an API server holds it.

    Raises:
        InputError: a field is of another type than it must be. The text names the field.
    """
    try:
        read = msgspec.convert(_without_nulls(document), _PolicyDocument)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from None
    return PodSecurityPolicy(policy_name(document), read.metadata.annotations, read.spec)


def _without_nulls(value: JSON) -> JSON:
    """Leave out what is null, which says nothing."""
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value
