"""Converting objects to other versions of their API.

Conversions of built-in kinds, and of custom resources that change nothing but their version, are made at once. Those
that a webhook makes are not: :func:`convert` raises :class:`PendingConversionError`, its caller awaits
:func:`fulfil_conversion` and calls it again, which then finds the result beside the document.

Source of what is done with custom resources: ``k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/converter.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from pratique.apimachinery.errors import ConversionError, InputError, PratiqueError
from pratique.apimachinery.json_values import Document, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, kind_of
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster import autoscaler_conversion, service_and_policy_conversion, workload_conversion
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE, built_in_resources, types_of_definition
from pratique.cluster.conversion_fields import KindConverters
from pratique.cluster.store import Cluster

_R = TypeVar("_R")

_CONVERTERS: Mapping[str, KindConverters] = {
    "ClusterRoleBinding": service_and_policy_conversion.RBAC_BINDINGS,
    "CustomResourceDefinition": service_and_policy_conversion.CUSTOM_RESOURCE_DEFINITIONS,
    "DaemonSet": workload_conversion.DAEMON_SETS,
    "Deployment": workload_conversion.DEPLOYMENTS,
    "DeviceClass": workload_conversion.DEVICE_CLASSES,
    "EndpointSlice": service_and_policy_conversion.ENDPOINT_SLICES,
    "Event": service_and_policy_conversion.EVENTS,
    "HorizontalPodAutoscaler": autoscaler_conversion.AUTOSCALERS,
    "Ingress": service_and_policy_conversion.INGRESSES,
    "PodDisruptionBudget": workload_conversion.POD_DISRUPTION_BUDGETS,
    "PriorityLevelConfiguration": service_and_policy_conversion.PRIORITY_LEVELS,
    "ResourceClaim": workload_conversion.RESOURCE_CLAIMS,
    "ResourceClaimTemplate": workload_conversion.RESOURCE_CLAIM_TEMPLATES,
    "ResourceSlice": workload_conversion.RESOURCE_SLICES,
    "RoleBinding": service_and_policy_conversion.RBAC_BINDINGS,
    "RuntimeClass": workload_conversion.RUNTIME_CLASSES,
    "Scale": workload_conversion.SCALES,
}


def converters_of(kind: str, api_version: str) -> KindConverters | None:
    """The converters of a built-in kind by version; None if its versions differ only in name.

    A kind of the same name in another group is another kind.
    """
    family = _CONVERTERS.get(kind)
    if family is None or _group(api_version) not in {_group(known) for known in family}:
        return None
    return family


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


class PendingConversionError(PratiqueError):
    """A conversion webhook has to be asked first; see :func:`fulfil_conversion`."""

    def __init__(
        self, document: Document, before: GroupVersionKind, api_version: str, definition: JSONObject
    ) -> None:
        super().__init__(f"conversion of {before} to {api_version} is pending")
        self.document: Document = document
        """The object to convert."""
        self.before: GroupVersionKind = before
        """Its kind and version."""
        self.api_version: str = api_version
        """The version to convert it to."""
        self.definition: JSONObject = definition
        """The CustomResourceDefinition, which says whom to ask."""


class ConversionWebhooks(Protocol):
    """Asks the conversion webhooks of CustomResourceDefinitions."""

    async def convert(self, pending: PendingConversionError, until: float | None) -> Document:
        """Have an object converted.

        Args:
            pending: The object, and what it is to become.
            until: When the answer is no longer of use, by ``time.monotonic``; None means never.

        Raises:
            ConversionError: there is no usable answer; the text is the API server's.
        """


async def fulfil_conversion(
    pending: PendingConversionError, webhooks: ConversionWebhooks | None, until: float | None
) -> None:
    """Have an object converted, and keep the result, or the error, beside it.

    Args:
        pending: What :func:`convert` raised; call it again afterwards.
        webhooks: Who asks; None if no webhook may be called, which is an error of the conversion.
        until: As for :meth:`ConversionWebhooks.convert`.
    """
    if pending.document.converted_to(pending.api_version) is not None:
        return
    if webhooks is None:
        refuse_conversion(pending)
        return
    result: Document | str
    try:
        result = await webhooks.convert(pending, until)
    except ConversionError as error:
        result = str(error)
    pending.document.remember_conversion(pending.api_version, result)


def refuse_conversion(pending: PendingConversionError) -> None:
    """Keep an error beside the object, because no webhook may be called."""
    text = failed_conversion(pending.before, "conversion webhooks are not called here")
    pending.document.remember_conversion(pending.api_version, text)


def without_conversion_webhooks(work: Callable[[], _R]) -> _R:
    """Do work that may convert objects, where no webhook may be called: those conversions are errors."""
    while True:
        try:
            return work()
        except PendingConversionError as pending:
            refuse_conversion(pending)


def failed_conversion(before: GroupVersionKind, reason: str) -> str:
    """The text of the error about a conversion webhook that gave no usable answer."""
    return f"conversion webhook for {before} failed: {reason}"


def convert(
    document: Document, resource: GroupVersionResource, kind: GroupVersionKind, cluster: Cluster
) -> Document:
    """Convert an object to another version of its kind.

    Args:
        document: The object; the null document is returned as it is.
        resource: The collection it belongs in, in any version.
        kind: The target kind and version.
        cluster: Holds the CustomResourceDefinition, which says how a custom resource is converted.

    Raises:
        ConversionError: it cannot be converted; the message says why, and reveals nothing of the object.
        PendingConversionError: a webhook has to be asked first.
    """
    if document.is_null:
        return document
    data = document.data
    try:
        before = kind_of(data)
    except InputError as error:
        raise ConversionError(str(error)) from None
    if before == kind:
        return document
    if built_in_resources().for_resource(resource) is None:
        by_webhook = _convert_custom(document, before, kind, resource, cluster)
        if by_webhook is not None:
            return by_webhook
        changed = data
    else:
        changed = _convert_built_in(data, before, kind)
    return Document.from_data({**changed, "apiVersion": kind.api_version, "kind": kind.kind})


def _convert_built_in(data: JSONObject, before: GroupVersionKind, after: GroupVersionKind) -> JSONObject:
    if before.kind != after.kind:
        raise ConversionError(f"unable to convert {before} to {after}: they are different kinds")
    families = [converters_of(kind.kind, kind.api_version) for kind in (before, after)]
    for family in families:
        if family is not None:
            return _by_way_of_shared(data, before, after, family)
    return data


def _by_way_of_shared(
    data: JSONObject, before: GroupVersionKind, after: GroupVersionKind, family: KindConverters
) -> JSONObject:
    source, target = family.get(before.api_version), family.get(after.api_version)
    if source is None or target is None:
        raise ConversionError(f"unable to convert {before} to {after}: this conversion is not supported")
    return target.from_shared(source.to_shared(data))


def _convert_custom(
    document: Document,
    before: GroupVersionKind,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    cluster: Cluster,
) -> Document | None:
    """What a webhook made of a custom resource; None if nothing but its version changes."""
    definition = cluster.get(CRD_GROUP, CRD_RESOURCE, f"{resource.resource}.{resource.group}")
    strategy = member(definition, "spec", "conversion", "strategy") or "None"
    if strategy == "None":
        return None
    if definition is None or strategy != "Webhook":
        raise ConversionError(
            f"unknown conversion strategy {go_quoted(str(strategy))} for CRD {resource.resource}"
        )
    for version, direction in ((kind.api_version, "to"), (before.api_version, "from")):
        if version not in _api_versions(definition):
            raise ConversionError(f"request to convert CR {direction} an invalid group/version: {version}")
    if document.data.keys() == {"apiVersion", "kind"}:
        return None  # there is nothing to convert, so no webhook is asked
    found = document.converted_to(kind.api_version)
    if found is None:
        raise PendingConversionError(document, before, kind.api_version, definition)
    if isinstance(found, str):
        raise ConversionError(found)
    return found


def _api_versions(definition: JSONObject) -> set[str]:
    """The versions of a definition, served or not."""
    return {type_.kind.api_version for type_ in types_of_definition(definition) if not type_.subresource}
