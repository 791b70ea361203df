#!/usr/bin/env python3
# ruff: noqa: S101 - what is not as expected must stop it
"""Write the declarative validation of built-in types as data.

usage: make_validations.py KUBERNETES API > services/pratique/registry/declarative.json

KUBERNETES and API are source trees of ``k8s.io/kubernetes`` and ``k8s.io/api`` of one release (licensed under
Apache-2.0). Kubernetes generates code from the tags ``+k8s:…`` of its types, in
``pkg/apis/*/*/zz_generated.validations.go``; which checks that code makes, in which order and of which stability, is
what is written here. Checks that are only tried out (alpha), and change nothing
that a user sees, are left out, and so are types without checks and the group ``lifecycle.k8s.io``, which is off.

A check is a list: its name, its marks, and its arguments. The marks are ``b`` for a beta check, ``a`` for an alpha one
and ``s`` for any other, then ``!`` if what follows is left out where it fails, and ``-`` if it says nothing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

Check: TypeAlias = list[Any]

_CLOSING = {"(": ")", "{": "}", "[": "]"}
_SKIPPED_GROUPS = frozenset({"lifecycle", "testapigroup"})
_CUSTOM = frozenset({"ValidateCustom_EvictionResponder_Name", "ValidateCustom_EvictionResponder_Priority"})
"""Checks in Go code, all of a field that is dropped while the feature gate EvictionRequestAPI is off."""


def matching(text: str, start: int) -> int:
    """The place after the bracket that closes the one at ``start``."""
    stack: list[str] = []
    at = start
    while at < len(text):
        character = text[at]
        if character == '"':
            at = string_end(text, at)
            continue
        if character in _CLOSING:
            stack.append(_CLOSING[character])
        elif stack and character == stack[-1]:
            stack.pop()
            if not stack:
                return at + 1
        at += 1
    raise ValueError(f"no end: {text[start : start + 80]}")


def string_end(text: str, start: int) -> int:
    """The place after a string literal."""
    at = start + 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside brackets and strings."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] in _CLOSING:
            at = matching(text, at)
        elif text[at] == '"':
            at = string_end(text, at)
        else:
            if text[at] == ",":
                parts.append(text[start:at].strip())
                start = at + 1
            at += 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


class Package:
    """The generated validations of one version of a group."""

    def __init__(self, place: str, text: str, fields: dict[str, dict[str, str]]) -> None:
        self.place = place
        """Group and version as their folders are named, such as ``storage/v1``."""
        self.text = re.sub(r"//[^\n]*", lambda found: found[0] if "// field " in found[0] else "", text)
        self.fields = fields
        """The JSON names of fields by type and Go name, in all packages."""
        self.imports = dict(re.findall(r'^\t(\w+) "([^"]+)"', text, re.MULTILINE))
        self.variables = dict(
            re.findall(r"^var (\w+) = (.*(?:\n(?!(?:func|var|//|\n)).*)*)", self.text, re.MULTILINE)
        )

    def types(self) -> dict[str, list[Check]]:
        """The checks of each type."""
        found = {}
        for header in re.finditer(r"^func Validate_(\w+)\(", self.text, re.MULTILINE):
            end = matching(self.text, header.end() - 1)
            start = self.text.index("{\n", self.text.index("(errs field.ErrorList)", end - 1))
            body = self.text[start + 1 : matching(self.text, start) - 1]
            subject = re.search(r"obj, oldObj ([^)\n]+)\)", self.text[header.end() : end])
            assert subject is not None
            found[f"{self.place}/{header[1]}"] = self.checks(body, subject[1])
        return found

    def checks(self, body: str, subject: str) -> list[Check]:
        """The checks of a function's body; ``subject`` is the Go type of what it checks."""
        found: list[Check] = []
        at = 0
        while True:
            at += len(body[at:]) - len(body[at:].lstrip())
            rest = body[at:]
            if not rest:
                return found
            check, length = self._statement(rest, subject)
            found += [check] if check else []
            at += length

    def _statement(self, text: str, subject: str) -> tuple[Check | None, int]:  # noqa: PLR0911 - one for each form
        line = text.find("\n") + 1 or len(text)
        if text.startswith("{"):
            end = matching(text, 0)
            return self._field(text[1 : end - 1]), end
        if text.startswith("func() {"):
            end = matching(text, 7)
            return ["cohort", "s", self.checks(text[8 : end - 1], subject)], end + 2
        if text.startswith("if e := "):
            return self._guarded(text, subject)
        if text.startswith("if "):
            return None, matching(text, text.index("{\n"))
        call = re.match(r"errs = append\(errs, ", text)
        if call:
            end = matching(text, len("errs = append"))
            return self._call(text[call.end() : end - 1].removesuffix("..."), subject, ""), end
        if text.startswith("return validate."):
            end = matching(text, text.index("("))
            marks = re.match(r"(?:\.\w+\(\))*", text[end:])
            assert marks is not None
            return self._call(text[len("return ") : end + marks.end()], subject, ""), end + marks.end()
        return None, line

    def _guarded(self, text: str, subject: str) -> tuple[Check | None, int]:
        start = len("if e := ")
        end = matching(text, text.index("(", start))
        marks = re.match(r"(?:\.\w+\(\))*", text[end:])
        assert marks is not None
        end += marks.end()
        block = text.index("{", end)
        close = matching(text, block)
        handling = text[block:close]
        flags = "!" if "earlyReturn = true" in handling else ""
        flags += "" if "errs = append" in handling else "-"
        return self._call(text[start:end], subject, flags), close

    def _field(self, block: str) -> Check:
        head = re.search(r"obj, oldObj (.+?),\n", block)
        name = re.search(r'fn\(fldPath\.Child\("([^"]+)"\)', block)
        assert head, block
        start = block.index("(errs field.ErrorList) {") + len("(errs field.ErrorList) ")
        body = block[start + 1 : matching(block, start) - 1]
        if name is None:
            package, _, kind = head[1].lstrip("*").rpartition(".")
            place = "/".join(self.imports[package].split("/")[-2:])
            return [
                "inline",
                "s",
                sorted(self.fields[f"{place}/{kind}"].values()),
                self.checks(body, head[1]),
            ]
        zero = self._zero(head[1]) if re.search(r"\), &obj\.", block) else None
        return ["field", "s", name[1], zero, self.checks(body, head[1])]

    def _zero(self, subject: str) -> Any:
        """The zero value of a type that a pointer is given to."""
        package, _, kind = subject.lstrip("*").rpartition(".")
        place = "/".join(self.imports[package].split("/")[-2:]) if package else ""
        kind = self.fields.get(f"kinds {place}", {}).get(kind, kind)
        kind = "string" if subject == "*types.UID" else kind
        return {"string": "", "bool": False}.get(kind, 0 if kind.startswith(("int", "uint")) else {})

    def _call(self, text: str, subject: str, flags: str) -> Check | None:
        start = text.index("(")
        name, end = text[:start], matching(text, start)
        arguments = split_arguments(text[start + 1 : end - 1])[5:]
        level = "b" if ".MarkBeta()" in text[end:] else "a" if ".MarkAlpha()" in text[end:] else "s"
        if "Validate_" in name:
            return ["type", "s", self._type(name)] if self._type(name) else None
        if name in _CUSTOM:
            return None
        if not name.startswith("validate."):
            raise ValueError(f"{self.place}: a check of its own: {text}")
        check = self._check(name.removeprefix("validate."), arguments, subject)
        return [check[0], level + flags, *check[1:]]

    def _type(self, name: str) -> str:
        """The type that a function validates; empty if it is one of metadata, which have no enforced checks."""
        package, _, function = name.rpartition(".")
        kind = function.removeprefix("Validate_")
        if not package:
            return f"{self.place}/{kind}"
        path = self.imports[package]
        if path.startswith("k8s.io/apimachinery"):
            return ""
        return "/".join([*path.split("/")[-2:], kind])

    def _check(self, name: str, arguments: list[str], subject: str) -> Check:  # noqa: C901, PLR0911, PLR0912 - a table
        plain = re.fullmatch(r"(Required|Optional|Forbidden)(Value|Pointer|Slice|Map)", name)
        if plain:
            return [plain[1].lower(), plain[2].lower()]
        match name:
            case "Immutable" | "Monotonic":
                return [name.lower()]
            case "MaxItems" | "MaxLength" | "MaxBytes" | "Minimum" | "Maximum":
                return [name[0].lower() + name[1:], int(arguments[0])]
            case "Enum":
                return ["enum", sorted(self._symbols(arguments[0]))]
            case "ValSliceUnique":
                return ["unique", self._keys(arguments[0], subject)]
            case "EachValSliceVal":
                match = None if arguments[0] == "nil" else self._keys(arguments[0], subject)
                return ["each", match, arguments[1] != "nil", self._validator(arguments[2], item_of(subject))]
            case "EachMapKey":
                return ["eachKey", self._validator(arguments[0], "*string")]
            case "EachMapVal":
                return ["eachValue", self._validator(arguments[1], item_of(subject))]
            case "UpdatePointer" | "UpdateValueByCompare":
                return ["update", [argument.removeprefix("validate.") for argument in arguments]]
            case "ValSliceUpdate":
                constraints = [argument.removeprefix("validate.") for argument in arguments[1:]]
                return ["updateList", self._keys(arguments[0], subject), constraints]
            case "IfOption":
                return ["ifOption", json.loads(arguments[0]), arguments[1] == "true",
                        self._validator(arguments[2], subject)]  # fmt: skip
            case "Subfield":
                return ["subfield", json.loads(arguments[0]), self._validator(arguments[3], "*string")]
            case "Union" | "ZeroOrOneOfUnion":
                return [name[0].lower() + name[1:], self._members(arguments)]
            case "Discriminated":
                return self._discriminated(arguments, subject)
            case "DependentRequired" | "DependentForbidden":
                return [name[0].lower() + name[1:]]  # alpha all of them, and so left out
        return ["format", name]

    def _symbols(self, variable: str) -> list[str]:
        """The values of an enum, whose constants stand in the API's source."""
        values = split_arguments(self.variables[variable].strip().removeprefix("sets.New(")[:-1])
        return [self._constant(value) for value in values]

    def _constant(self, value: str) -> str:
        if value.startswith('"'):
            text: str = json.loads(value)
            return text
        package, _, name = value.rpartition(".")
        return self.fields["const " + "/".join(self.imports[package].split("/")[-2:])][name]

    def _keys(self, text: str, subject: str) -> list[str]:
        """The JSON names of the fields that items are told apart by; none if by the whole of them."""
        if text.startswith("validate."):
            return []
        names = dict.fromkeys(re.findall(r"\ba\.(\w+) ==", text))
        return [self._json_name(item_of(subject), name) for name in names]

    def _json_name(self, subject: str, name: str) -> str:
        package, _, kind = subject.lstrip("*").rpartition(".")
        place = "/".join(self.imports[package].split("/")[-2:]) if package else self.place
        if place.startswith("meta/"):
            return name[0].lower() + name[1:]
        return self.fields[f"{place}/{kind}"][name]

    def _validator(self, text: str, subject: str) -> list[Check]:
        """The checks of a function that is given to another."""
        if text.startswith("func("):
            start = text.index("field.ErrorList {") + len("field.ErrorList ")
            return self.checks(text[start + 1 : matching(text, start) - 1], subject)
        check = self._call(f"{text}(ctx, op, fldPath, obj, oldObj)", subject, "")
        return [check] if check else []

    def _members(self, arguments: list[str]) -> list[Check]:
        """The members of a union: their names, and how to see whether they are set."""
        definition = self.variables[arguments[0]]
        names = [
            json.loads(name) for name in re.findall(r'NewUnionMember\(("(?:\\.|[^"\\])*")\)', definition)
        ]
        members: list[Check] = []
        for name, text in zip(names, arguments[1:], strict=True):
            item = re.search(r'list\[i\]\.(\w+) == ("[^"]*")', text)
            how = "item" if item else "length" if "len(obj" in text else "pointer"
            members.append(
                [name, how, *([item[1][0].lower() + item[1][1:], json.loads(item[2])] if item else [])]
            )
        return members

    def _discriminated(self, arguments: list[str], subject: str) -> Check:
        name, _, discriminator, _, default, rules = arguments
        field = re.search(r"return obj\.(\w+)", discriminator)
        assert field is not None
        cases = {}
        for value in re.finditer(r'Value:\s*("[^"]*"|[\w.]+),', rules):
            start = rules.find("func(", value.end())
            following = rules.find("Value:", value.end())
            has_checks = start >= 0 and (following < 0 or start < following)
            cases[self._constant(value[1])] = self._rule(rules, start, subject) if has_checks else []
        otherwise = [] if default == "nil" else self._validator(default, subject)
        return ["discriminated", json.loads(name), self._json_name(subject, field[1]), cases, otherwise]

    def _rule(self, rules: str, start: int, subject: str) -> list[Check]:
        block = rules.index("field.ErrorList {", start) + len("field.ErrorList ")
        return self.checks(rules[block + 1 : matching(rules, block) - 1], subject)


def item_of(subject: str) -> str:
    """The type of the items of a list or of the values of a map."""
    return re.sub(r"^(\[\]|map\[[^\]]*\])", "", subject)


def read_fields(api: Path) -> dict[str, dict[str, str]]:
    """The JSON names of the fields of all types by Go name, and the values of constants."""
    fields: dict[str, dict[str, str]] = {}
    for file in sorted(api.glob("*/*/*types*.go")):
        place, text = "/".join(file.parts[-3:-1]), file.read_text()
        for kind in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            found = re.findall(r'^\t(\w+)\s.*`.*json:"(\w*)', kind[2], re.MULTILINE)
            fields[f"{place}/{kind[1]}"] = dict(found)
        aliases = re.findall(r"^type (\w+) (string|u?int\d*|bool)$", text, re.MULTILINE)
        fields.setdefault(f"kinds {place}", {}).update(aliases)
        constants = re.findall(
            r'^\s*(?:const )?(\w+)\s+(?:\w+\s+)?=\s+(?:\w+\()?"([^"]*)"', text, re.MULTILINE
        )
        fields.setdefault(f"const {place}", {}).update(constants)
        borrowed = re.findall(r"^\s*(\w+)\s+=\s+\w+\(v1\.(\w+)\)", text, re.MULTILINE)
        core = fields.get("const core/v1", {})
        fields[f"const {place}"].update({name: core[other] for name, other in borrowed if other in core})
    return fields


_NESTED = frozenset({"cohort", "field", "inline", "each", "eachKey", "eachValue", "ifOption", "subfield"})


def prune(checks: list[Check], types: dict[str, list[Check]]) -> list[Check]:
    """Leave out what never tells anybody anything."""
    kept = [check for check in (_pruned(check, types) for check in checks) if check]
    tells = any(_tells(check) for check in kept)
    return kept if tells else []


def _pruned(check: Check, types: dict[str, list[Check]]) -> Check | None:
    name, marks = check[0], check[1]
    if name == "type":
        return check if types.get(check[2]) else None
    if marks == "a":
        return None
    if name in _NESTED:
        inner = prune(check[-1], types)
        return [*check[:-1], inner] if inner else None
    return check


def _tells(check: Check) -> bool:
    return check[0] in {"type", *_NESTED} or ("-" not in check[1] and not check[1].startswith("a"))


def groups(kubernetes: Path) -> dict[str, str]:
    """The names of API groups by their folders."""
    found = {}
    for file in sorted(kubernetes.glob("pkg/apis/*/register.go")):
        name = re.search(r'GroupName = "([^"]*)"', file.read_text())
        if name:
            found[file.parent.name] = name[1]
    return found


def main() -> None:
    """Write the data to standard output."""
    kubernetes, api = Path(sys.argv[1]), Path(sys.argv[2])
    fields, names = read_fields(api), groups(kubernetes)
    types: dict[str, list[Check]] = {}
    kinds: dict[str, str] = {}
    for file in sorted(kubernetes.glob("pkg/apis/*/*/zz_generated.validations.go")):
        group, version = file.parts[-3:-1]
        if group in _SKIPPED_GROUPS:
            continue
        package = Package(f"{group}/{version}", file.read_text(), fields)
        types |= package.types()
        for kind in re.findall(r"^\t// type (\w+)$", file.read_text(), re.MULTILINE):
            api_version = f"{names[group]}/{version}".removeprefix("/")
            kinds[f"{api_version}/{kind}"] = f"{group}/{version}/{kind}"
    while (pruned := {name: prune(checks, types) for name, checks in types.items()}) != types:
        types = pruned
    used = {name: checks for name, checks in types.items() if checks}
    kinds = {kind: name for kind, name in kinds.items() if name in used}
    data = {"kinds": kinds, "types": used}
    json.dump(data, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
