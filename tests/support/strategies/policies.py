"""Sets of validating policies and bindings, with which any of their features may occur together."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support.validating_policies import (
    EVERYTHING,
    binding,
    config_map,
    deployment,
    deployment_review,
    policy,
)

PARAMS = [config_map("params", {"limit": "3"}), config_map("other", {"limit": "4"})]
"""The objects that a parameter's reference may find."""

_BROKEN = "object.spec.none == 1"
_VALIDATIONS = st.sampled_from(
    [
        {"expression": "true"},
        {"expression": "object.spec.replicas >= 0"},
        {"expression": "object.spec.replicas > 3", "message": "too few", "reason": "Forbidden"},
        {"expression": "request.name == 'db'", "messageExpression": "'not ' + request.name"},
        {"expression": "object.spec.replicas == 3", "messageExpression": "string(object.none)"},
        {"expression": _BROKEN},
        {"expression": "namespaceObject.metadata.name == 'shop'"},
        {"expression": "authorizer.path('/x').check('get').allowed()"},
        {"expression": "request.resource.resource == 'deployments' && has(request.userInfo)"},
    ]
)
_WITH_VARIABLES = st.sampled_from(
    [
        {"expression": "variables.count > 1"},
        {"expression": "variables.count > 9"},
        {"expression": "variables.bad"},
    ]
)
_WITH_PARAMS = st.sampled_from(
    [{"expression": "params == null"}, {"expression": "params.data.limit == '3'", "message": "limited"}]
)
_VARIABLES = [
    {"name": "count", "expression": "object.spec.replicas"},
    {"name": "bad", "expression": _BROKEN},
]
_ANNOTATIONS = ["'a'", "request.name", "null", "' '", "string(object.none)"]
_RULES = st.sampled_from(
    [
        EVERYTHING,
        EVERYTHING,
        EVERYTHING | {"resources": ["pods"]},
        EVERYTHING | {"resourceNames": ["web"]},
        EVERYTHING | {"resourceNames": ["db"]},
        EVERYTHING | {"apiGroups": ["extensions"], "apiVersions": ["v1beta1"], "resources": ["deployments"]},
    ]
)
_SELECTORS = st.sampled_from(
    [
        {},
        {},
        {"matchLabels": {"tier": "web"}},
        {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
    ]
)
_CONDITIONS = st.lists(
    st.sampled_from(["true", "true", "request.name == 'db'", _BROKEN, "request.resource.version == 'v1'"]),
    max_size=2,
)
_ACTIONS = st.sampled_from([("Deny",), ("Warn",), ("Audit",), ("Deny", "Audit"), ("Warn", "Audit")])
_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


@st.composite
def _match_resources(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"resourceRules": [draw(_RULES)]}
    if draw(st.integers(0, 3)) == 0:
        found["namespaceSelector"], found["objectSelector"] = draw(_SELECTORS), draw(_SELECTORS)
    if draw(st.integers(0, 5)) == 0:
        found["excludeResourceRules"] = [draw(_RULES)]
    return found


@st.composite
def _policies(draw: st.DrawFn, name: str) -> tuple[JSONObject, bool]:
    """A policy, and whether it has parameters."""
    spec: dict[str, Any] = {
        "matchConstraints": draw(_match_resources()),
        "failurePolicy": draw(st.sampled_from(["Fail", "Ignore"])),
        "matchConditions": [
            {"name": f"c{place}", "expression": text} for place, text in enumerate(draw(_CONDITIONS))
        ],
    }
    validations = [_VALIDATIONS]
    if draw(st.booleans()):
        spec["variables"] = _VARIABLES
        validations.append(_WITH_VARIABLES)
    has_params = draw(st.integers(0, 3)) == 0
    if has_params:
        spec["paramKind"] = _KIND if draw(st.integers(0, 4)) else _KIND | {"kind": "None"}
        validations.append(_WITH_PARAMS)
    texts = [*_ANNOTATIONS, *["string(params.data.limit)"] * 3] if has_params else _ANNOTATIONS
    annotations = draw(st.lists(st.sampled_from(texts), max_size=2))
    spec["auditAnnotations"] = [
        {"key": f"k{place}", "valueExpression": text} for place, text in enumerate(annotations)
    ]
    expressions = draw(st.lists(st.one_of(*validations), min_size=1, max_size=3))
    return policy(*expressions, name=name, **spec), has_params


@st.composite
def _bindings(draw: st.DrawFn, policy_name: str, name: str, *, has_params: bool) -> JSONObject:
    spec: dict[str, Any] = {}
    if has_params:
        ref = {"name": draw(st.sampled_from(["params", "other", "none"]))}
        spec["paramRef"] = ref | {"parameterNotFoundAction": draw(st.sampled_from(["Allow", "Deny"]))}
    if draw(st.integers(0, 2)) == 0:
        spec["matchResources"] = draw(_match_resources())
    return binding(policy_name, name=name, actions=draw(_ACTIONS), **spec)


@st.composite
def policy_sets(draw: st.DrawFn) -> list[JSONObject]:
    """The documents of a few policies and of the bindings of each."""
    documents = []
    for number in range(draw(st.integers(1, 4))):
        suffix = draw(st.sampled_from(["", "", "", ".static.k8s.io"]))
        name = f"p{number}{suffix}"
        document, has_params = draw(_policies(name))
        if suffix:  # the loader allows static policies no parameters
            document["spec"].pop("paramKind", None)
            has_params = False
            document["spec"]["validations"] = [{"expression": "object.spec.replicas >= 0"}]
            document["spec"]["auditAnnotations"] = []
        documents.append(document)
        names = [f"b{number}-{place}{suffix}" for place in range(draw(st.integers(0, 3)))]
        documents.extend(draw(_bindings(name, bound, has_params=has_params)) for bound in names)
    return documents


@st.composite
def reviews(draw: st.DrawFn) -> Review:
    """Reviews whose Namespace may be missing, of a Deployment with labels or without."""
    labels = draw(st.sampled_from([{}, {"tier": "web"}, {"a": "b"}]))
    cluster = ObjectStore(PARAMS, assume_namespaces=draw(st.integers(0, 4)) > 0)
    return deployment_review(deployment(draw(st.integers(2, 4)), labels=labels), cluster=cluster)
