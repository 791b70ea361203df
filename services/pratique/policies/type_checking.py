"""Type checking: find errors in a policy's expressions from the schemas of the kinds that it names.

The API server writes them into ``status.typeChecking.expressionWarnings`` and uses the policy all the same.
Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import msgspec

from pratique.admission.rules import Rule
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType, parse_api_version
from pratique.cel.activation import declared_type, mentioned_variables
from pratique.cel.declarations import declare_schema, restore_type_paths
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import Expression, compile_expression
from pratique.cel.type_descriptors import StructTypes
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.schemas import schema_of
from pratique.cluster.store import Cluster
from pratique.configuration.admissionregistration import (
    ParamKind,
    PolicyConfiguration,
    ValidatingAdmissionPolicySpec,
    Variable,
)

_MAX_KINDS = 10
"""The number of kinds that are checked for one rule."""
_AUTHORIZER = ("authorizer", "kubernetes.authorization.Authorizer")
_COMPILATION_FAILED = "compilation failed: "
"""A prefix of the API server's errors when it validates a policy, which its warnings lack."""


class ExpressionWarning(msgspec.Struct, frozen=True):
    """A type-checking warning about one expression."""

    field_ref: str
    """The field, such as ``spec.validations[0].expression``."""
    warning: str
    """For each kind with errors: the kind, the errors and an empty line."""


def check_types(
    policy: PolicyConfiguration[ValidatingAdmissionPolicySpec], cluster: Cluster
) -> list[ExpressionWarning]:
    """Check a policy's expressions against the schemas of the kinds that its rules name.

    Rules with wildcards, subresources, and kinds that the cluster does not know are left out.
    """
    checks = [*_kind_checks(policy.spec, cluster)]
    path = ROOT / "spec" / "validations"
    warnings: list[ExpressionWarning] = []
    for index, validation in enumerate(policy.spec.validations):
        written = {"expression": validation.expression, "messageExpression": validation.message_expression}
        for field, expression in written.items():
            found = [error for check in checks for error in check.errors(expression)] if expression else ()
            if found:
                warnings.append(ExpressionWarning(str(path / index / field), "\n".join(found)))
    return warnings


def kinds_to_check(rules: Iterable[Rule], resources: ApiResources) -> list[GroupVersionKind]:
    """The kinds that rules name, sorted. After a rule that names ten kinds, further rules are ignored."""
    kinds: set[GroupVersionKind] = set()
    for rule in rules:
        named = list(itertools.islice(_kinds_of_rule(rule, resources), _MAX_KINDS))
        kinds.update(named)
        if len(named) == _MAX_KINDS:
            break
    return sorted(kinds, key=lambda kind: (kind.group, kind.version, kind.kind))


def _kinds_of_rule(rule: Rule, resources: ApiResources) -> Iterator[GroupVersionKind]:
    if any("*" in resource for resource in (*rule.api_groups, *rule.api_versions)):
        return
    names = [name for name in rule.resources if "*" not in name and "/" not in name]
    for named in itertools.product(sorted(rule.api_groups), sorted(rule.api_versions), sorted(names)):
        yield from dict.fromkeys(resource.kind for resource in resources if _names_resource(resource, *named))


def _names_resource(known: ResourceType, group: str, version: str, name: str) -> bool:
    """Whether a name in a rule refers to a resource, which it may also name by its kind.

    An empty group matches all groups:
    ``k8s.io/apimachinery/pkg/api/meta/restmapper.go`` ``DefaultRESTMapper.KindsFor``.
    """
    return (
        known.served
        and known.removed_in is None
        and not known.subresource
        and group in ("", known.resource.group)
        and version == known.resource.version
        and name.lower() in (known.resource.resource, known.kind.kind.lower())
    )


class _KindCheck:
    """Compiles expressions with the schema of one kind."""

    def __init__(
        self, kind: GroupVersionKind, environment: Environment, variables: Iterable[Variable]
    ) -> None:
        self._kind = kind
        self._environment = environment
        self._types: dict[str, str] = {}
        for variable in variables:
            try:
                result = declared_type(self._compile(variable.expression).result_type)
            except CompilationError:
                result = "dyn"  # the API server does not report it here
            self._types[variable.name] = result

    def errors(self, expression: str) -> Iterator[str]:
        """Yield the error of an expression, if it has one."""
        try:
            self._compile(expression)
        except CompilationError as error:
            yield f"{self._kind}: {restore_type_paths(str(error)).removeprefix(_COMPILATION_FAILED)}\n"

    def _compile(self, source: str) -> Expression:
        composited = mentioned_variables(source, self._types)
        return compile_expression(source, msgspec.structs.replace(self._environment, composited=composited))


def _kind_checks(spec: ValidatingAdmissionPolicySpec, cluster: Cluster) -> Iterator[_KindCheck]:
    if spec.match_constraints is None:
        return
    params, params_structs = _params_variable(spec.param_kind, cluster)
    for kind in kinds_to_check(spec.match_constraints.resource_rules, cluster.resources):
        schema = schema_of(kind, cluster)
        if schema is None:
            continue
        name, structs = declare_schema(schema, kind.kind)
        # As in the API server, only the authorizer itself is declared, not authorizer.requestResource.
        variables = (("object", name), ("oldObject", name), *params, _AUTHORIZER)
        environment = Environment(variables=variables, structs=structs + params_structs)
        yield _KindCheck(kind, environment, spec.variables)


def _params_variable(
    kind: ParamKind | None, cluster: Cluster
) -> tuple[tuple[tuple[str, str], ...], StructTypes]:
    """The variable ``params``, if there is one, and the types of its schema; without a schema, it is ``dyn``."""
    if kind is None:
        return (), ()
    try:
        group, version = parse_api_version(kind.api_version)
    except InputError:
        return (), ()
    schema = schema_of(GroupVersionKind(group, version, kind.kind), cluster)
    if schema is None:
        return (("params", "dyn"),), ()
    name, structs = declare_schema(schema, kind.kind, "params")
    return (("params", name),), structs
