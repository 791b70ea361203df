#!/usr/bin/env python3
# ruff: noqa: T201 - a command speaks to whoever runs it
"""Make ``services/pratique/registry/defaults/defaulted_types.json`` from the defaulters that Kubernetes generates.

The arguments are the release and the folders of the Go modules of its source::

    scripts/make_defaults.py 1.37 kubernetes@v1.37.2 api@v0.37.2 apimachinery@v0.37.2 \
        apiextensions-apiserver@v0.37.2 kube-aggregator@v0.37.2

What is read of it (Kubernetes is licensed under Apache-2.0): which functions run on the values of which type, and where
the values are (``zz_generated.defaults.go``), and the names of fields in JSON (``types.go``). What the functions do is
in ``literal_defaults.py`` and ``computed_*.py``: the tests name those that are missing there.

A type has, each only where there is any: ``functions``, in order; ``zero`` and ``missing``: the literal defaults of
fields that are empty, or not there; ``quantities``: the fields that hold resource lists; ``fields`` that lead to more
types with defaults; and which of these are ``embedded``: Go has their value even where JSON has none.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

TARGET = (
    pathlib.Path(__file__).parents[1]
    / "services"
    / "pratique"
    / "registry"
    / "defaults"
    / "defaulted_types.json"
)

_GENERATED = "zz_generated.defaults.go"
_GENERATED_FOLDERS = ("pkg/apis/*/*", "pkg/apis/*/*/*")
_IMPORT = re.compile(r'^(?:import )?\s*(?:(\w+) )?"([^"]+)"', re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) = (?:(\w+)\.)?(\w+)$", re.MULTILINE)
_FIELD = re.compile(r'^\t(?:(\w+)\s+)?([^\s`]+)\s+`[^`]*json:"([^"]*)"', re.MULTILINE)
_STRING_CONSTANT = re.compile(r'^\t(\w+)\s+(?:\w+\s+)?= "([^"]*)"', re.MULTILINE)
_DEFAULTER = re.compile(
    r"^func SetObjectDefaults_\w+\(in \*(\w+)\.(\w+)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
_OWN_DEFAULTER = re.compile(
    r"^func SetObjectDefaults_(\w+)\(in \*(\w+)\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)


@dataclasses.dataclass
class Field:
    """A field of a Go struct."""

    name: str
    type: str
    """Empty for types that are no structs."""
    inline: bool
    embedded: bool
    """The value is a struct, and no pointer or list."""


class GoTypes:
    """The structs of Go packages, by full name: ``k8s.io/api/core/v1.Pod``."""

    def __init__(self, modules: list[pathlib.Path]) -> None:
        self.fields: dict[str, dict[str, Field]] = {}
        self.constants: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        for package, file in _files(modules):
            if file.name.startswith("zz_") or file.name.endswith(("_test.go", ".pb.go")):
                continue
            text = file.read_text()
            self._read_structs(package, text, imports_of(text))
            for name, value in _STRING_CONSTANT.findall(text):
                self.constants[f"{package}.{name}"] = value

    def _read_structs(self, package: str, text: str, imports: dict[str, str]) -> None:
        for name, alias, own in _ALIAS.findall(text):
            self._aliases[f"{package}.{name}"] = f"{imports.get(alias, package) if alias else package}.{own}"
        for name, body in _STRUCT.findall(text):
            fields = self.fields.setdefault(f"{package}.{name}", {})
            for go_name, go_type, tag in _FIELD.findall(body):
                plain = go_type.lstrip("*[]")
                alias, _, own = plain.rpartition(".")
                full = f"{imports.get(alias, package) if alias else package}.{own}"
                json_name = tag.partition(",")[0]
                inline = ",inline" in tag or not (go_name or json_name)
                fields[go_name or own] = Field(json_name, full, inline, plain == go_type)

    def follow(self, package_type: str, names: list[str]) -> Iterator[Field]:
        """Yield the fields on a path."""
        at = package_type
        for name in names:
            at = self._aliases.get(at, at)
            field = self.fields[at][name]
            field = dataclasses.replace(field, type=self._aliases.get(field.type, field.type))
            yield field
            at = field.type


def _files(modules: list[pathlib.Path]) -> Iterator[tuple[str, pathlib.Path]]:
    for module in modules:
        root = "k8s.io/" + module.name.partition("@")[0]
        for file in sorted(module.rglob("*.go")):
            if "/testdata/" not in str(file) and "/vendor/" not in str(file):
                parent = file.parent.relative_to(module)
                yield (f"{root}/{parent}" if str(parent) != "." else root), file


def imports_of(text: str) -> dict[str, str]:
    """The packages that a Go file imports, by the names it calls them."""
    head = text.partition("\nfunc ")[0]
    return {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(head)}


def short_name(full: str) -> str:
    """The name of a type in ``built_in.json``: ``api.core.v1.Pod``."""
    return full.removeprefix("k8s.io/").replace("/", ".").replace("apimachinery.pkg.apis.", "")


def function_name(package: str, name: str) -> str:
    """The name of a defaulting function: ``core.v1.Probe``."""
    return f"{'.'.join(package.split('/')[-2:])}.{name}"


class Reader:
    """Collects what generated defaulters do, by the types of the values that they do it to."""

    def __init__(self, types: GoTypes) -> None:
        self._types = types
        self.found: dict[str, dict[str, Any]] = {}
        self.seen: dict[str, dict[str, Any]] = {}

    def read(self, package: str, text: str) -> None:
        """Read a file of generated defaulters."""
        imports = imports_of(text)
        roots = [(imports[alias], name, body) for alias, name, body in _DEFAULTER.findall(text)]
        roots += [(package, name, body) for _, name, body in _OWN_DEFAULTER.findall(text)]
        for owner, name, body in roots:
            if not name.endswith("List"):
                self.seen = {}
                self._read_body(package, imports, f"{owner}.{name}", body)
                self._merge(f"{owner}.{name}")

    def _merge(self, root: str) -> None:
        for name, node in self.seen.items():
            known = self.found.setdefault(name, node)
            if known != node:
                raise SystemExit(f"{root} treats {name} unlike others:\n{node}\n{known}")

    def _read_body(self, package: str, imports: dict[str, str], root: str, body: str) -> None:
        variables = {"in": (root, root)}
        literal = ""
        for line in (line.strip() for line in body.splitlines()):
            if found := re.fullmatch(r"(\w+) := &([\w.]+)\[\w\]", line):
                variables[found[1]] = self._struct_at(variables, found[2])
            elif found := re.fullmatch(r"(?:(\w+)\.)?SetDefaults_(\w+)\(&?([\w.]+)\)", line):
                owner = imports[found[1]] if found[1] else package
                self._call(variables, function_name(owner, found[2]), found[3])
            elif found := re.fullmatch(r"var ptrVar1 \w+ = (.+)|ptrVar1 := \S+?\((\w+)\.(\w+)\)", line):
                constant = self._types.constants.get(f"{imports.get(found[2])}.{found[3]}")
                literal = found[1] or json.dumps(constant)
            elif found := re.fullmatch(r"([\w.]+) = (.+)", line):
                is_pointer = found[2] == "&ptrVar1"
                value = json.loads(literal if is_pointer else found[2])
                self._literal(variables, found[1], "missing" if is_pointer else "zero", value)
            elif found := re.search(r"json.Unmarshal\(\[\]byte\(`(.*)`\), &([\w.]+)\)", line):
                self._literal(variables, found[2], "missing", json.loads(found[1]))
            elif not re.fullmatch(
                r"for \w := range .* \{|if .* (!=|==) (nil|\"\"|0) \{|\}|panic\(err\)|", line
            ):
                raise SystemExit(f"{root}: cannot read {line!r}")

    def _walk(self, variables: dict[str, tuple[str, str]], path: str) -> tuple[str, str, list[Field]]:
        """Note the fields on a path; the struct in JSON and the one in Go before the last field, and the fields."""
        variable, *names = path.split(".")
        outer, at = variables[variable]
        fields = list(self._types.follow(at, names))
        return outer, at, fields

    def _struct_at(self, variables: dict[str, tuple[str, str]], path: str) -> tuple[str, str]:
        outer, at, fields = self._walk(variables, path)
        for field in fields:
            outer, at = self._step(outer, field), field.type
        return outer, at

    def _step(self, outer: str, field: Field) -> str:
        """Go into a field: an inlined one is part of the outer type in JSON."""
        if field.inline:
            return outer
        node = self._node(outer)
        if field.name not in node["fields"]:
            node["fields"].append(field.name)
            if field.embedded:
                node["embedded"].append(field.name)
        return field.type

    def _node(self, name: str) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "functions": [], "zero": {}, "missing": {}, "quantities": [], "fields": [], "embedded": [],
        }  # fmt: skip
        return self.seen.setdefault(short_name(name), empty)

    def _call(self, variables: dict[str, tuple[str, str]], function: str, path: str) -> None:
        if not function.endswith(".ResourceList"):
            outer, _ = self._struct_at(variables, path)
            functions = self._node(outer)["functions"]
            if function not in functions:
                functions.append(function)
            return
        outer, _, fields = self._walk(variables, path)
        for field in fields[:-1]:
            outer = self._step(outer, field)
        quantities = self._node(outer)["quantities"]
        if fields[-1].name not in quantities:
            quantities.append(fields[-1].name)

    def _literal(self, variables: dict[str, tuple[str, str]], path: str, when: str, value: Any) -> None:
        outer, _, fields = self._walk(variables, path)
        for field in fields[:-1]:
            outer = self._step(outer, field)
        self._node(outer)[when][fields[-1].name] = value


def document_of(release: str, found: dict[str, dict[str, Any]]) -> str:
    """Write everything, a type a line."""
    head = {
        "origin": f"zz_generated.defaults.go of Kubernetes {release}",
        "license": "Apache-2.0, Copyright The Kubernetes Authors",
        "made_by": "scripts/make_defaults.py",
    }
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps({key: value for key, value in node.items() if value})}"
        for name, node in sorted(found.items())
    )
    return f'{json.dumps(head)[:-1]}, "types": {{\n{lines}\n}}}}\n'


def _of_served_versions(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    known = json.loads(TARGET.parents[2].joinpath("cluster", "built_in.json").read_text())["structures"]
    return {name: node for name, node in found.items() if name in known}


def main(arguments: list[str]) -> int:
    """Write the file; the exit code."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    release, *folders = arguments
    modules = [pathlib.Path(folder) for folder in folders]
    reader = Reader(GoTypes(modules))
    for package, file in _files(modules):
        if file.name == _GENERATED and re.fullmatch(r"k8s.io/[\w-]+/pkg/apis/\w+/v\w+", package):
            reader.read(package, file.read_text())
    TARGET.write_text(document_of(release, _of_served_versions(reader.found)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
