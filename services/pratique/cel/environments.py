"""Environments: the variables and functions that an expression may use.

Source: ``k8s.io/apiserver/pkg/cel/environment/base.go`` (Kubernetes 1.37) and
``k8s.io/apiserver/pkg/admission/plugin/cel/compile.go``.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.json_values import JSONObject
from pratique.cel.activation import VARIABLES, VARIABLES_TYPE, DeclaredVariable
from pratique.cel.declarations import EXACT_FLATTEN, Library, function_configurations, type_configuration
from pratique.cel.interpretables import Functions
from pratique.cel.libraries import (
    addresses,
    authorizers,
    conversions,
    lists,
    named_formats,
    operators,
    quantities,
    regexes,
    semvers,
    strings,
    urls,
)
from pratique.cel.mismatched_calls import function_names, substitute_configurations
from pratique.cel.type_descriptors import StructTypes, build_pool

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs lack py.typed

_VARIABLES = {
    "object": "dyn",
    "oldObject": "dyn",
    "namespaceObject": "kubernetes.Namespace",
    "request": "kubernetes.AdmissionRequest",
}
_AUTHORIZER_VARIABLES = {
    "authorizer": "kubernetes.authorization.Authorizer",
    "authorizer.requestResource": "kubernetes.authorization.ResourceCheck",
}
_EXTENSIONS = ("optional", "sets", "two-var-comprehensions")
"""The checker's own extensions. Their functions are ours."""
_SORTING = "lists"
"""The extension that has the macro ``sortBy``. Its ``flatten`` takes lists of anything, and gives a list of dyn."""
_LIBRARIES: tuple[Library, ...] = (
    operators.LIBRARY,
    conversions.CONVERSIONS,
    conversions.TIMES,
    strings.STRINGS,
    lists.LISTS,
    lists.SETS,
    lists.OPTIONALS,
    regexes.LIBRARY,
    urls.LIBRARY,
    addresses.LIBRARY,
    quantities.LIBRARY,
    semvers.LIBRARY,
    named_formats.LIBRARY,
    authorizers.LIBRARY,
)


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression may use besides ``object``, ``oldObject``, ``request`` and ``namespaceObject``."""

    has_params: bool = False
    """Whether it has the variable ``params``."""
    has_authorizer: bool = False
    """Whether it has the variables ``authorizer`` and ``authorizer.requestResource``."""
    has_patches: bool = False
    """Whether it has the types ``Object``, ``Object.…`` and ``JSONPatch``, and ``jsonpatch.escapeKey``."""
    is_rule: bool = False
    """Whether it has nothing of an admission request: the rules of custom resources and selectors of devices."""
    has_bind: bool = False
    """Whether it has the macro ``cel.bind``."""
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables: names and types, in the notation of :mod:`pratique.cel.declarations`."""
    structs: StructTypes = ()
    """Struct types."""
    composited: tuple[DeclaredVariable, ...] | None = None
    """The fields of the variable ``variables``; None if there is no such variable."""

    @property
    def libraries(self) -> tuple[Library, ...]:
        """The libraries whose functions it has."""
        return (*_LIBRARIES, strings.JSON_PATCH) if self.has_patches else _LIBRARIES

    def variable_types(self) -> dict[str, str]:
        """The types of its variables by name."""
        types = {} if self.is_rule else dict(_VARIABLES)
        if self.has_params:
            types["params"] = "dyn"
        if self.has_authorizer:
            types |= _AUTHORIZER_VARIABLES
        if self.composited is not None:
            # Declared as variables of their own, the fields of `variables` may have any type; as fields of a message,
            # they could not be lists of lists. But has(variables.x) needs a field.
            types[VARIABLES] = VARIABLES_TYPE
            types |= {
                f"{VARIABLES}.{variable.name}": variable.kind
                for variable in self.composited
                if not variable.is_tested
            }
        return types | dict(self.variables)


MATCH_CONDITION_ENVIRONMENT = Environment(has_authorizer=True)
"""The environment of webhooks' ``matchConditions``."""


@functools.lru_cache(maxsize=64)
def type_checker(
    environment: Environment, *, sorts: bool = False, substitutes: frozenset[str] = frozenset()
) -> cel.Env:
    """Make the type checker of an environment, which takes about 0.1 s.

    Args:
        environment: The environment.
        sorts: Whether it knows the macro ``sortBy``, and then the types of list functions less exactly.
        substitutes: Names that stand for functions: ``EXACT_FLATTEN``, and those of
            :mod:`pratique.cel.mismatched_calls`.
    """
    from cel_expr_python import cel  # noqa: PLC0415 - 14 MB of code that only expressions need

    return cel.NewEnv(
        build_pool(environment.structs, environment.composited),
        config=cel.NewEnvConfigFromYaml(
            json.dumps(_configuration(environment, sorts=sorts, substitutes=substitutes))
        ),
    )


@functools.lru_cache(maxsize=64)
def known_functions(environment: Environment) -> frozenset[str]:
    """The names of all functions of an environment."""
    return function_names(environment.libraries, lists.EXTENSION_OVERLOADS)


@functools.lru_cache(maxsize=64)
def functions_by_name(environment: Environment) -> Functions:
    """The functions of an environment by name."""
    libraries = environment.libraries
    return {name: function for library in libraries for name, function in library.functions.items()}


def _configuration(environment: Environment, *, sorts: bool, substitutes: frozenset[str]) -> JSONObject:
    overloads = tuple(overload for library in environment.libraries for overload in library.overloads)
    overloads += () if sorts else lists.EXTENSION_OVERLOADS
    overloads += lists.EXACT_FLATTEN_OVERLOADS if EXACT_FLATTEN in substitutes else ()
    extensions = [*_EXTENSIONS]
    extensions += [_SORTING] if sorts else []
    extensions += ["bindings"] if environment.has_bind else []
    excluded = (*operators.EXCLUDED, *conversions.EXCLUDED_CONVERSIONS)
    return {
        "name": "kubernetes",
        "stdlib": {"exclude_functions": [{"name": name} for name in excluded]},
        "extensions": [{"name": name} for name in extensions],
        "variables": [
            {"name": name, **type_configuration(kind)} for name, kind in environment.variable_types().items()
        ],
        "functions": [
            *function_configurations(overloads),
            *substitute_configurations(sorted(substitutes - {EXACT_FLATTEN})),
        ],
    }
