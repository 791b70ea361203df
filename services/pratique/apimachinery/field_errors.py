"""Field errors: validation errors of single fields, worded as the API server words them.

Source: ``k8s.io/apimachinery/pkg/util/validation/field/{errors,path}.go``. Compound values print as JSON.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_values import JSON, go_json
from pratique.apimachinery.statuses import StatusCause, aggregate, go_quoted

Step: TypeAlias = str | int
"""A step into an object: the name of a member or the index of an item."""


class FieldErrorKind(enum.Enum):
    """The kind of an error: the reason of its Status cause, and the start of its message."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    TOO_FEW = ("FieldValueTooFew", "Too few")
    TOO_SHORT = ("FieldValueTooShort", "Too short")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        self.text = text


_WITHOUT_VALUE = frozenset(
    {
        FieldErrorKind.REQUIRED,
        FieldErrorKind.FORBIDDEN,
        FieldErrorKind.TOO_LONG,
        FieldErrorKind.TOO_SHORT,
        FieldErrorKind.INTERNAL,
    }
)


class MapKey(str):
    """A step of a path that is the key of a map, and prints in brackets."""

    __slots__ = ()


class FieldPath(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The path to a field: ``ROOT / "webhooks" / 0 / "name"`` prints as ``webhooks[0].name``.

    Validation makes a hundred for each object, and reads those of errors alone. So a path only knows the one before
    it, and costs the garbage collector nothing: there can be no cycles.
    """

    start: tuple[Step, ...] = ()
    """The steps that it begins with."""
    before: FieldPath | None = None
    """The path that it is one step longer than; None if it is no longer than its start."""
    step: Step = ""
    """That step."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The member names, item indexes and keys of maps that lead to the field."""
        steps, path = list[Step](), self
        while path.before is not None:
            steps.append(path.step)
            path = path.before
        return (*path.start, *reversed(steps))

    def __truediv__(self, step: Step) -> FieldPath:
        """The field one step further in."""
        return FieldPath((), self, step)

    def key(self, key: str) -> FieldPath:
        """The path to the entry of a map, which prints in brackets: ``values[0][tier]``."""
        return FieldPath((), self, MapKey(key))

    def __eq__(self, other: object) -> bool:
        """Compare the steps."""
        return isinstance(other, FieldPath) and self.steps == other.steps

    def __ne__(self, other: object) -> bool:
        """Compare the steps; without it, a structure's own comparison would ask for identity."""
        return not self == other

    def __hash__(self) -> int:
        """Hash the steps."""
        return hash(self.steps)

    def __str__(self) -> str:
        text = "".join(f"[{step}]" if isinstance(step, int | MapKey) else f".{step}" for step in self.steps)
        return text.removeprefix(".")


ROOT = FieldPath()
"""The path to the object itself."""
NAMELESS = FieldPath(("[]",))
"""The path of errors about the whole object that Go makes of an empty name."""


class GoLiteral(msgspec.Struct, frozen=True):
    """A value that prints as the given text, for values whose Go type shows in the message."""

    text: str


def quoted_text(text: str) -> GoLiteral:
    """A text that prints as a Go ``string``, though its field is of a type of its own and would print as JSON."""
    return GoLiteral(go_quoted(text))


def json_text(text: str) -> GoLiteral:
    """A text that prints as JSON though its field is a Go ``string``, as where a pointer to it is reported."""
    return GoLiteral(go_json(text))


OMITTED = GoLiteral("")
"""Stands for a value that must not appear in the message."""


MAX_ERRORS = 10_000
"""The most errors that are made of one object, which take 10 MB of memory. An API server has no limit, and a list
of 3 MB can have millions."""
MAX_ERROR_CHARACTERS = 8 * 1024 * 1024
"""The most characters of these errors together. Some of them repeat all that would be right, or the whole value."""


class TooManyErrorsError(PratiqueError):
    """An object has more errors than can be told."""

    def __init__(self) -> None:
        super().__init__(
            f"more than {MAX_ERRORS} errors, or than {MAX_ERROR_CHARACTERS} characters of errors"
        )


class _ErrorCount:
    """What has been found of one object."""

    __slots__ = ("characters", "errors")

    def __init__(self) -> None:
        self.errors = 0
        self.characters = 0

    def add(self, errors: int, characters: int) -> None:
        self.errors += errors
        self.characters += characters
        if self.errors > MAX_ERRORS or self.characters > MAX_ERROR_CHARACTERS:
            raise TooManyErrorsError


_count: contextvars.ContextVar[_ErrorCount | None] = contextvars.ContextVar("errors", default=None)


@contextlib.contextmanager
def limited_errors() -> Iterator[None]:
    """Limit the errors that are made in a ``with`` block, which may drop some of them.

    Raises:
        TooManyErrorsError: there are more than :data:`MAX_ERRORS`, or their details are longer than
            :data:`MAX_ERROR_CHARACTERS`.
    """
    token = _count.set(_ErrorCount())
    try:
        yield
    finally:
        _count.reset(token)


def limited_texts(errors: Iterable[FieldError]) -> Iterator[tuple[str, FieldError]]:
    """Print errors, each of which may repeat a long value.

    Raises:
        TooManyErrorsError: they have more than :data:`MAX_ERROR_CHARACTERS`.
    """
    printed = _ErrorCount()
    for error in errors:
        text = str(error)
        printed.add(0, len(text))
        yield text, error


class FieldError(msgspec.Struct, frozen=True):
    """One error of one field. Prints as the API server prints it."""

    kind: FieldErrorKind
    path: FieldPath
    bad_value: JSON | GoLiteral = ""
    detail: str = ""
    origin: str = ""
    """Which check found it, as Kubernetes names it, such as ``minimum`` and ``format=k8s-short-name``."""
    is_covered: bool = False
    """Whether an error by a tag of the field's type may stand in its place: ``MarkCoveredByDeclarative``."""

    def __post_init__(self) -> None:
        """Count the error where errors are limited."""
        count = _count.get()
        if count is not None:
            count.add(1, len(self.detail))

    @property
    def _printed(self) -> tuple[object, ...]:
        # Errors compare by what is printed: neither by who found it nor by what may stand in its place.
        return self.kind, self.path, self.bad_value, self.detail

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldError) and self._printed == other._printed

    def __hash__(self) -> int:
        return hash(self._printed)

    @property
    def body(self) -> str:
        """The message without the field path."""
        text = self.kind.text
        if self.kind not in _WITHOUT_VALUE and self.bad_value is not OMITTED:
            text += f": {_go_value(self.bad_value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    @property
    def cause(self) -> StatusCause:
        """The error as a cause in the details of a Status."""
        return StatusCause(reason=self.kind.reason, message=self.body, field=str(self.path))


def required(path: FieldPath, detail: str = "") -> FieldError:
    """A field is missing or empty: ``field.Required``."""
    return FieldError(FieldErrorKind.REQUIRED, path, detail=detail)


def internal(path: FieldPath, detail: str) -> FieldError:
    """A value cannot be processed: ``field.InternalError``."""
    return FieldError(FieldErrorKind.INTERNAL, path, detail=detail)


def invalid(path: FieldPath, bad_value: JSON | GoLiteral, detail: str) -> FieldError:
    """A value is malformed or out of range: ``field.Invalid``."""
    return FieldError(FieldErrorKind.INVALID, path, bad_value, detail)


def type_invalid(path: FieldPath, bad_value: JSON | GoLiteral, detail: str) -> FieldError:
    """A value has the wrong type: ``field.TypeInvalid``."""
    return FieldError(FieldErrorKind.TYPE_INVALID, path, bad_value, detail)


def not_supported(path: FieldPath, bad_value: JSON | GoLiteral, supported: Iterable[str]) -> FieldError:
    """A value is not among the ``supported`` ones, which are listed in the given order: ``field.NotSupported``."""
    values = ", ".join(go_quoted(value) for value in supported)
    detail = f"supported values: {values}" if values else ""
    return FieldError(FieldErrorKind.NOT_SUPPORTED, path, bad_value, detail)


def duplicate(path: FieldPath, bad_value: JSON | GoLiteral) -> FieldError:
    """A value is a duplicate: ``field.Duplicate``."""
    return FieldError(FieldErrorKind.DUPLICATE, path, bad_value)


def forbidden(path: FieldPath, detail: str) -> FieldError:
    """A well-formed value is not allowed here: ``field.Forbidden``."""
    return FieldError(FieldErrorKind.FORBIDDEN, path, detail=detail)


def not_found(path: FieldPath, bad_value: JSON | GoLiteral) -> FieldError:
    """A field refers to something that does not exist: ``field.NotFound``."""
    return FieldError(FieldErrorKind.NOT_FOUND, path, bad_value)


def too_long(path: FieldPath, maximum_bytes: int) -> FieldError:
    """A string has too many bytes: ``field.TooLong``."""
    unit = "byte" if maximum_bytes == 1 else "bytes"
    return FieldError(FieldErrorKind.TOO_LONG, path, detail=f"may not be more than {maximum_bytes} {unit}")


def too_many(path: FieldPath, actual: int, maximum: int) -> FieldError:
    """A list has too many items: ``field.TooMany``."""
    unit = "item" if maximum == 1 else "items"
    detail = f"must have at most {maximum} {unit}" if maximum >= 0 else "has too many items"
    return FieldError(FieldErrorKind.TOO_MANY, path, actual, detail)


def too_few(path: FieldPath, actual: int, minimum: int) -> FieldError:
    """A list has too few items: ``field.TooFew``."""
    unit = "item" if minimum == 1 else "items"
    return FieldError(FieldErrorKind.TOO_FEW, path, actual, f"must have at least {minimum} {unit}")


def too_short(path: FieldPath, minimum: int) -> FieldError:
    """A string has too few characters: ``field.TooShort``."""
    unit = "character" if minimum == 1 else "characters"
    return FieldError(FieldErrorKind.TOO_SHORT, path, detail=f"must be at least {minimum} {unit}")


def too_many_characters(path: FieldPath, maximum: int) -> FieldError:
    """A string has too many characters: ``field.TooLongCharacters``."""
    unit = "character" if maximum == 1 else "characters"
    return FieldError(FieldErrorKind.TOO_LONG, path, detail=f"may not be more than {maximum} {unit}")


def covered(errors: FieldError | Iterable[FieldError], origin: str = "") -> list[FieldError]:
    """Mark errors that a tag of the field's type finds too, so that only one of the two is told.

    Args:
        errors: The errors of handwritten validation: ``MarkCoveredByDeclarative``.
        origin: Which check found them, if the source says so: ``WithOrigin``. An invalid value without one stands
            beside the error of the tag.
    """
    found = [errors] if isinstance(errors, FieldError) else errors
    return [msgspec.structs.replace(error, origin=origin or error.origin, is_covered=True) for error in found]


def join(errors: Iterable[FieldError]) -> str:
    """Print errors on one line as Kubernetes does: a single one bare, several as ``[a, b]``, without duplicates."""
    return aggregate(str(error) for error in errors)


def _go_value(value: JSON | GoLiteral) -> str:
    if isinstance(value, GoLiteral):
        return value.text
    if isinstance(value, str):
        return go_quoted(value)
    return go_json(msgspec.to_builtins(value))
