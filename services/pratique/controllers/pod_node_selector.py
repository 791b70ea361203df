"""PodNodeSelector: runs the Pods of a namespace on the nodes that its annotation selects.

Source: ``plugin/pkg/admission/podnodeselector/admission.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.results import Answer, Deny, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import selectors, statuses
from pratique.apimachinery.errors import ConfigurationError, InputError, RefusalError
from pratique.apimachinery.json_values import JSON, member
from pratique.pods import pod_spec

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
"""The annotation of a Namespace that selects its nodes. An empty value means any node, whatever the cluster's
default."""

_CLUSTER_DEFAULT = "clusterDefaultNodeSelector"
_PATH = ("spec", "nodeSelector")

LabelSet: TypeAlias = "Mapping[str, str]"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Node selectors, each written ``key=value, key=value``."""

    pod_node_selector_plugin_config: dict[str, str] = {}
    """For each namespace, the labels that its Pods may select; if there are any, all others are denied. Under
    ``clusterDefaultNodeSelector``, the labels for namespaces without an annotation."""


class _NodeSelectors(msgspec.Struct, frozen=True):
    """The parsed settings."""

    by_namespace: Mapping[str, LabelSet]

    def mutate(self, review: Review) -> Answer:
        """Make the Pod select the nodes of its namespace."""
        if not pod_spec.is_pod(review.object):
            return allow()
        required = self._of_namespace(review)
        if selectors.conflict(required, _node_selector(review.object)):
            return _deny_conflict(review)
        edits = Edits(review.object)
        for key, value in required.items():
            edits.set((*_PATH, key), value)
        return self._check_allowed(review, edits.document) or edits.answer()

    def validate(self, review: Review) -> Answer:
        """Deny a Pod that selects other nodes; a webhook may have changed the selector."""
        if not pod_spec.is_pod(review.object):
            return allow()
        if selectors.conflict(self._of_namespace(review), _node_selector(review.object)):
            return _deny_conflict(review)
        return self._check_allowed(review, review.object) or allow()

    def _of_namespace(self, review: Review) -> LabelSet:
        """The labels of the namespace's nodes."""
        name = review.namespace
        namespace = review.cluster.get("", "namespaces", name)
        if namespace is None:
            raise RefusalError(statuses.internal_error(f"namespace {name} does not exist"))
        annotations = member(namespace, "metadata", "annotations")
        if not isinstance(annotations, dict) or ANNOTATION not in annotations:
            return self.by_namespace.get(_CLUSTER_DEFAULT, {})
        try:
            return selectors.parse_label_set(str(annotations[ANNOTATION]))
        except InputError as error:
            raise RefusalError(statuses.plain_error(str(error))) from None

    def _check_allowed(self, review: Review, pod: JSON) -> Deny | None:
        if selectors.is_subset(_node_selector(pod), self.by_namespace.get(review.namespace, {})):
            return None
        return _deny_pod(review, "pod node label selector labels conflict with its namespace whitelist")


def _node_selector(pod: JSON) -> LabelSet:
    selector = member(pod, *_PATH)
    return selector if isinstance(selector, dict) else {}


def _deny_conflict(review: Review) -> Deny:
    return _deny_pod(review, "pod node label selector conflicts with its namespace node label selector")


def _deny_pod(review: Review, text: str) -> Deny:
    # The Pod's own name, which is still empty if it has a generateName.
    name = str(member(review.object, "metadata", "name") or "")
    return deny(status=statuses.forbidden(review.resource.group, review.resource.resource, name, text))


def _build(settings: Settings) -> Handlers:
    written = settings.pod_node_selector_plugin_config
    node_selectors = _NodeSelectors({name: _parse_selector(name, text) for name, text in written.items()})
    return Handlers(mutate=node_selectors.mutate, validate=node_selectors.validate)


def _parse_selector(name: str, text: str) -> LabelSet:
    try:
        return selectors.parse_label_set(text)
    except InputError as error:
        raise ConfigurationError(f"podNodeSelectorPluginConfig.{name}: {error}") from None


CONTROLLER = Controller(
    name="PodNodeSelector",
    summary="Runs the Pods of a namespace on the nodes that its annotation or the cluster's default selects.",
    phases=BOTH,
    rules=(rule("pods", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    looks_up=("namespaces",),
    trusted=True,
)
