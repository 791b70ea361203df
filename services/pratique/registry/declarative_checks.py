"""The checks that tags of types make.

Each check is compiled once from its data into a function; see ``scripts/make_validations.py`` for the data.
Source: ``k8s.io/apimachinery/pkg/api/validate``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    MapKey,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    too_many_characters,
)
from pratique.apimachinery.json_values import JSON, JSONObject, sorted_text
from pratique.registry.declarative_formats import FORMATS

Steps: TypeAlias = "tuple[str | int, ...]"
"""The steps of a path, which becomes a FieldPath only where something is wrong."""


class DeclaredError(msgspec.Struct, frozen=True):
    """An error that a tag found."""

    error: FieldError
    is_beta: bool = False
    """Whether the tag is a beta one, whose error takes the place of a handwritten one."""


class Request(msgspec.Struct, frozen=True):
    """What checks know of the request."""

    is_update: bool
    options: Mapping[str, bool]
    """The options that some checks depend on, mostly feature gates."""


Check: TypeAlias = Callable[[Request, Steps, JSON, JSON], "Sequence[DeclaredError]"]
"""Checks a value at a path; the last argument is the stored value, None if there is none."""
CheckData: TypeAlias = "list[Any]"
"""A check as the data has it: its name, its marks, its arguments."""


def same(value: JSON, old: JSON) -> bool:
    """Whether two values are equal but for lists, of which Go does not tell empty ones from none.

    An empty text is none for most fields, and fields give it as such; for those that can be null it is a text.
    """
    if value == old:
        return True
    if isinstance(value, dict) and isinstance(old, dict):
        return all(same(value.get(name), old.get(name)) for name in value.keys() | old.keys())
    if isinstance(value, list) and isinstance(old, list):
        return len(value) == len(old) and all(map(same, value, old))
    return value in _EMPTY and old in _EMPTY


_EMPTY: tuple[JSON, ...] = (None, [])


def _found(*errors: FieldError, origin: str = "") -> Sequence[DeclaredError]:
    return [
        DeclaredError(msgspec.structs.replace(error, origin=origin) if origin else error) for error in errors
    ]


class CheckCompiler:
    """Compiles checks, and those of each type only once."""

    def __init__(self, types: Mapping[str, Sequence[CheckData]]) -> None:
        self._types = types
        self._compiled: dict[str, Check] = {}
        self._compiling: dict[str, Check] = {}
        self._lock = threading.Lock()

    def of_type(self, name: str) -> Check:
        """The checks of a type."""
        found = self._compiled.get(name)
        if found is not None:
            return found
        with self._lock:
            # Others see all of it or nothing, also if this thread is interrupted.
            self._compiling = {}
            self._compile(name)
            self._compiled |= self._compiling
            return self._compiled[name]

    def _compile(self, name: str) -> Check:
        """The checks of a type in one that is being compiled; types may contain themselves."""
        found = self._compiled.get(name) or self._compiling.get(name)
        if found is not None:
            return found
        self._compiling[name] = self._later(name)
        self._compiling[name] = self.sequence(self._types[name])
        return self._compiling[name]

    def _later(self, name: str) -> Check:
        """The checks of a type that is being compiled."""

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            return self._compiled[name](request, path, value, old)

        return check

    def sequence(self, checks: Sequence[CheckData]) -> Check:
        """Checks one after another. Where one fails that others depend on, those are left out."""
        # The errors of alpha checks are told to nobody, but what depends on them is left out.
        compiled = [
            (self._one(data), "-" in data[1] or data[1].startswith("a"), "!" in data[1]) for data in checks
        ]
        if len(compiled) == 1:
            check, is_silent, _ = compiled[0]
            return _silent if is_silent else check

        def run(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            errors: list[DeclaredError] = []
            has_failed = False
            for check, is_silent, is_decisive in compiled:
                if has_failed and not is_decisive:
                    break
                found = check(request, path, value, old)
                if found:
                    has_failed = has_failed or is_decisive
                    if not is_silent:
                        errors += found
            return errors

        return run

    def _one(self, data: CheckData) -> Check:
        name, marks, *arguments = data
        check: Check = getattr(self, f"_{name}")(*arguments)
        return _as_beta(check) if marks.startswith("b") else check

    # The methods below are named after the checks; each makes one of the arguments in the data.

    def _type(self, name: str) -> Check:
        return self._compile(name)

    def _cohort(self, checks: Sequence[CheckData]) -> Check:
        return self.sequence(checks)

    def _field(self, name: str, zero: JSON, checks: Sequence[CheckData]) -> Check:
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            member, old_member = value.get(name, zero), None
            if old is not None:
                old_member = old.get(name, zero)
                if request.is_update and same(member, old_member):
                    return ()
            return inner(request, (*path, name), member, old_member)

        return check

    def _inline(self, names: Sequence[str], checks: Sequence[CheckData]) -> Check:
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            is_kept = old is not None and all(same(value.get(name), old.get(name)) for name in names)
            return () if request.is_update and is_kept else inner(request, path, value, old)

        return check

    def _each(self, keys: Sequence[str] | None, compares: bool, checks: Sequence[CheckData]) -> Check:  # noqa: FBT001 - as the data has it
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            errors: list[DeclaredError] = []
            before = {} if keys is None or not old else _by_keys(old, keys)
            for index, item in enumerate(value or ()):
                stored = before.get(_key_text(item, keys)) if before and keys is not None else None
                if request.is_update and stored is not None and (not compares or same(item, stored)):
                    continue
                errors += inner(request, (*path, index), item, stored)
            return errors

        return check

    def _eachValue(self, checks: Sequence[CheckData]) -> Check:  # noqa: N802 - the name of the check
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            errors: list[DeclaredError] = []
            for key in sorted(value or ()):
                stored = (old or {}).get(key)
                if request.is_update and stored is not None and same(value[key], stored):
                    continue
                errors += inner(request, (*path, MapKey(key)), value[key], stored)
            return errors

        return check

    def _eachKey(self, checks: Sequence[CheckData]) -> Check:  # noqa: N802 - likewise
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            known = old if request.is_update and old else ()
            return [
                error
                for key in sorted(value or ())
                if key not in known
                for error in inner(request, path, key, None)
            ]

        return check

    def _subfield(self, name: str, checks: Sequence[CheckData]) -> Check:
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            member = value.get(name, "")
            if request.is_update and old is not None and member == old.get(name, ""):
                return ()
            return inner(request, (*path, name), member, None if old is None else old.get(name, ""))

        return check

    def _ifOption(self, option: str, is_on: bool, checks: Sequence[CheckData]) -> Check:  # noqa: FBT001, N802
        inner = self.sequence(checks)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            return inner(request, path, value, old) if request.options[option] is is_on else ()

        return check

    def _discriminated(
        self, name: str, by: str, cases: Mapping[str, Sequence[CheckData]], default: Sequence[CheckData]
    ) -> Check:
        compiled = {value: self.sequence(checks) for value, checks in cases.items()}
        otherwise = self.sequence(default)

        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            member, old_member = value.get(name), None if old is None else old.get(name)
            mode = value.get(by, "")
            is_kept = old is not None and mode == old.get(by, "") and same(member, old_member)
            if request.is_update and is_kept:
                return ()
            return compiled.get(mode, otherwise)(request, (*path, name), member, old_member)

        return check

    def _required(self, form: str) -> Check:
        is_missing = _MISSING[form]
        return lambda _request, path, value, _old: (
            _found(required(FieldPath(path))) if is_missing(value) else ()
        )

    def _optional(self, form: str) -> Check:
        is_missing = _MISSING[form]
        return lambda _request, _path, value, _old: _NOT_THERE if is_missing(value) else ()

    def _forbidden(self, form: str) -> Check:
        is_missing = _MISSING[form]
        return lambda _request, path, value, _old: (
            () if is_missing(value) else _found(forbidden(FieldPath(path), ""))
        )

    def _immutable(self) -> Check:
        return lambda request, path, _value, _old: (
            _changed(path, "field is immutable", "immutable") if request.is_update else ()
        )

    def _maxItems(self, maximum: int) -> Check:  # noqa: N802
        return lambda _request, path, value, _old: (
            _found(too_many(FieldPath(path), len(value), maximum), origin="maxItems")
            if value and len(value) > maximum
            else ()
        )

    def _maxLength(self, maximum: int) -> Check:  # noqa: N802
        return lambda _request, path, value, _old: (
            _found(too_many_characters(FieldPath(path), maximum), origin="maxLength")
            if value and len(value) > maximum
            else ()
        )

    def _maxBytes(self, maximum: int) -> Check:  # noqa: N802
        return lambda _request, path, value, _old: (
            _found(too_long(FieldPath(path), maximum), origin="maxBytes")
            if value and len(value.encode()) > maximum
            else ()
        )

    def _minimum(self, minimum: int) -> Check:
        detail = f"must be greater than or equal to {minimum}"
        return lambda _request, path, value, _old: (
            _found(invalid(FieldPath(path), value, detail), origin="minimum")
            if value is not None and value < minimum
            else ()
        )

    def _maximum(self, maximum: int) -> Check:
        detail = f"must be less than or equal to {maximum}"
        return lambda _request, path, value, _old: (
            _found(invalid(FieldPath(path), value, detail), origin="maximum")
            if value is not None and value > maximum
            else ()
        )

    def _enum(self, values: Sequence[str]) -> Check:
        return lambda _request, path, value, _old: (
            () if value is None or value in values else _found(not_supported(FieldPath(path), value, values))
        )

    def _format(self, name: str) -> Check:
        origin, find = FORMATS[name]
        return lambda _request, path, value, _old: (
            _found(*find(value, FieldPath(path)), origin=f"format={origin}") if value is not None else ()
        )

    def _unique(self, keys: Sequence[str]) -> Check:
        def check(_request: Request, path: Steps, value: JSON, _old: JSON) -> Sequence[DeclaredError]:
            if not value or len(value) == 1:
                return ()
            seen: set[bytes] = set()
            errors: list[FieldError] = []
            for index, item in enumerate(value):
                key = _key_text(item, keys)
                if key in seen:
                    errors.append(duplicate(FieldPath((*path, index)), item))
                seen.add(key)
            return _found(*errors)

        return check

    def _update(self, constraints: Sequence[str]) -> Check:
        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            if not request.is_update:
                return ()
            happened = _CHANGES[(old is not None, value is not None)]
            return _changed(path, _CONSTRAINTS[happened], "update") if happened in constraints else ()

        return check

    def _updateList(self, keys: Sequence[str], constraints: Sequence[str]) -> Check:  # noqa: N802
        def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
            if not request.is_update:
                return ()
            errors: list[FieldError] = []
            if "NoAddItem" in constraints:
                before = _by_keys(old, keys)
                errors += [
                    forbidden(FieldPath((*path, index)), "item may not be added")
                    for index, item in enumerate(value or ())
                    if _key_text(item, keys) not in before
                ]
            if "NoRemoveItem" in constraints:
                after = _by_keys(value, keys)
                errors += [
                    forbidden(FieldPath(path), "item may not be removed")
                    for item in old or ()
                    if _key_text(item, keys) not in after
                ]
            return _found(*errors, origin="update")

        return check

    def _union(self, members: Sequence[Sequence[str]]) -> Check:
        return _union_check(members, "exactly one", "union", needs_one=True)

    def _zeroOrOneOfUnion(self, members: Sequence[Sequence[str]]) -> Check:  # noqa: N802
        return _union_check(members, "at most one", "zeroOrOneOf", needs_one=False)


def _silent(_request: Request, _path: Steps, _value: JSON, _old: JSON) -> Sequence[DeclaredError]:
    return ()


def _as_beta(check: Check) -> Check:
    def run(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
        found = check(request, path, value, old)
        return [DeclaredError(each.error, is_beta=True) for each in found] if found else ()

    return run


_NOT_THERE = (DeclaredError(required(FieldPath(), "optional value was not specified")),)
"""That an optional value is missing, which only ends its checks: nobody sees it, so it has no path."""

_MISSING: Mapping[str, Callable[[JSON], bool]] = {
    "value": lambda value: not value,
    "pointer": lambda value: value is None,
    "slice": lambda value: not value,
    "map": lambda value: not value,
}
"""Whether a value counts as missing, by what holds it in Go."""

_CHANGES = {
    (False, False): "",
    (False, True): "NoSet",
    (True, False): "NoUnset",
    (True, True): "NoModify",
}
_CONSTRAINTS = {
    "NoSet": "field cannot be set once created",
    "NoUnset": "field cannot be cleared once set",
    "NoModify": "field cannot be modified once set",
}


def _changed(path: Steps, detail: str, origin: str) -> Sequence[DeclaredError]:
    return _found(invalid(FieldPath(path), None, detail), origin=origin)


def _key_text(item: JSON, keys: Sequence[str]) -> bytes:
    """What is the same of items with the same keys, or of the same items if there are no keys."""
    if not keys:
        return sorted_text(item)
    return sorted_text([None if item.get(key) in _EMPTY else item.get(key) for key in keys])


def _by_keys(items: JSON, keys: Sequence[str]) -> Mapping[bytes, JSON]:
    """The items of a list by what :func:`_key_text` makes of them; of several, the first."""
    found: dict[bytes, JSON] = {}
    for item in items or ():
        found.setdefault(_key_text(item, keys), item)
    return found


def _union_check(members: Sequence[Sequence[str]], how_many: str, origin: str, *, needs_one: bool) -> Check:
    names = ", ".join(f"`{member[0]}`" for member in members)

    def check(request: Request, path: Steps, value: JSON, old: JSON) -> Sequence[DeclaredError]:
        chosen = [member[0] for member in members if _is_set(value, member)]
        is_kept = bool(old) and chosen == [member[0] for member in members if _is_set(old, member)]
        if request.is_update and is_kept:
            return ()
        if len(chosen) > 1:
            bad_value = f"{{{', '.join(chosen)}}}"
            detail = f"must specify {how_many} of: {names}"
            return _found(invalid(FieldPath(path), bad_value, detail), origin=origin)
        if needs_one and not chosen:
            return _found(invalid(FieldPath(path), "", f"must specify one of: {names}"), origin=origin)
        return ()

    return check


def _is_set(value: JSON, member: Sequence[str]) -> bool:
    """Whether the member of a union is set: a field, or the item of a list that has a certain value."""
    name, how, *rest = member
    if how == "item":
        field, wanted = rest
        items: list[JSONObject] = value or []
        return any(item.get(field) == wanted for item in items)
    found = (value or {}).get(name)
    return found is not None if how == "pointer" else bool(found)
