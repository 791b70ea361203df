"""What the parts of a Pod's spec are validated with: the rest of the spec, and what a stored one is excused.

Source: ``PodValidationOptions`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSONObject
from pratique.pods.pod_spec import CONTAINER_FIELDS


class PodOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is allowed because the stored spec has it already, and whether it is the spec of a Pod itself."""

    is_pod: bool = False
    """The spec is that of a Pod, and not of a template."""
    invalid_deletion_cost: bool = False
    """The annotation for the cost of a deletion may be no number."""
    invalid_selector_values: bool = False
    """Selectors of affinity may ask for label values that nothing can have."""
    invalid_spread_selectors: bool = False
    """Selectors of topology spread constraints may be invalid."""
    legacy_spread_keys: bool = False
    """The ``matchLabelKeys`` of topology spread constraints follow the rules before 1.34."""
    invalid_node_label_values: bool = False
    """Required node affinity may ask for label values that no node can have."""
    indivisible_huge_pages: bool = False
    """Amounts of huge pages may be no multiples of the size of a page."""
    host_sysctls: bool = False
    """Sysctls may belong to namespaces that are the host's."""
    token_paths_outside: bool = False
    """Paths of projected tokens may lead out of the volume."""
    restarts_of_init_containers: bool = False
    """Init containers that are no sidecars may be restarted to be resized."""
    devices_of_user_namespaces: bool = False
    """Pods of a user namespace of their own may have block devices."""
    comparing_tolerations: bool = False
    """Tolerations may compare numbers."""
    empty_image_references: bool = False
    """Image volumes may name no image."""
    sys_admin_without_escalation: bool = False
    """``CAP_SYS_ADMIN`` may be added where privilege escalation is off."""


OF_NEW_POD, OF_NEW_TEMPLATE = PodOptions(is_pod=True), PodOptions()


class PodContext(msgspec.Struct, frozen=True):
    """What the containers of a Pod are validated with."""

    options: PodOptions
    """What is allowed."""
    volumes: Mapping[str, JSONObject]
    """The Pod's valid volumes by name."""
    claim_names: frozenset[str]
    """The names of the Pod's resource claims."""
    grace_period: int | None
    """The Pod's ``terminationGracePeriodSeconds``."""
    os_name: str | None
    """The operating system; None if the Pod does not say."""
    restart_policy: str
    """The Pod's restart policy."""
    host_users: bool
    """Whether the Pod runs in the host's user namespace."""


def visit_containers(spec: JSONObject, path: FieldPath) -> Iterator[tuple[JSONObject, FieldPath]]:
    """All containers with their paths, those that run first before the others: ``VisitContainersWithPath``."""
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            yield container, path / field / index
