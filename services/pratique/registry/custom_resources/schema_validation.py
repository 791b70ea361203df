"""JSON schema validation as the go-openapi validator does it, error for error.

A schema is compiled once. Nearly all objects are valid, so a predicate is asked first; only if that says no, the object
is validated again to find its errors. Members are visited in the order of their names, where Go's order is random.

Sources, below ``k8s.io/kube-openapi/pkg/validation/validate``: ``schema.go``, ``schema_props.go``,
``object_validator.go``, ``slice_validator.go`` and ``result.go``; of unchanged values:
``k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from pratique.apimachinery.field_errors import MAX_ERRORS, FieldError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import go_quoted
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.regexes import compile_pattern
from pratique.registry.custom_resources import formats, value_validation
from pratique.registry.custom_resources.correlation import Correlation
from pratique.registry.custom_resources.value_validation import NumberBounds, Violation
from pratique.registry.validation.kind_validation import TooMuchWorkError

Predicate: TypeAlias = Callable[[JSON], bool]
"""Tells whether a value is valid."""

_NULL = type(None)


MAXIMUM_STEPS = 5_000_000
"""How many checks an object may take: the values of a large object, each held against a hundred alternatives. A
definition and an object of 100 KB can ask for 30 million, and patterns for any number."""
MAXIMUM_ERROR_STEPS = 1_000_000
"""How many steps the search for the errors of an invalid object may take, each of 3 µs at most."""
_ERROR_STEPS, _CHARACTERS_PER_STEP = 4, 16
"""What an error takes, and how much of its message takes one step more: memory, above all."""
_PARTS_PER_STEP = 16
"""How many names or values a schema lists for each step that looking through them takes."""
_MATCHING_PER_STEP = 200
"""How many characters, times instructions of the pattern, a step matches: in 1 µs at worst, and mostly in 0.1 µs."""
_HEAVY = 16
"""How many schemas one value must be held against, beside its own, before anybody counts steps."""
_HEAVY_LIST, _HEAVY_PATTERN = 1000, 1000
"""The same for the values or names that a schema lists, and for the instructions of a pattern."""
LEFT_OUT = value_validation.plain(
    f"further errors were not looked for: finding these took {MAXIMUM_ERROR_STEPS} steps"
).error
"""Stands for the errors that nobody has looked for."""


class Work:
    """The steps that are left for one object."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def is_spent(self) -> bool:
        """Whether no more is to be done."""
        return self.left < 0


class Result:
    """The errors of a value, without duplicates, and how much of it matched, by which alternatives are compared."""

    __slots__ = ("errors", "matches", "work")

    def __init__(self, work: Work) -> None:
        self.errors: dict[str, FieldError] = {}
        self.matches = 0
        self.work = work

    def add(self, violation: Violation | None) -> None:
        """Add an error, unless there is one with the same message, or there are more than are told."""
        if violation is not None:
            self.work.left -= _ERROR_STEPS + len(violation.message) // _CHARACTERS_PER_STEP
            if len(self.errors) <= MAX_ERRORS:
                self.errors.setdefault(violation.message, violation.error)

    def merge(self, other: Result) -> None:
        """Add the errors and matches of another result."""
        for message, error in other.errors.items():
            if len(self.errors) > MAX_ERRORS:
                break
            self.errors.setdefault(message, error)
        self.matches += other.matches


class _Update:
    """An object of an update: whose members are held against the stored ones."""

    __slots__ = ("correlation", "path")

    def __init__(self, correlation: Correlation, path: str) -> None:
        self.correlation = correlation
        self.path = path


_INT_OR_STRING = "x-kubernetes-int-or-string"


class SchemaValidator:
    """One node of a JSON schema, compiled."""

    _inner: Sequence[SchemaValidator] = ()
    """Alternatives and the like that look into a value."""
    has_parts = False
    """Whether it looks into a value."""
    _parts = 1
    """The steps that looking at a value takes in the search for errors."""
    steps = 1
    """The steps that a value takes, without what is in it, and without what follows."""
    enum_steps = 0
    """What it takes besides if it is no text: texts are found by their hashes."""
    pattern_size = 0
    """The instructions of all patterns that a text is matched with."""
    schemas = 1
    """The number of schemas, this one included."""
    heaviest = 0
    """How many schemas, or as much, a value is held against at most, beside its own."""

    def __init__(self, written: JSONObject, *, is_raw: bool = False) -> None:
        """Compile a schema.

        Args:
            written: The schema.
            is_raw: Whether it is as defaults are held against it: formats that are not known count as types, and what
                is an integer or a string may be anything.
        """

        def compiled(inner: JSONObject) -> SchemaValidator:
            return SchemaValidator(inner, is_raw=is_raw)

        def optional(inner: JSON) -> SchemaValidator | None:
            return compiled(inner) if isinstance(inner, dict) else None

        self._types = _types({**written, _INT_OR_STRING: False} if is_raw else written)
        self._format = (written.get("format") or "") if is_raw else _format(written, self._types)
        self._nullable = bool(written.get("nullable"))
        self._enum: list[JSON] = written.get("enum") or []
        self._numbers = _number_bounds(written, self._types)
        self._text = _TextRules(written, self._format)
        self._required: list[str] = written.get("required") or []
        self._bounds = (written.get("minProperties"), written.get("maxProperties"))
        self._sizes = (written.get("minItems"), written.get("maxItems"))
        self._unique = bool(written.get("uniqueItems"))
        self._any_of = [compiled(clause) for clause in written.get("anyOf") or ()]
        self._one_of = [compiled(clause) for clause in written.get("oneOf") or ()]
        self._all_of = [compiled(clause) for clause in written.get("allOf") or ()]
        self._not = optional(written.get("not"))
        self._properties = {
            name: compiled(child) for name, child in sorted((written.get("properties") or {}).items())
        }
        self._additional = optional(written.get("additionalProperties"))
        self._forbids_others = written.get("additionalProperties") is False
        self._items = optional(written.get("items"))
        self._enum_texts = frozenset(allowed for allowed in self._enum if type(allowed) is str)
        self._weigh()
        self.checks: Mapping[type, tuple[Predicate, ...]] = {
            kind: checks for kind in _KINDS if (checks := self._checks(kind)) is not None
        }
        """What a value has to pass to have no errors, by its Python type; a type that is missing is wrong."""
        self.accepts: Predicate = self._predicate()
        """Tells whether a value has no errors."""

    def errors(self, value: JSON, correlation: Correlation | None = None, path: str = "") -> list[FieldError]:
        """The errors of an object, or of what is at a path; those of unchanged values are left out in updates.

        Raises:
            TooMuchWorkError: the object takes more than :data:`MAXIMUM_STEPS` steps.
        """
        if self.heaviest >= _HEAVY:
            self.count_steps(value, Work(MAXIMUM_STEPS), counts_all=False)
        if self.accepts(value):
            return []
        work = Work(MAXIMUM_ERROR_STEPS)
        result = (
            self.validate(value, path, None, work)
            if correlation is None
            else self.validate_update(correlation, path, work)
        )
        errors = list(result.errors.values())
        return [*errors, LEFT_OUT] if work.is_spent else errors

    def _weigh(self) -> None:
        """Find out what it takes at most to hold a value against this schema."""
        clauses = [*self._all_of, *self._any_of, *self._one_of, *([self._not] if self._not else ())]
        children = [*self._properties.values()]
        children += [child for child in (self._additional, self._items) if child is not None]
        lists = len(self._enum), len(self._required)
        self.pattern_size = self._text.pattern_size
        self.enum_steps = lists[0]
        if children or any(lists):
            self._parts = self.steps = 1 + (len(self._properties) + sum(lists)) // _PARTS_PER_STEP
            self.has_parts = bool(children)
        if max(lists) >= _HEAVY_LIST or self.pattern_size >= _HEAVY_PATTERN:
            self.heaviest = _HEAVY_LIST
        for schema in children:
            self.schemas += schema.schemas
            self.heaviest = max(self.heaviest, schema.heaviest)
        if clauses:
            self._weigh_clauses(clauses)

    def _weigh_clauses(self, clauses: list[SchemaValidator]) -> None:
        self._inner = [clause for clause in clauses if clause.has_parts]
        for clause in clauses:
            if not clause.has_parts:
                self.steps += clause.steps
                self.enum_steps += clause.enum_steps
                self.pattern_size += clause.pattern_size
        self.has_parts = self.has_parts or bool(self._inner)
        below = sum(clause.schemas for clause in clauses)
        self.schemas += below
        self.heaviest = max(self.heaviest, below, *(clause.heaviest for clause in clauses))

    def count_steps(self, value: JSON, work: Work, *, counts_all: bool) -> None:
        """Count the steps that a value takes at most; of light schemas only inside alternatives.

        Raises:
            TooMuchWorkError: fewer are left.
        """
        kind = type(value)
        text_steps = self.pattern_size * len(value) // _MATCHING_PER_STEP if kind is str else self.enum_steps
        work.left -= self.steps + text_steps
        if work.is_spent:
            raise TooMuchWorkError
        for clause in self._inner:
            clause.count_steps(value, work, counts_all=True)
        if kind is list and self._items is not None and (counts_all or self._items.heaviest >= _HEAVY):
            for item in value:
                self._items.count_steps(item, work, counts_all=counts_all)
        elif kind is dict:
            for name, member in value.items():
                child = self._properties.get(name, self._additional)
                if child is not None and (counts_all or child.heaviest >= _HEAVY):
                    child.count_steps(member, work, counts_all=counts_all)

    def validate(self, value: JSON, path: str, update: _Update | None, work: Work) -> Result:
        """Validate a value with all its errors; ``update`` is the object or list that it is in, if that is updated."""
        result = Result(work)
        work.left -= self._parts
        if work.left < 0:
            return result
        wrong_type = value_validation.type_violation(
            value, self._types, self._format, path, nullable=self._nullable
        )
        result.add(wrong_type)
        if value is None:
            result.matches += wrong_type is None
            self._check_enum(value, path, result)
            return result
        if self._types or self._format:
            result.matches += 1 + (wrong_type is None)
        self._validate_combinations(value, path, update, result)
        kind = type(value)
        if kind is str:
            self._text.validate(value, path, result)
        elif kind is int or kind is float:
            for violation in self._numbers.violations(value, path):
                result.add(violation)
            result.matches += 2
        elif kind is list:
            self._validate_items(value, path, update, result)
        self._check_enum(value, path, result)
        result.matches += 1
        if kind is dict:
            self._validate_members(value, path, update, result)
            result.matches += 1
        result.matches += 1
        return result

    def validate_update(self, correlation: Correlation, path: str, work: Work) -> Result:
        """Validate a value that has a stored counterpart; it has no errors if it is unchanged."""
        result = self.validate(correlation.value, path, _Update(correlation, path), work)
        if result.errors and correlation.is_unchanged:
            result.errors = {}
        return result

    def _check_enum(self, value: JSON, path: str, result: Result) -> None:
        if not self._enum or (type(value) is str and value in self._enum_texts):
            return
        if type(value) is str or not value_validation.enum_has(self._enum, value):
            result.add(value_validation.not_in_enum(path, value, self._enum))

    def _validate_combinations(self, value: JSON, path: str, update: _Update | None, result: Result) -> None:
        if self._any_of:
            self._validate_any_of(value, path, update, result)
        if self._one_of:
            self._validate_one_of(value, path, update, result)
        if self._all_of:
            self._validate_all_of(value, path, update, result)
        if self._not is not None:
            is_refused = not self._not.validate(value, path, update, result.work).errors
            if is_refused and not result.work.is_spent:
                result.add(value_validation.plain(f"{go_quoted(path)} must not validate the schema (not)"))
        result.matches += 2

    def _validate_any_of(self, value: JSON, path: str, update: _Update | None, result: Result) -> None:
        best: Result | None = None
        for clause in self._any_of:
            found = clause.validate(value, path, update, result.work)
            if not found.errors:
                result.merge(found)
                return
            if best is None or found.matches > best.matches:
                best = found
        if result.work.is_spent:
            return
        message = f"{go_quoted(path)} must validate at least one schema (anyOf)"
        result.add(value_validation.plain(message))
        if best is not None:
            result.merge(best)

    def _validate_one_of(self, value: JSON, path: str, update: _Update | None, result: Result) -> None:
        best: Result | None = None
        first: Result | None = None
        valid = 0
        for clause in self._one_of:
            found = clause.validate(value, path, update, result.work)
            if not found.errors:
                valid, best = valid + 1, None
                first = first or found
            elif not valid and (best is None or found.matches > best.matches):
                best = found
        if valid == 1 and first is not None:
            result.merge(first)
        if valid == 1 or result.work.is_spent:
            return
        problem = f"Found {valid} valid alternatives" if valid else "Found none valid"
        message = f"{go_quoted(path)} must validate one and only one schema (oneOf). {problem}"
        result.add(value_validation.plain(message))
        if best is not None:
            result.merge(best)

    def _validate_all_of(self, value: JSON, path: str, update: _Update | None, result: Result) -> None:
        valid = 0
        for clause in self._all_of:
            found = clause.validate(value, path, update, result.work)
            valid += not found.errors
            result.merge(found)
        if valid != len(self._all_of):
            problem = "" if valid else ". None validated"
            message = f"{go_quoted(path)} must validate all the schemas (allOf){problem}"
            result.add(value_validation.plain(message))

    def _validate_items(self, value: list[JSON], path: str, update: _Update | None, result: Result) -> None:
        if self._items is not None:
            for index, item in enumerate(value):
                if result.work.is_spent:
                    break
                result.merge(
                    _validate_item(self._items, index, item, f"{path}[{index}]", update, work=result.work)
                )
        minimum, maximum = self._sizes
        size = len(value)
        if minimum is not None and size < minimum:
            message = f"{path} in body should have at least {minimum} items"
            result.add(value_validation.invalid_value(path, size, message))
        if maximum is not None and size > maximum:
            result.add(value_validation.too_many_parts(path, size, maximum, "items"))
        if self._unique and not _is_unique(value):
            message = f"{path} in body shouldn't contain duplicates"
            result.add(value_validation.invalid_value(path, "", message))
        result.matches += 2

    def _validate_members(self, value: JSONObject, path: str, update: _Update | None, result: Result) -> None:
        minimum, maximum = self._bounds
        size = len(value)
        if minimum is not None and size < minimum:
            message = f"{path} in body should have at least {minimum} properties"
            result.add(value_validation.invalid_value(path, size, message))
        if maximum is not None and size > maximum:
            result.add(value_validation.too_many_parts(path, size, maximum, "properties"))
        others = [] if self._takes_others else sorted(value.keys() - self._properties.keys())
        for name in others:
            if result.work.is_spent:
                break
            if self._additional is not None:
                found = _validate_member(
                    self._additional, name, value[name], f"{path}.{name}", update, work=result.work
                )
                result.merge(found)
            else:
                message = f"{path}.{name} in body is a forbidden property"
                result.add(value_validation.invalid_value(path, name, message))
        for name, child in self._properties.items():
            if name in value:
                inner = f"{path}.{name}" if path else name
                result.merge(_validate_member(child, name, value[name], inner, update, work=result.work))
        for name in self._required:
            if name not in value and not result.work.is_spent:
                result.add(value_validation.missing(f"{path}.{name}"))

    @property
    def _takes_others(self) -> bool:
        return self._additional is None and not self._forbids_others

    def _predicate(self) -> Predicate:
        find = self.checks.get

        def accepts(value: JSON) -> bool:
            checks = find(type(value))
            if checks is None:
                return False
            for check in checks:  # noqa: SIM110 - all() would double the time
                if not check(value):
                    return False
            return True

        return accepts

    def _checks(self, kind: type) -> tuple[Predicate, ...] | None:
        """What a value of a Python type has to pass; None if the schema takes none of that type."""
        sample = _KINDS[kind]
        checks: list[Predicate] = []
        wrong = value_validation.type_violation(
            sample, self._types, self._format, "", nullable=self._nullable
        )
        if wrong is not None:
            return None
        enum = self._enum
        if kind is _NULL:
            return None if enum else ()
        if kind is float and "integer" in self._types and "number" not in self._types:
            checks.append(value_validation.is_json_integer)
        checks += self._combination_checks()
        checks += self._checks_of_type(kind)
        if enum:
            has_text = self._enum_texts.__contains__
            checks.append(has_text if kind is str else lambda value: value_validation.enum_has(enum, value))
        return tuple(checks)

    def _combination_checks(self) -> list[Predicate]:
        checks: list[Predicate] = [clause.accepts for clause in self._all_of]
        if self._any_of:
            any_of = [clause.accepts for clause in self._any_of]
            checks.append(lambda value: any(accepts(value) for accepts in any_of))
        if self._one_of:
            one_of = [clause.accepts for clause in self._one_of]
            checks.append(lambda value: sum(accepts(value) for accepts in one_of) == 1)
        if self._not is not None:
            refused = self._not.accepts
            checks.append(lambda value: not refused(value))
        return checks

    def _checks_of_type(self, kind: type) -> list[Predicate]:
        if kind is str:
            return self._text.checks()
        if kind in (int, float):
            return self._numbers.checks(is_int=kind is int)
        if kind is list:
            return self._item_checks()
        return self._member_checks() if kind is dict else []

    def _item_checks(self) -> list[Predicate]:
        checks = _size_checks(*self._sizes)
        if self._items is not None:
            item = self._items.accepts
            checks.append(lambda value: all(map(item, value)))
        return [*checks, _is_unique] if self._unique else checks

    def _member_checks(self) -> list[Predicate]:
        checks = _size_checks(*self._bounds)
        if self._required:
            wanted = frozenset(self._required)
            checks.append(lambda value: wanted <= value.keys())
        known = {name: child.checks for name, child in self._properties.items()}
        other: _Checks | None = {} if self._forbids_others else None
        if self._additional is not None:
            other = self._additional.checks
        if known or other is not None:
            checks.append(_members_check(known, other))
        return checks


_Checks: TypeAlias = Mapping[type, tuple[Predicate, ...]]


def _members_check(known: Mapping[str, _Checks], other: _Checks | None) -> Predicate:
    """Compile the check of an object's members; without a call for each, which would double the time."""
    find = known.get

    def members(value: JSONObject) -> bool:
        for name, member in value.items():
            by_type = find(name, other)
            if by_type is not None:
                checks = by_type.get(type(member))
                if checks is None:
                    return False
                for check in checks:
                    if not check(member):
                        return False
        return True

    return members


def _validate_member(
    child: SchemaValidator, name: str, value: JSON, path: str, update: _Update | None, *, work: Work
) -> Result:
    """Validate a member of an object: ``SubPropertyValidator``.

    A member without a stored counterpart is validated with the same update: its own members are then held against those
    of the object that it is in. That is what the API server does.
    """
    found = None if update is None else update.correlation.key(name)
    if update is None or found is None or (update.path == "" and name in ("kind", "apiVersion")):
        return child.validate(value, path, update, work)
    return child.validate_update(found, path, work)


def _validate_item(
    child: SchemaValidator, index: int, value: JSON, path: str, update: _Update | None, *, work: Work
) -> Result:
    """Validate an item of a list: ``SubIndexValidator``."""
    found = None if update is None else update.correlation.index(index)
    if found is None:
        return child.validate(value, path, update, work)
    return child.validate_update(found, path, work)


_KINDS: Mapping[type, JSON] = {str: "", bool: True, int: 1, float: 1.0, list: [], dict: {}, _NULL: None}
"""The Python types of JSON values, each with a value."""


class _TextRules:
    """The constraints of strings: only the first broken one counts, besides the format."""

    def __init__(self, written: JSONObject, format_: str) -> None:
        self._minimum, self._maximum = written.get("minLength"), written.get("maxLength")
        self._pattern: str = written.get("pattern") or ""
        self._format = format_
        self._has_format = formats.FORMATS.get(format_.replace("-", "")) if format_ else None
        self._problem, self._search = "", None
        self.pattern_size = 0
        """How many instructions the pattern has."""
        if self._pattern:
            try:
                compiled = compile_pattern(self._pattern)
                self._search, self.pattern_size = compiled.search, compiled.programsize
            except EvaluationError as error:
                self._problem = f", but pattern is invalid: {error}"

    def validate(self, value: str, path: str, result: Result) -> None:
        result.add(self._constraint(value, path))
        result.matches += 1
        if self._has_format is not None:
            if not self._has_format(value):
                result.add(value_validation.invalid_type(path, self._format, value))
            result.matches += 1

    def _constraint(self, value: str, path: str) -> Violation | None:
        if self._maximum is not None and len(value) > self._maximum:
            message = f"{path} in body should be at most {self._maximum} chars long"
            return value_validation.too_long_text(path, self._maximum, message)
        if self._minimum is not None and len(value) < self._minimum:
            message = f"{path} in body should be at least {self._minimum} chars long"
            return value_validation.invalid_value(path, value, message)
        if self._pattern and not self._matches(value):
            message = f"{path} in body should match '{self._pattern}{self._problem}'"
            return value_validation.invalid_value(path, value, message)
        return None

    def _matches(self, value: str) -> bool:
        return self._search is not None and self._search(value) is not None

    def checks(self) -> list[Predicate]:
        checks = _size_checks(self._minimum, self._maximum)
        if self._pattern:
            checks.append(self._matches)
        return [*checks, self._has_format] if self._has_format is not None else checks


def _size_checks(minimum: int | None, maximum: int | None) -> list[Predicate]:
    checks: list[Predicate] = []
    if minimum is not None:
        checks.append(lambda value: len(value) >= minimum)
    if maximum is not None:
        checks.append(lambda value: len(value) <= maximum)
    return checks


def _is_unique(items: list[JSON]) -> bool:
    return len(set(map(_identity, items))) == len(items)


def _identity(value: JSON) -> Hashable:
    """Something hashable that two values have in common if and only if they are deeply equal, types included."""
    if isinstance(value, dict):
        return dict, frozenset((name, _identity(member)) for name, member in value.items())
    return (list, *map(_identity, value)) if isinstance(value, list) else (type(value), value)


def _types(written: JSONObject) -> tuple[str, ...]:
    if written.get(_INT_OR_STRING):
        return ("integer", "string")
    type_ = written.get("type")
    return (type_,) if type_ else ()


def _format(written: JSONObject, types: tuple[str, ...]) -> str:
    """The format, if it counts: ``StripUnsupportedFormatsPostProcess``."""
    format_: str = written.get("format") or ""
    return format_ if format_ and formats.is_known(types[0] if len(types) == 1 else "", format_) else ""


def _number_bounds(written: JSONObject, types: tuple[str, ...]) -> NumberBounds:
    type_ = types[0] if len(types) == 1 and types[0] in ("integer", "number") else ""
    return NumberBounds(
        type=type_,
        format=_format(written, types) if type_ else "",
        multiple_of=written.get("multipleOf"),
        maximum=written.get("maximum"),
        minimum=written.get("minimum"),
        exclusive_maximum=bool(written.get("exclusiveMaximum")),
        exclusive_minimum=bool(written.get("exclusiveMinimum")),
    )
