"""Strict decoding."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSON

Small = Annotated[int, msgspec.Meta(ge=-2, le=2)]


class Port(msgspec.Struct, frozen=True):
    number: Small | None = None
    names: tuple[str, ...] = ()


class Thing(msgspec.Struct, frozen=True, rename="camel"):
    the_name: str = ""
    ports: list[Port] = []
    labels: dict[str, str] = {}
    ready: bool = False
    share: float = 0.0
    secret: bytes = b""
    size: int | str = 0
    anything: Any = None


@pytest.mark.parametrize(
    ("data", "thing"),
    [
        ({}, Thing()),
        ({"theName": "a", "ready": True, "share": 1}, Thing("a", ready=True, share=1.0)),
        ({"ports": [{"number": 2, "names": ["a"]}, {}]}, Thing(ports=[Port(2, ("a",)), Port()])),
        ({"secret": "aG\nk="}, Thing(secret=b"hi")),
        ({"anything": {"a": [None]}}, Thing(anything={"a": [None]})),
        ({"size": "1Gi"}, Thing(size="1Gi")),
    ],
)
def test_data_of_the_right_types_is_decoded(data: JSON, thing: Thing) -> None:
    assert decode_strictly(data, Thing) == thing


@pytest.mark.parametrize(
    ("data", "thing"),
    [
        ({"theName": None, "ports": None, "labels": None, "ready": None, "secret": None}, Thing()),
        ({"ports": [None, {"number": None, "names": [None]}]}, Thing(ports=[Port(), Port(names=("",))])),
        ({"labels": {"a": None}}, Thing(labels={"a": ""})),
    ],
)
def test_null_counts_as_absent(data: JSON, thing: Thing) -> None:
    assert decode_strictly(data, Thing) == thing


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"foo": 1}, 'unknown field "foo"'),
        ({"TheName": "a"}, 'unknown field "TheName"'),
        ({"ports": [{}, {"foo": None}]}, 'unknown field "ports[1].foo"'),
        (
            {"theName": 5},
            'theName: Invalid value: "integer": theName in body must be of type string: "integer"',
        ),
        ({"ports": {}}, 'ports: Invalid value: "object": ports in body must be of type array: "object"'),
        (
            {"ports": [{"number": "1"}]},
            'ports[0].number: Invalid value: "string": ports[0].number in body must be of type integer: "string"',
        ),
        ({"ports": [{"number": True}]}, 'ports[0].number: Invalid value: "boolean": ports[0].number in body'),
        ({"ports": [{"number": 1.5}]}, 'ports[0].number: Invalid value: "number": ports[0].number in body'),
        (
            {"ports": [{"number": 3}]},
            "ports[0].number: Invalid value: 3: must be between -2 and 2, inclusive",
        ),
        ({"ports": [7]}, 'ports[0]: Invalid value: "integer": ports[0] in body must be of type object'),
        ({"labels": {"a": []}}, 'labels.a: Invalid value: "array": labels.a in body must be of type string'),
        ({"ready": "yes"}, 'ready: Invalid value: "string": ready in body must be of type boolean: "string"'),
        ({"share": "a"}, 'share: Invalid value: "string": share in body must be of type number: "string"'),
        ({"secret": "a-b="}, "secret: Invalid value: illegal base64 data at input byte 1"),
        ({"secret": 5}, 'secret: Invalid value: "integer": secret in body must be of type string: "integer"'),
        ({"size": []}, "Expected `int | str`, got `array` - at `$.size`"),
        ([], 'Invalid value: "array": body must be of type object: "array"'),
    ],
)
def test_a_mistake_names_its_field(data: JSON, text: str) -> None:
    with pytest.raises(StrictDecodingError) as refused:
        decode_strictly(data, Thing)
    (problem,) = refused.value.problems
    assert str(problem).startswith(text)


def test_every_mistake_is_reported() -> None:
    with pytest.raises(StrictDecodingError) as refused:
        decode_strictly({"b": 1, "ports": [{"x": 1, "names": 1}], "a": 1}, Thing)
    assert [problem.path for problem in refused.value.problems] == [
        ROOT / "b",
        ROOT / "ports" / 0 / "x",
        ROOT / "ports" / 0 / "names",
        ROOT / "a",
    ]


def test_the_error_is_worded_as_in_the_api_server() -> None:
    with pytest.raises(StrictDecodingError) as refused:
        decode_strictly({"b": 1, "a": 1}, Thing)
    assert str(refused.value) == 'strict decoding error: unknown field "b", unknown field "a"'
