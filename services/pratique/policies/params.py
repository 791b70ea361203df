"""The objects that the expressions of a policy see as ``params``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.errors import ConversionError, InputError, PratiqueError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.selectors import compile_selector
from pratique.cluster.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.apimachinery.json_values import JSON, JSONObject
    from pratique.apimachinery.kinds import ResourceType
    from pratique.cluster.store import Cluster
    from pratique.configuration.policies import ParamKind, ParamRef


class PolicySettingError(PratiqueError):
    """A policy or binding cannot be used for a request: the policy's failure policy decides.

    ``failed to configure policy: …`` and ``failed to configure binding: …`` in the API server.
    """


def find_param_type(kind: ParamKind, cluster: Cluster) -> ResourceType:
    """Find the collection of a kind of parameters.

    Raises:
        SettingError: the cluster has none.
    """
    group, _, version = kind.api_version.rpartition("/")
    wanted = GroupVersionKind(group, version, kind.kind)
    found = cluster.resources.for_kind(wanted)
    if found is None or found.removed_in is not None:
        raise PolicySettingError(f"failed to find resource referenced by paramKind: '{wanted}'")
    return found


def collect_params(
    kind: ResourceType | None, ref: ParamRef | None, namespace: str, cluster: Cluster
) -> Sequence[JSON]:
    """Find the parameters that a binding means: the policy is evaluated once with each of them.

    Args:
        kind: The collection that the policy's parameters are in; None where it has none.
        ref: What the binding says of them; it is ignored where the policy has none.
        namespace: The request's.
        cluster: Where they are.

    Returns:
        The parameters; one that is null where there are to be none, and nothing where none were found and the
        binding lets that pass.

    Raises:
        SettingError: they cannot be found, and must be.
    """
    if kind is None or ref is None:
        return (None,)
    found = [
        _in_version(each, kind, cluster) for each in _find_params(kind, ref, _place(kind, ref, namespace), cluster)
    ]
    if not found and ref.parameter_not_found_action == "Deny":
        raise PolicySettingError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _place(kind: ResourceType, ref: ParamRef, namespace: str) -> str:
    """The namespace to look in; empty for parameters that are in none."""
    if not kind.namespaced:
        if ref.namespace:
            raise PolicySettingError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not ref.namespace and not namespace:
        text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        raise PolicySettingError(text)
    return ref.namespace or namespace


def _find_params(kind: ResourceType, ref: ParamRef, namespace: str, cluster: Cluster) -> Sequence[JSONObject]:
    group, resource = kind.resource.group, kind.resource.resource
    if ref.name:
        one = cluster.get(group, resource, ref.name, namespace)
        return () if one is None else (one,)
    if ref.selector is None:
        raise PolicySettingError("one of name or selector must be provided")
    try:
        selector = compile_selector(ref.selector)
    except InputError as error:
        raise PolicySettingError(str(error)) from None
    found = cluster.list(group, resource, namespace if kind.namespaced else None)
    return [each for each in found if selector.matches_object(each)]


def _in_version(param: JSONObject, kind: ResourceType, cluster: Cluster) -> JSON:
    try:
        return convert(Document.from_data(param), kind.resource, kind.kind, cluster).data
    except ConversionError as error:
        raise PolicySettingError(str(error)) from None
