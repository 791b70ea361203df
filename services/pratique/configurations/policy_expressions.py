"""Policy expressions: what the API server says of the CEL expressions of one policy.

CEL is imported when the first expression is read, so that configurations without any do not pay for it.
Sources: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` and
``k8s.io/apiserver/pkg/admission/plugin/policy/{validating,mutating}``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.configurations.mutation_validations import APPLY_CONFIGURATION, JSON_PATCH
from pratique.configurations.policies import MutatingDocument
from pratique.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pratique.cel.policy_environments import PolicyCompiler
    from pratique.configurations.policies import PolicyDocument, Variable

_MUTATIONS = {APPLY_CONFIGURATION: "Object", JSON_PATCH: "list(JSONPatch)"}
"""The types that the expressions of mutations must have."""


class PolicyExpressions:
    """Compiles the expressions of one policy, one after another; variables are known once they are added."""

    def __init__(self, document: PolicyDocument) -> None:
        """Know no variables yet."""
        self._has_params = document.spec.param_kind is not None
        # Where a ValidatingAdmissionPolicy has no variables, there is no `variables` either.
        self._composes = bool(document.spec.variables) or isinstance(document, MutatingDocument)

    @functools.cached_property
    def _compiler(self) -> PolicyCompiler:
        from pratique.cel.policy_environments import PolicyCompiler  # noqa: PLC0415 - see the module

        return PolicyCompiler(self._has_params, {} if self._composes else None)

    def check_match_condition(self, expression: str) -> Sequence[str]:
        """Say what is wrong with one of ``matchConditions``, which see no variables."""
        return _messages(lambda: self._compiler.compile(expression, "bool", has_variables=False))

    def add_variable(self, variable: Variable) -> Sequence[str]:
        """Add a variable; say what is wrong with its expression, which sees those added before."""
        return _messages(lambda: self._compiler.add_variable(variable.name, variable.expression))

    def check_validation(self, expression: str) -> Sequence[str]:
        """Say what is wrong with one of ``validations``."""
        return _messages(lambda: self._compiler.compile(expression, "bool"))

    def check_message(self, expression: str) -> Sequence[str]:
        """Say what is wrong with a ``messageExpression``, which sees no authorizer."""
        return _messages(lambda: self._compiler.compile(expression, "string", has_authorizer=False))

    def check_annotation(self, expression: str) -> Sequence[str]:
        """Say what is wrong with a ``valueExpression``."""
        return _messages(lambda: self._compiler.compile(expression, "string", "null_type"))

    def check_mutation(self, kind: str, expression: str) -> Sequence[str]:
        """Say what is wrong with the expression of a mutation that makes patches of that type."""
        return _messages(lambda: self._compiler.compile(expression, _MUTATIONS[kind], has_patches=True))


def _messages(compile_it: Callable[[], object]) -> Sequence[str]:
    try:
        compile_it()
    except InputError as error:
        return [str(error)]
    return []
