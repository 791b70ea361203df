#!/usr/bin/env python3
# ruff: noqa: T201 - a command speaks to whoever runs it
"""Make ``services/pratique/cluster/built_in.json`` from the API descriptions that Kubernetes publishes.

The argument is the source tree of a release, as ``RELEASE=FOLDER``::

    scripts/make_schemas.py 1.36=kubernetes-1.36.3

What is read of it (Kubernetes is licensed under Apache-2.0): ``api/openapi-spec/v3/*.json``. What is kept is what
expressions are checked against and what objects are merged by: fields, their types, how lists are merged, defaults.
Descriptions are not.

A type is written as a name (``string``, ``int-or-string``), a reference (``@v1.Pod``), ``{"list": …}`` or
``{"map": …}``. A list says how it is merged (``by``: absent for atomic ones) and by which ``keys``; maps and
references may be ``atomic`` or, against what their type says, ``granular``.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

TARGET = pathlib.Path(__file__).parents[1] / "services" / "pratique" / "cluster" / "built_in.json"

_REFERENCE = "#/components/schemas/"
_SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "date-time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "date-time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}
_FORMATS: dict[Any, str] = {
    ("string", "byte"): "bytes",
    ("string", "date-time"): "date-time",
    ("number", "double"): "number",
}
_MAP_TYPE = "x-kubernetes-map-type"
_EMPTY: tuple[Any, ...] = ({}, "", 0, False, None)
"""What says no more than that nothing is there: OpenAPI writes it as the default of what is required."""


def read_schemas(folder: pathlib.Path) -> dict[str, Any]:
    """Read every type that a release describes, by its full name."""
    schemas: dict[str, Any] = {}
    for file in sorted((folder / "api" / "openapi-spec" / "v3").glob("*.json")):
        schemas |= json.loads(file.read_text()).get("components", {}).get("schemas", {})
    return schemas


def kinds_of(schemas: dict[str, Any]) -> dict[str, str]:
    """Name the type of every kind, written ``apps/v1/Deployment``; kinds of all groups are in none of them."""
    return {
        f"{kinds[0]['group']}/{kinds[0]['version']}/{kinds[0]['kind']}": name
        for name, schema in schemas.items()
        if len(kinds := schema.get("x-kubernetes-group-version-kind", ())) == 1
    }


def type_of(schema: dict[str, Any]) -> Any:
    """Write the type of a field."""
    reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf", ())), None)
    if reference is not None:
        return _marked(_referred(reference.removeprefix(_REFERENCE)), schema)
    match schema.get("type"):
        case "array":
            how = {
                "by": schema.get("x-kubernetes-list-type"),
                "keys": schema.get("x-kubernetes-list-map-keys"),
            }
            merged = {key: value for key, value in how.items() if value and value != "atomic"}
            return {"list": type_of(schema["items"])} | merged
        case "object" if "additionalProperties" in schema:
            return _marked({"map": type_of(schema["additionalProperties"])}, schema)
        case None | "object":
            return "any"
        case kind:
            return _FORMATS.get((kind, schema.get("format")), kind)


def _referred(name: str) -> Any:
    return _SCALARS.get(name, f"@{name}")


def _marked(kind: Any, schema: dict[str, Any]) -> Any:
    mark = schema.get(_MAP_TYPE)
    if mark is None:
        return kind
    return (kind if isinstance(kind, dict) else {"type": kind}) | {mark: True}


def keys_of_lists(schemas: dict[str, Any]) -> frozenset[str]:
    """All names of fields by which items of lists are told apart."""
    fields = (field for schema in schemas.values() for field in schema.get("properties", {}).values())
    return frozenset(key for field in fields for key in field.get("x-kubernetes-list-map-keys", ()))


def structure_of(schema: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """Write a type that has fields. Of defaults that say nothing those of ``keys`` count: they tell items apart."""
    properties = schema.get("properties", {})
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if field.get("default") is not None and (field["default"] not in _EMPTY or name in keys)
    }
    structure: dict[str, Any] = {"fields": {name: type_of(field) for name, field in properties.items()}}
    structure |= {"required": schema["required"]} if schema.get("required") else {}
    structure |= {"defaults": defaults} if defaults else {}
    return structure | ({"atomic": True} if schema.get(_MAP_TYPE) == "atomic" else {})


def is_structure(schema: dict[str, Any]) -> bool:
    """Tell types with fields, and those without any, from what is written as something else."""
    return schema.get("type") == "object"


def shortened(value: Any) -> Any:
    """Write names without what all of them begin with."""
    if isinstance(value, dict):
        return {shortened(key): shortened(child) for key, child in value.items()}
    if isinstance(value, list):
        return [shortened(child) for child in value]
    if isinstance(value, str) and value.lstrip("@").startswith("io.k8s."):
        return value.replace("io.k8s.", "", 1).replace("apimachinery.pkg.apis.", "", 1)
    return value


def document_of(release: str, schemas: dict[str, Any]) -> str:
    """Write everything, a type a line."""
    keys = keys_of_lists(schemas)
    structures = {
        name: structure_of(schema, keys)
        for name, schema in sorted(schemas.items())
        if is_structure(schema) and name not in _SCALARS
    }
    known = {f"@{name}" for name in structures}
    head = {
        "origin": f"api/openapi-spec/v3 of Kubernetes {release}",
        "license": "Apache-2.0, Copyright The Kubernetes Authors",
        "made_by": "scripts/make_schemas.py",
        "kinds": shortened(dict(sorted(kinds_of(schemas).items()))),
    }
    lines = ",\n".join(
        f"{json.dumps(shortened(name))}:{json.dumps(shortened(_known(one, known)), separators=(',', ':'))}"
        for name, one in structures.items()
    )
    return f'{json.dumps(head)[:-1]}, "structures": {{\n{lines}\n}}}}\n'


def _known(value: Any, known: set[str]) -> Any:
    """Write ``any`` for references to what has no fields, such as the ``JSON`` of CustomResourceDefinitions."""
    if isinstance(value, dict):
        return {key: _known(child, known) for key, child in value.items()}
    return "any" if isinstance(value, str) and value.startswith("@") and value not in known else value


def main(arguments: list[str]) -> int:
    """Write the file; the exit code."""
    if len(arguments) != 1 or "=" not in arguments[0]:
        print(__doc__, file=sys.stderr)
        return 2
    release, _, folder = arguments[0].partition("=")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(document_of(release, read_schemas(pathlib.Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
