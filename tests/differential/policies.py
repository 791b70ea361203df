"""Families for policies: validating and mutating ones, with conditions, variables, parameters and bindings."""

from __future__ import annotations

import dataclasses
from random import Random

from differential.built_ins import pod
from differential.drawn_expressions import (
    apply_configuration,
    condition,
    json_patch,
    message,
    truth,
    variable,
)
from differential.pairs import (
    CONFIG_MAPS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    USUAL,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
    Request,
    Resource,
    Setup,
    World,
    made,
    some,
)
from differential.plain_requests import config_map, plain_request
from pratique.apimachinery.json_values import JSONObject
from support.webhook_servers import WebhookServer

_REASONS = ("Invalid", "Forbidden", "Unauthorized", "RequestEntityTooLarge")
_ACTIONS = (["Deny"], ["Deny"], ["Warn"], ["Audit"], ["Deny", "Audit"], ["Warn", "Audit"])
_LABELS: tuple[dict[str, str], ...] = ({"env": "prod"}, {"env": "test"}, {"team": "web"}, {})


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatingPolicies:
    """Creations, updates and deletions under a few ValidatingAdmissionPolicies."""

    name: str = "ValidatingAdmissionPolicy"
    requests: int = 40
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a namespace, parameters, and policies with their bindings."""
        return _world(random, suffix, VALIDATING_POLICIES)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update or a deletion."""
        return plain_request(random, world, pod)


@dataclasses.dataclass(frozen=True, slots=True)
class MutatingPolicies:
    """Creations, updates and deletions under a few MutatingAdmissionPolicies."""

    name: str = "MutatingAdmissionPolicy"
    requests: int = 40
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a namespace, parameters, and policies with their bindings."""
        return _world(random, suffix, MUTATING_POLICIES)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update or a deletion."""
        return plain_request(random, world, pod)


def _world(random: Random, suffix: str, policies: Resource) -> World:
    """A namespace, parameters, and up to three policies with their bindings."""
    validating = policies is VALIDATING_POLICIES
    bindings, draw = (
        (VALIDATING_BINDINGS, validating_policy) if validating else (MUTATING_BINDINGS, mutating_policy)
    )
    namespace, objects = _ground(random, suffix)
    for number in range(random.choice((1, 2, 3))):
        name = f"p{number}-{suffix}"
        spec = draw(random, namespace)
        objects.append(made(policies, name, spec=spec))
        for place in range(random.choice((1, 1, 2))):
            actions = {"validationActions": random.choice(_ACTIONS)} if validating else {}
            bound: JSONObject = {"policyName": name, **actions, **binding(random, spec, namespace)}
            objects.append(made(bindings, f"b{place}-{name}", spec=bound))
    return World(tuple(objects), namespace)


def _ground(random: Random, suffix: str) -> tuple[str, list[JSONObject]]:
    namespace = f"w{suffix}"
    labels = dict(random.choice(_LABELS))
    objects = [
        made(NAMESPACES, namespace, metadata={"labels": labels}),
        made(SERVICE_ACCOUNTS, "default", namespace),
        config_map(namespace),
    ]
    for name in some(random, 0.7, ("limits", "names")):
        data = {"most": random.choice(("1", "2", "many")), "prefix": random.choice(("p", "x"))}
        objects.append(made(CONFIG_MAPS, name, namespace, data=data, metadata={"labels": {"params": "yes"}}))
    return namespace, objects


def validating_policy(random: Random, namespace: str) -> JSONObject:
    """The spec of a ValidatingAdmissionPolicy for one namespace."""
    names, spec = _common(random, namespace)
    spec["validations"] = [
        _validation(random, names, parameters="paramKind" in spec) for _ in range(random.choice((1, 1, 2, 3)))
    ]
    if random.random() < 0.3:
        spec["auditAnnotations"] = [{"key": "seen", "valueExpression": message(random, names)}]
    return spec


def _validation(random: Random, names: tuple[str, ...], *, parameters: bool) -> JSONObject:
    validation: JSONObject = {"expression": truth(random, names, parameters=parameters)}
    if random.random() < 0.4:
        validation["message"] = random.choice(("no", "use another image", "  spaces  "))
    if random.random() < 0.5:
        validation["messageExpression"] = message(random, names)
    if random.random() < 0.5:
        validation["reason"] = random.choice(_REASONS)
    return validation


def mutating_policy(random: Random, namespace: str) -> JSONObject:
    """The spec of a MutatingAdmissionPolicy for one namespace."""
    names, spec = _common(random, namespace)
    spec["reinvocationPolicy"] = random.choice(("Never", "IfNeeded"))
    mutations: list[JSONObject] = []
    for _ in range(random.choice((1, 1, 2))):
        if random.random() < 0.5:
            expression = {"expression": apply_configuration(random, names)}
            mutations.append({"patchType": "ApplyConfiguration", "applyConfiguration": expression})
        else:
            mutations.append(
                {"patchType": "JSONPatch", "jsonPatch": {"expression": json_patch(random, names)}}
            )
    spec["mutations"] = mutations
    return spec


def _common(random: Random, namespace: str) -> tuple[tuple[str, ...], JSONObject]:
    """What policies of both kinds have, and the names of its variables."""
    spec: JSONObject = {
        "failurePolicy": random.choice(("Fail", "Fail", "Ignore")),
        "matchConstraints": _constraints(random, namespace),
    }
    if random.random() < 0.3:
        spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    if random.random() < 0.4:
        conditions = [condition(random) for _ in range(random.choice((1, 1, 2)))]
        spec["matchConditions"] = [
            {"name": f"c{index}", "expression": expression} for index, expression in enumerate(conditions)
        ]
    names: list[str] = []
    variables: list[JSONObject] = []
    for index in range(random.choice((0, 0, 1, 2))):
        variables.append({"name": f"v{index}", "expression": variable(random, tuple(names))})
        names.append(f"v{index}")
    if variables:
        spec["variables"] = variables
    return tuple(names), spec


def _constraints(random: Random, namespace: str) -> JSONObject:
    rule: JSONObject = {
        "apiGroups": random.choice(([""], ["*"], ["", "apps"])),
        "apiVersions": random.choice((["v1"], ["*"])),
        "operations": random.choice((["CREATE"], ["CREATE", "UPDATE"], ["*"])),
        "resources": random.choice((["pods"], ["*"], ["pods", "configmaps"], ["pods", "deployments"])),
    }
    # a policy sees its own namespace alone, so that worlds do not see one another's
    expressions = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}]
    if random.random() < 0.2:
        expressions.append({"key": "env", "operator": random.choice(("Exists", "DoesNotExist"))})
    constraints: JSONObject = {
        "resourceRules": [rule],
        "namespaceSelector": {"matchExpressions": expressions},
    }
    if random.random() < 0.2:
        constraints["objectSelector"] = {"matchLabels": {"app": "web"}}
    if random.random() < 0.2:
        constraints["matchPolicy"] = random.choice(("Exact", "Equivalent"))
    if random.random() < 0.1:
        constraints["excludeResourceRules"] = [{**rule, "resources": ["configmaps"]}]
    return constraints


def binding(random: Random, spec: JSONObject, namespace: str) -> JSONObject:
    """What a binding of a policy has beside its name and actions."""
    bound: JSONObject = {}
    if "paramKind" in spec:
        reference: JSONObject = {"parameterNotFoundAction": random.choice(("Deny", "Allow"))}
        if random.random() < 0.7:
            reference["name"] = random.choice(("limits", "names", "missing"))
        else:
            reference["selector"] = {"matchLabels": {"params": "yes"}}
        if random.random() < 0.5:
            reference["namespace"] = namespace
        bound["paramRef"] = reference
    if random.random() < 0.3:
        resources = {"objectSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}
        bound["matchResources"] = resources
    return bound
