"""Declarations of the schemas of kinds for the type checker.

The cases follow ``k8s.io/apiserver/pkg/cel/common/schemas_test.go`` and ``…/cel/escaping_test.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.declarations import declare_schema, field_name, restore_type_paths
from pratique.cel.environments import Environment, type_checker
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.schemas import ListType, MapType, Scalar, Structure, Type, schema_of
from pratique.cluster.store import ObjectStore

KINDS = {str(resource.kind): resource.kind for resource in built_in_resources()}
SCHEMAS = {
    name: schema for name, kind in KINDS.items() if (schema := schema_of(kind, ObjectStore())) is not None
}


def structure(name: str = "", /, **fields: Type) -> Structure:
    return Structure(name, lambda: fields)


def shown(root: Structure, kind: str = "T") -> Mapping[str, Mapping[str, str]]:
    """The types of a schema, as messages name them."""
    return {restore_type_paths(name): {field: restore_type_paths(type_) for field, type_ in fields}
            for name, fields in declare_schema(root, kind)[1]}  # fmt: skip


def compiles(root: Structure, expression: str) -> bool:
    name, structs = declare_schema(root, "T")
    checker = type_checker(Environment(structs=structs, variables=(("object", name),)))
    try:
        checker.compile(expression)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (Scalar.STRING, "string"),
        (Scalar.BYTES, "bytes"),
        (Scalar.DATE_TIME, "timestamp"),
        (Scalar.DATE, "timestamp"),
        (Scalar.DURATION, "duration"),
        (Scalar.INTEGER, "int"),
        (Scalar.NUMBER, "double"),
        (Scalar.BOOLEAN, "bool"),
        (Scalar.INT_OR_STRING, "dyn"),
        (Scalar.QUANTITY, None),
        (Scalar.ANY, None),
        (ListType(Scalar.STRING), "list<string>"),
        (ListType(Scalar.ANY), None),
        (ListType(Scalar.INT_OR_STRING), "list<dyn>"),
        (ListType(ListType(Scalar.STRING)), "dyn"),
        (ListType(structure()), "list<T.f.@idx>"),
        (MapType(Scalar.INTEGER), "map<string,int>"),
        (MapType(Scalar.QUANTITY), None),
        (MapType(Scalar.ANY), "T.f"),
        (MapType(ListType(Scalar.STRING)), "dyn"),
        (MapType(structure()), "map<string,T.f.@elem>"),
        (structure(), "T.f"),
    ],
)
def test_a_field_is_declared_with_its_type(kind: Type, declared: str | None) -> None:
    assert shown(structure(f=kind))["T"] == ({} if declared is None else {"f": declared})


def test_types_are_named_after_their_path() -> None:
    inner = structure("Inner", a_b=structure())
    assert list(shown(structure(x=inner, y=ListType(inner)))) == [
        "T",
        "T.x",
        "T.x.a_b",
        "T.y.@idx",
        "T.y.@idx.a_b",
    ]


def test_a_recursive_type_has_no_fields() -> None:
    fields: dict[str, Type] = {"name": Scalar.STRING}
    root = Structure("Node", lambda: fields)
    fields["child"] = root
    assert shown(root) == {"T": {"name": "string", "child": "T.child"}, "T.child": {}}


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("abc", "abc"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("_a", "_a"),
        ("__dot__", "__underscores__dot__underscores__"),
        ("1a", None),
        ("", None),
        ("$ref", None),
        ("ü", None),
    ],
)
def test_field_names_are_escaped(name: str, escaped: str | None) -> None:
    assert field_name(name) == escaped


def test_a_field_that_is_a_reserved_word_has_two_names() -> None:
    root = structure(namespace=Scalar.STRING)
    assert compiles(root, "object.namespace == object.__namespace__")
    assert not compiles(root, "object.namespace == 1")


@pytest.mark.parametrize(
    "fields",
    [
        {"fooBar": Scalar.STRING, "foo_bar": Scalar.STRING, "FOOBAR": Scalar.STRING},
        {"fooBar": MapType(Scalar.STRING), "foo_bar": MapType(Scalar.STRING)},
        {"labels": MapType(Scalar.STRING), "LabelsEntry": Scalar.STRING},
        {"_1": MapType(Scalar.STRING), "_": Scalar.STRING, "__": MapType(Scalar.STRING)},
        {"a-b": Scalar.STRING, "a.b": Scalar.STRING, "in": Scalar.STRING, "true": Scalar.STRING},
        {f"f{number}": Scalar.STRING for number in range(4_000)},
    ],
)
def test_the_checker_accepts_any_field_name(fields: Mapping[str, Type]) -> None:
    root = structure(spec=structure(**fields))
    for field in list(fields)[:3]:
        assert compiles(root, f"object.spec.{field_name(field)} == object.spec.{field_name(field)}")
    assert not compiles(root, "object.spec.other")


def test_a_schema_too_large_for_the_checker_becomes_dyn() -> None:
    wide = structure(**{f"f{number}": Scalar.STRING for number in range(4_001)})
    assert declare_schema(wide, "T") == ("dyn", ())
    assert shown(structure(wide=wide, all=ListType(wide)))["T"] == {"wide": "dyn", "all": "list<dyn>"}
    deep: Type = Scalar.STRING
    for _ in range(2_000):
        deep = structure(f=deep)
    assert compiles(structure(f=deep), "object" + ".f" * 30 + " == null")


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_messages_show_the_kind_as_written(kind: str) -> None:
    name, _ = declare_schema.__wrapped__(structure(), kind)
    assert (
        restore_type_paths(f"expected type '{name}' but found 'int'")
        == f"expected type '{kind}' but found 'int'"
    )


def test_object_and_params_types_differ_but_are_shown_alike() -> None:
    names = [declare_schema(structure(), "ConfigMap", role)[0] for role in ("object", "params")]
    assert names[0] != names[1]
    assert [restore_type_paths(name) for name in names] == ["ConfigMap", "ConfigMap"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_checker_accepts_every_kubernetes_kind(name: str) -> None:
    name, structs = declare_schema(SCHEMAS[name], KINDS[name].kind)
    checker = type_checker.__wrapped__(Environment(structs=structs, variables=(("object", name),)))
    checker.compile("object.kind == object.apiVersion")
    with pytest.raises(RuntimeError, match="undefined field 'nothing'"):
        checker.compile("object.nothing")


def test_raw_extensions_declare_no_fields() -> None:
    types = shown(SCHEMAS["/v1, Kind=Pod"], "Pod")
    assert types["Pod.metadata.managedFields.@idx"]["fieldsV1"] == "Pod.metadata.managedFields.@idx.fieldsV1"
    assert types["Pod.metadata.managedFields.@idx.fieldsV1"] == {}
