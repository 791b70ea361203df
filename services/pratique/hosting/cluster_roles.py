"""The roles that services need in a live cluster: they follow what their enabled controllers look up, and nothing else.

A controller declares what it looks up. Policies add the kinds of their parameters, and Roles and bindings where an
expression asks the authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller, Phase
from pratique.admission.namespace_provisioning import provisions_namespaces
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE, ApiResources, built_in_resources
from pratique.cluster.rbac import RBAC_GROUP
from pratique.configuration.admissionregistration import PolicyConfiguration, PolicySpec
from pratique.configuration.loading import Configurations
from pratique.configuration.settings import AuthorizerSource

PHASES_OF_SERVICES: Mapping[str, frozenset[Phase]] = MappingProxyType(
    {"frontdoor": BOTH, "mutator": MUTATE, "validator": VALIDATE}
)
"""The phases in which each service runs controllers."""

_FRONT_DOOR = "frontdoor"
_NAMESPACES = "namespaces"
_FOLLOWED = ("list", "watch")
_ASKS_AUTHORIZER = pattern(rb"\bauthorizer\b")


class FollowedResources(msgspec.Struct, frozen=True):
    """What a service follows of a live cluster."""

    resources: Mapping[str, tuple[str, ...]]
    """The resources by their group, both sorted."""
    unknown_parameters: tuple[str, ...] = ()
    """Kinds of parameters whose resources are not known."""

    @classmethod
    def of_service(
        cls,
        service: str,
        controllers: Iterable[Controller],
        configurations: Configurations,
        known: ApiResources,
        authorizer: AuthorizerSource = AuthorizerSource.STORE,
    ) -> FollowedResources:
        """Say what the controllers look up that a service runs, with the policies and webhooks that they run.

        What only the authorizer looks up is left out if that asks the API server.
        """
        controllers = tuple(controllers)
        found = {(CRD_GROUP, CRD_RESOURCE)}
        if service == _FRONT_DOOR:
            skipping = (name for controller in controllers for name in controller.skip_looks_up)
            found |= {("", _NAMESPACES), *_named(skipping, known)}
        unknown: list[str] = []
        for controller in controllers_of(service, controllers):
            names = (*controller.looks_up, *controller.may_look_up)
            found |= set(_named(looked_up_beside_authorizer(names, authorizer), known))
            run = _run_by(controller, configurations)
            if authorizer is AuthorizerSource.STORE and _asks_authorizer(run):
                found |= {(RBAC_GROUP, name) for name in _ROLES}
            for api_version, kind in _parameter_kinds(run):
                of_kind = set(_of_kind(api_version, kind, known))
                found |= of_kind
                unknown += [] if of_kind else [f"{kind} of {api_version}"]
        groups = sorted({group for group, _ in found})
        resources = {
            group: tuple(sorted(name for found_group, name in found if found_group == group))
            for group in groups
        }
        return cls(resources, tuple(dict.fromkeys(unknown)))


def controllers_of(service: str, controllers: Iterable[Controller]) -> list[Controller]:
    """Return those controllers of a chain that a service runs."""
    phases = PHASES_OF_SERVICES[service]
    return [one for one in controllers if one.phases & phases and one.hosted == (service != _FRONT_DOOR)]


def looked_up_by_front_doors(controllers: Iterable[Controller]) -> frozenset[str]:
    """Return what a front door looks up.

    These are namespaces, whose labels selectors match, what tells it to skip a controller, and what those look up that
    it runs itself.
    """
    given = list(controllers)
    names = {name for controller in controllers_of(_FRONT_DOOR, given) for name in controller.looks_up}
    return frozenset({_NAMESPACES, *names, *(name for one in given for name in one.skip_looks_up)})


def looked_up_beside_authorizer(names: Iterable[str], authorizer: AuthorizerSource) -> frozenset[str]:
    """Return what controllers look up, without Roles and bindings if the API server is asked instead."""
    return frozenset(names) - (frozenset() if authorizer is AuthorizerSource.STORE else frozenset(_ROLES))


def looked_up_by_policies(
    controllers: Iterable[Controller],
    configurations: Configurations,
    known: ApiResources,
    authorizer: AuthorizerSource,
) -> set[tuple[str, str]]:
    """Return the groups and resources that controllers look up because of policies: parameters, Roles and bindings."""
    run = [_run_by(controller, configurations) for controller in controllers]
    found = {at for one in run for kind in _parameter_kinds(one) for at in _of_kind(*kind, known)}
    asks = authorizer is AuthorizerSource.STORE and any(map(_asks_authorizer, run))
    return found | ({(RBAC_GROUP, name) for name in _ROLES} if asks else set())


_ROLES = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")


def _asks_authorizer(run: tuple[object, ...]) -> bool:
    return _ASKS_AUTHORIZER.search(msgspec.json.encode(run)) is not None


def policy_rules(
    followed: FollowedResources, *, provisions: bool, asks_api_server: bool = False
) -> Iterator[JSONObject]:
    """Yield the rules of the ClusterRole of a service.

    Args:
        followed: What it lists and watches.
        provisions: Whether it creates namespaces.
        asks_api_server: Whether it asks the API server what users may do.
    """
    # its uid tells one cluster from another
    yield _rule("", [_NAMESPACES], ["get"], names=["kube-system"])
    for group, resources in followed.resources.items():
        yield followed_rule(group, resources)
    if provisions:
        yield _rule("", [_NAMESPACES], ["create"])
    if asks_api_server:
        yield _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"])


def followed_rule(group: str, resources: Iterable[str]) -> JSONObject:
    """Return the rule that lets a service follow resources of a group."""
    return _rule(group, resources, _FOLLOWED)


def creates_namespaces(service: str, controllers: Iterable[Controller]) -> bool:
    """Whether a service runs the controller that creates missing namespaces."""
    return provisions_namespaces(controllers_of(service, controllers))


def known_resources(definitions: Iterable[JSONObject]) -> ApiResources:
    """Return the built-in resources and those of CustomResourceDefinitions."""
    return built_in_resources().with_crds(definitions)


def _run_by(controller: Controller, configurations: Configurations) -> tuple[object, ...]:
    """The configurations that a controller runs."""
    match controller.name:
        case "MutatingAdmissionPolicy":
            return configurations.mutating_policies
        case "ValidatingAdmissionPolicy":
            return configurations.validating_policies
        case "MutatingAdmissionWebhook":
            return configurations.mutating
        case "ValidatingAdmissionWebhook":
            return configurations.validating
        case _:
            return ()


def _named(names: Iterable[str], known: ApiResources) -> Iterator[tuple[str, str]]:
    """The groups that have resources of these names, or had them where none has them any more."""
    for name in names:
        types = [type_ for type_ in known if type_.resource.resource == name and not type_.subresource]
        served = [type_ for type_ in types if type_.removed_in is None]
        for type_ in served or types:
            yield type_.resource.group, name


def _of_kind(api_version: str, kind: str, known: ApiResources) -> Iterator[tuple[str, str]]:
    for type_ in known:
        if not type_.subresource and (type_.kind.api_version, type_.kind.kind) == (api_version, kind):
            yield type_.resource.group, type_.resource.resource


def _parameter_kinds(run: Iterable[object]) -> Iterator[tuple[str, str]]:
    for policy in run:
        if isinstance(policy, PolicyConfiguration) and isinstance(policy.spec, PolicySpec):
            kind = policy.spec.param_kind
            if kind is not None:
                yield kind.api_version, kind.kind


def _rule(
    group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()
) -> JSONObject:
    named: list[JSON] = [*names]
    rule: JSONObject = {"apiGroups": [group], "resources": [*resources]}
    return {**rule, **({"resourceNames": named} if named else {}), "verbs": [*verbs]}
