"""What the rules of a definition may cost at most, by the limits that its schema sets.

Sources: ``k8s.io/apiserver/pkg/cel/{types,limits}.go`` and ``common/schemas.go``,
``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,model/schemas}.go`` and
``pkg/apis/apiextensions/validation/{cel_validation,validation}.go``.
"""

from __future__ import annotations

import msgspec

from pratique.apimachinery.field_errors import FieldError, FieldPath, forbidden
from pratique.apimachinery.json_values import JSONObject
from pratique.cel.call_estimates import MAXIMUM, DeclaredSize
from pratique.cel.cost_estimates import estimate_cost
from pratique.cel.declarations import field_name
from pratique.cel.expressions import checked_tree
from pratique.registry.custom_resources.rule_compilation import CompiledRule
from pratique.registry.custom_resources.rule_types import rule_environment
from pratique.registry.custom_resources.structural import Structural

RULE_LIMIT, SCHEMA_LIMIT = 10_000_000, 100_000_000
"""The most that one rule may cost, and all of a schema: ``StaticEstimatedCostLimit``, ``…CRDCostLimit``."""
_LARGEST_REQUEST = 3 * 1024 * 1024
_NAME_LENGTH = 253
_BYTES_OF_CHARACTER = 4


_TEXT = DeclaredSize("string", 2)
_SCALARS = {
    "boolean": DeclaredSize("bool", 4),
    "number": DeclaredSize("double", 1),
    "integer": DeclaredSize("int", 1),
}
_TIMES = {
    "duration": DeclaredSize("duration", 3, 32),
    "date": DeclaredSize("timestamp", 12, 12),
    "date-time": DeclaredSize("timestamp", 21, 32),
}


def declared_size(schema: Structural, *, is_root: bool) -> DeclaredSize | None:
    """What is known of the size of values; None if rules cannot see them: ``SchemaDeclType``."""
    if schema.is_int_or_string:
        return DeclaredSize("dyn", 1, _longest_text(schema))
    if schema.type == "array":
        return _list_size(schema)
    if schema.type == "object":
        return _map_size(schema) if schema.additional is not None else _object_size(schema, is_root=is_root)
    if schema.type == "string":
        return _text_size(schema)
    return _SCALARS.get(schema.type)


def _child(schema: Structural | None) -> DeclaredSize | None:
    return None if schema is None else declared_size(schema, is_root=schema.is_embedded)


def _limit(schema: Structural, keyword: str) -> int | None:
    """A limit that a schema sets; one below 0 is 0."""
    limit = schema.written.get(keyword)
    return None if limit is None else max(int(limit), 0)


def _list_size(schema: Structural) -> DeclaredSize | None:
    item = _child(schema.items)
    if item is None:
        return None
    limit = _limit(schema, "maxItems")
    most = (_LARGEST_REQUEST - 2) // (item.least_bytes + 1) if limit is None else limit
    return DeclaredSize(f"list({item.type})", 2, most, element=item)


def _map_size(schema: Structural) -> DeclaredSize | None:
    value = _child(schema.additional)
    if value is None:
        return None
    limit = _limit(schema, "maxProperties")
    most = (_LARGEST_REQUEST - 2) // (value.least_bytes + 6) if limit is None else limit
    return DeclaredSize(f"map(string, {value.type})", 2, most, key=_TEXT, element=value)


def _object_size(schema: Structural, *, is_root: bool) -> DeclaredSize:
    fields, least = {}, 2
    sizes = {name: _child(child) for name, child in schema.properties.items()}
    if is_root:
        sizes |= _resource_sizes(schema)
    required = frozenset(schema.written.get("required") or ())
    for name, size in sizes.items():
        if size is None:
            continue
        if (shown := field_name(name)) is not None:
            fields[shown] = size
        child = schema.properties.get(name)
        if name in required and (child is None or child.default is None):
            least += len(name.encode()) + size.least_bytes + 4
    return DeclaredSize("object", least, fields=fields)


def _resource_sizes(schema: Structural) -> dict[str, DeclaredSize | None]:
    """What rules see of a whole object besides its schema, unless that has it all: ``WithTypeAndObjectMeta``."""
    types = {name: child.type for name, child in schema.properties.items()}
    metadata = schema.properties.get("metadata")
    inner = {} if metadata is None else metadata.properties
    if (types.get("kind"), types.get("apiVersion"), types.get("metadata")) == (
        "string",
        "string",
        "object",
    ) and all(name in inner and inner[name].type == "string" for name in ("name", "generateName")):
        return {}
    text = msgspec.structs.replace(_TEXT, elements=_LARGEST_REQUEST - 2)
    names = {}
    for name, longest in (("name", _NAME_LENGTH), ("generateName", _NAME_LENGTH - 1)):
        own = None if name not in inner else inner[name].written.get("maxLength")
        most = longest if own is None else min(own, longest)
        names[name] = msgspec.structs.replace(_TEXT, elements=max(most, 0) * _BYTES_OF_CHARACTER)
    return {"kind": text, "apiVersion": text, "metadata": DeclaredSize("object", 2, fields=names)}


def _text_size(schema: Structural) -> DeclaredSize:
    format_ = schema.written.get("format") or ""
    if format_ in _TIMES:
        return _TIMES[format_]
    limit = _limit(schema, "maxLength")
    if format_ == "byte":
        return DeclaredSize("bytes", 2, _LARGEST_REQUEST - 2 if limit is None else limit)
    values = schema.written.get("enum") or ()
    if limit is not None or not values:
        return msgspec.structs.replace(_TEXT, elements=_longest_text(schema))
    lengths = (len(value.encode()) for value in values if isinstance(value, str))
    return msgspec.structs.replace(_TEXT, elements=max(lengths, default=0))


def _longest_text(schema: Structural) -> int:
    limit = _limit(schema, "maxLength")
    return _LARGEST_REQUEST - 2 if limit is None else limit * _BYTES_OF_CHARACTER


def child_cardinality(schema: JSONObject, cardinality: int | None) -> int | None:
    """How often a child of a schema can be in an object; None if there is no limit: ``extractMaxElements``.

    Args:
        schema: The schema around the child.
        cardinality: How often the schema can be there itself.
    """
    if cardinality is None:
        return None
    factor: int | None = 1
    if schema.get("type") == "array":
        factor = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        factor = schema.get("maxProperties")
    return None if factor is None else min(cardinality * max(int(factor), 0), MAXIMUM)


class SchemaCost(msgspec.Struct):
    """What the rules of a schema cost together: ``TotalCost``."""

    total: int = 0
    expensive: list[tuple[int, FieldPath]] = msgspec.field(default_factory=list)
    """Those that cost most."""

    def add(self, path: FieldPath, cost: int) -> None:
        """Add the cost of an expression."""
        self.total = min(self.total + cost, MAXIMUM)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive = sorted([*self.expensive, (cost, path)], key=lambda found: -found[0])[:4]

    def errors(self, path: FieldPath) -> list[FieldError]:
        """What is wrong with it, if it is too much."""
        if self.total <= SCHEMA_LIMIT:
            return []
        share = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(forbidden(place, share) for _, place in self.expensive),
            forbidden(path, too_expensive(what, self.total, SCHEMA_LIMIT)),
        ]


def too_expensive(what: str, cost: int, limit: int) -> str:
    """Say by how much a cost exceeds its limit: ``getCostErrorMessage``."""
    factor = cost / limit
    exact = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    shown = "more than 100x" if factor > 100 else exact
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and"
        " maxLength where arrays, maps, and strings are declared)"
    )


class RuleCost(msgspec.Struct, frozen=True):
    """What a rule costs at most for an object, and its message for one value."""

    rule: int = 0
    message: int = 0


def rule_cost(
    compiled: CompiledRule, schema: Structural, cardinality: int | None, *, is_root: bool
) -> RuleCost:
    """What a rule that compiles costs at most; nothing otherwise.

    Args:
        compiled: The rule.
        schema: The schema that it is a rule of.
        cardinality: How often the schema can be in an object; None if there is no limit.
        is_root: Whether the schema is that of a whole object.
    """
    size = declared_size(schema, is_root=is_root)
    environment = rule_environment(schema, is_root=is_root, optional_old=compiled.optional_old)
    if compiled.expression is None or size is None or environment is None:
        return RuleCost()
    cost = estimate_cost(checked_tree(compiled.expression.source, environment), size)
    times = _LARGEST_REQUEST // (size.least_bytes + 1) if cardinality is None else cardinality
    message = compiled.message_expression
    message_cost = 0 if message is None else estimate_cost(checked_tree(message.source, environment), size)
    return RuleCost(min(cost * times, MAXIMUM), message_cost)
