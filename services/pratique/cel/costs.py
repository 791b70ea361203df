"""Costs: what each function call costs, and the budgets that expressions share.

Sources: ``k8s.io/apiserver/pkg/cel/library/cost.go``, ``github.com/google/cel-go/interpreter/runtimecost.go`` and
``common/cost.go``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from pratique.cel.errors import OutOfBudgetError
from pratique.cel.syntax_trees import CallExpr
from pratique.cel.values import Optional, Value


class Budget(msgspec.Struct):
    """The cost that the expressions of a policy, or the conditions of a webhook, may still incur together."""

    remaining: int

    def charge(self, cost: int) -> None:
        """Subtract the cost of an expression. Raises OutOfBudgetError if less than that remains.

        As in the API server, call it after the evaluation, and drop the value if it raises.
        """
        if cost > self.remaining:
            raise OutOfBudgetError
        self.remaining -= cost


class InlineBudget(msgspec.Struct):
    """What expressions may spend where they block others, such as on an event loop."""

    cost: int
    """In cel-go's units, each of which takes about 0.2 µs."""
    uncounted_work: int
    """Work that cel-go does not count: elements copied, characters joined, nodes compared."""

    def spend(self, cost: int, uncounted_work: int) -> None:
        """Subtract what an expression spent."""
        self.cost -= cost
        self.uncounted_work -= uncounted_work


CostFunction: TypeAlias = Callable[..., int]
"""Computes the cost of a call from its arguments."""

PER_CALL_LIMIT = 1_000_000
"""The most that one expression may cost: ``k8s.io/apiserver/pkg/apis/cel/config.go`` ``PerCallLimit``."""
RUNTIME_COST_BUDGET_MATCH_CONDITIONS = 2_500_000
"""The most that the match conditions of one webhook or policy may cost: ``RuntimeCELCostBudgetMatchConditions``."""
RUNTIME_COST_BUDGET = 10_000_000
"""The most that a policy's expressions may cost for one binding and parameter: ``RuntimeCELCostBudget``."""

_STRING_TRAVERSAL_COST_FACTOR = 0.1
"""Per character or byte: ``common.StringTraversalCostFactor``."""
_REGEX_STRING_LENGTH_COST_FACTOR = 0.25
"""Per character of a pattern: ``common.RegexStringLengthCostFactor``."""
LIST_CREATE_BASE_COST = 10
"""For constructing a list: ``common.ListCreateBaseCost``."""
MAP_CREATE_BASE_COST = 30
"""For constructing a map: ``common.MapCreateBaseCost``."""
STRUCT_CREATE_BASE_COST = 40
"""For constructing a struct: ``common.StructCreateBaseCost``."""
_AUTHORIZER_CHECK_COST = 350_000
"""For an authorization check; an expression can afford two."""


def size(value: Value) -> int:
    """The size of a value: the length of strings, lists and maps, and 1 for all other values."""
    if type(value) in (str, list, dict, bytes):
        return len(value)
    if type(value) is Optional:
        return size(value.value) if value.present else 1
    return int(getattr(value, "cel_size", 1))


def traversal_cost(value: Value, factor: float = 1) -> int:
    """The cost of traversing a value ``factor`` times."""
    return math.ceil(size(value) * factor * _STRING_TRAVERSAL_COST_FACTOR)


def regex_cost(text: Value, length: int) -> int:
    """The cost of matching a string with a pattern of ``length`` characters."""
    return math.ceil((1.0 + size(text)) * _STRING_TRAVERSAL_COST_FACTOR) * math.ceil(
        length * _REGEX_STRING_LENGTH_COST_FACTOR
    )


def tree_cost(value: Value) -> int:
    """The cost of traversing a value with everything inside it."""
    kind = type(value)
    if kind is str:
        return int(len(value.encode()) * _STRING_TRAVERSAL_COST_FACTOR)
    if kind is bytes:
        return int(len(value) * _STRING_TRAVERSAL_COST_FACTOR)
    if kind is list:
        return sum(map(tree_cost, value))
    if kind is dict:
        return sum(tree_cost(key) + tree_cost(member) for key, member in value.items())
    return 1


def count_nodes(value: Value) -> int:
    """Count the values inside a value: the work of traversing it, whatever cost cel-go gives it."""
    kind = type(value)
    if kind is list:
        return len(value) + sum(count_nodes(item) for item in value if type(item) in (list, dict))
    if kind is dict:
        return len(value) + sum(count_nodes(item) for item in value.values() if type(item) in (list, dict))
    return 1


def equality_cost(left: Value, right: Value) -> int:
    """The cost of ``==`` and ``!=``, which is 1 for Kubernetes' own types."""
    if hasattr(left, "cel_type"):
        return 1
    return math.ceil(min(size(left), size(right)) * _STRING_TRAVERSAL_COST_FACTOR)


def _traversal_of_first(factor: float = 1) -> CostFunction:
    return lambda first, *_: traversal_cost(first, factor)


def _constant_cost(cost: int) -> CostFunction:
    return lambda *_: cost


def _inequality(left: Value, right: Value) -> int:
    return math.ceil(min(size(left), size(right)) * _STRING_TRAVERSAL_COST_FACTOR)


def _match(text: Value, expression: Value, *_: Value) -> int:
    return regex_cost(text, size(expression))


def _selector(_: Value, text: Value) -> int:
    """Estimate a list, the parsing, and for every two characters a requirement of a list and a struct."""
    length = size(text)
    return (
        LIST_CREATE_BASE_COST
        + math.ceil(length * _STRING_TRAVERSAL_COST_FACTOR)
        + math.ceil(length * 0.5) * (LIST_CREATE_BASE_COST + STRUCT_CREATE_BASE_COST)
    )


def _join(items: Value, separator: str = "") -> int:
    length = sum(map(size, items)) + len(separator) * max(len(items) - 1, 0)
    return math.ceil(length * 2 * _STRING_TRAVERSAL_COST_FACTOR)


def _contains_ip(network: Value, _: Value) -> int:
    return traversal_cost(network, 2)


def _contains_cidr(network: Value, _: Value) -> int:
    return traversal_cost(network, 2) + traversal_cost(network) + 1


def _tree_of_first(first: Value, *_: Value) -> int:
    return tree_cost(first)


def _ip(value: Value) -> int:
    return traversal_cost(value) if type(value) is str else 1


def _validate(form: Value, text: Value) -> int:
    return regex_cost(text, form.pattern_size)


def _add_sizes(left: Value, right: Value) -> int:
    return math.ceil((size(left) + size(right)) * _STRING_TRAVERSAL_COST_FACTOR)


def _contains(text: Value, part: Value) -> int:
    return traversal_cost(text) * traversal_cost(part)


def _sets(factor: int) -> CostFunction:
    return lambda left, right: 1 + size(left) * size(right) * factor


def _new_list(length: int, factor: float = 1) -> int:
    return int(length * factor) + 1 + LIST_CREATE_BASE_COST


def _slice(_: Value, start: Value, end: Value) -> int:
    return _new_list(max(end - start, 0))


def _flatten(items: Value, depth: int = 1) -> int:
    return _new_list(size(items), depth)


def _self_compare(items: Value) -> int:
    factor = 2 + _STRING_TRAVERSAL_COST_FACTOR if items and type(items[0]) in (str, bytes) else 2
    return _new_list(len(items) ** 2, factor)


FUNCTION_COSTS: dict[str, CostFunction] = {
    "check": _constant_cost(_AUTHORIZER_CHECK_COST),
    "fieldSelector": _selector,
    "labelSelector": _selector,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _tree_of_first),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _traversal_of_first()
    ),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversal_of_first()
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _traversal_of_first(2)),
    **dict.fromkeys(("find", "findAll"), _match),
    "join": _join,
    "ip": _ip,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
}
"""Costs by function name. Kubernetes' other functions cost 1, the default."""

OVERLOAD_COSTS: dict[str, CostFunction] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _traversal_of_first(),
    ),
    **{
        f"{comparison}_{kind}": _inequality
        for comparison in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    "in_list": lambda _, items: size(items),
    "add_string": _add_sizes,
    "add_bytes": _add_sizes,
    "cidr_contains_ip_string": lambda network, text: _contains_ip(network, text) + traversal_cost(text),
    "cidr_contains_cidr_string": lambda network, text: _contains_cidr(network, text) + traversal_cost(text),
    "matches_string": _match,
    "matches": _match,
    "contains_string": _contains,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_range": lambda length: _new_list(max(length, 0)),
    "list_reverse": lambda items: _new_list(size(items)),
    "list_distinct": _self_compare,
}
"""Costs by overload, used if the types of the arguments leave only one."""


def cost_function(call: CallExpr) -> CostFunction | None:
    """Look up the cost function of a call; None means that the call costs 1."""
    overload = call.overloads[0] if len(call.overloads) == 1 else ""
    if call.function in FUNCTION_COSTS and overload not in OVERLOAD_COSTS:
        return FUNCTION_COSTS[call.function]
    if overload.startswith("list_") and overload.endswith("_sort"):
        return _self_compare
    if overload.startswith("list_") and overload.endswith("_sortByAssociatedKeys"):
        return lambda _, keys: _self_compare(keys)
    return OVERLOAD_COSTS.get(overload)
