"""Objects of every built-in kind, drawn from the schema of the kind."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type, built_in_schema

SCALARS: dict[Scalar, st.SearchStrategy[JSON]] = {
    Scalar.STRING: st.sampled_from(["", "a", "Always", "ClientIP", "None", "LoadBalancer", "Container"]),
    Scalar.INTEGER: st.integers(0, 3),
    Scalar.NUMBER: st.integers(0, 3),
    Scalar.BOOLEAN: st.booleans(),
    Scalar.QUANTITY: st.sampled_from(["0", "1", "100m", "1Gi"]),
    Scalar.INT_OR_STRING: st.sampled_from([0, 1, "", "10%"]),
    Scalar.ANY: st.just({}),
}


def later(type_: Type, depth: int) -> st.SearchStrategy[JSON]:
    return st.deferred(lambda: values(type_, depth))


def values(type_: Type, depth: int) -> st.SearchStrategy[JSON]:
    match type_:
        case ListType():
            return st.lists(values(type_.items, depth - 1), max_size=2)
        case MapType():
            return st.dictionaries(st.sampled_from(["a", "cpu"]), values(type_.values, depth - 1), max_size=2)
        case Structure():
            fields = type_.fields if depth > 0 else {}
            optional = {name: later(kind, depth - 1) for name, kind in fields.items()}
            return st.fixed_dictionaries({}, optional=optional)
        case _:
            return SCALARS.get(type_, st.just("YQ=="))  # fmt: skip


def objects_of(kind: GroupVersionKind) -> st.SearchStrategy[tuple[GroupVersionKind, JSON]]:
    """The kind and an object of it, of the right types but hardly valid."""
    schema = built_in_schema(kind)
    assert schema is not None
    return st.tuples(st.just(kind), values(schema, 7))
