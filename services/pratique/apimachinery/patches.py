"""Patches: JSON Patch as the API server applies it, where the library ``jsonpatch`` does the ordinary work.

The API server uses ``gopkg.in/evanphx/json-patch.v4``, which departs from RFC 6902: ``replace`` creates a
missing member, indices may be negative, a missing value is null, a path loses what stands before its first
slash, and some more. Each operation is therefore put into the standard's words first, or refused in the words
of that library (``patch.go``), and then carried out by ``jsonpatch`` on the one object or array that it changes.
Values are not given to it: ``jsonpatch`` copies whatever it is given, member by member, which takes it longer than all
the rest, and 18 ``copy`` operations make megabytes of 21 bytes.

Not kept: ``test`` compares numbers by type and value, not by spelling (``1`` is not ``1.0``, but ``1e2`` is
``100.0``). Where that library crashes (a ``test`` or ``replace`` of the whole document without a value), the
operation fails.

::

    PratiqueError
    ├── PatchDecodeError    the text is no JSON Patch
    └── PatchError          it is one, and does not fit the document
        └── PatchTestError  because of a ``test`` in it
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jsonpatch
import msgspec

from pratique.apimachinery.diff import diff, identical
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_reading import TOO_MANY_VALUES, has_too_many_values, syntax_error, type_error
from pratique.apimachinery.json_values import (
    JSON,
    Document,
    JSONObject,
    TextSizes,
    decode,
    encode,
    escape,
    pointer,
    unescape,
)
from pratique.apimachinery.statuses import go_quoted

__all__ = [
    "COPY_LIMIT",
    "PatchDecodeError",
    "PatchError",
    "PatchTestError",
    "apply_patch",
    "decode_patch",
    "diff",
    "patch_document",
    "pointer",
]

COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the ``copy`` operations of one patch may add: the API server's ``JSONPatchMaxCopyBytes``."""


_TOO_DEEP = "exceeded max depth"
"""Go's words. It stops at 10,000 levels, Python at less than 1,000."""


class PatchDecodeError(PratiqueError):
    """A text is no JSON Patch. Says why as Go's ``encoding/json`` does."""


class PatchError(PratiqueError):
    """A JSON Patch does not fit the document. Says why as the API server's library does."""


class PatchTestError(PatchError):
    """A ``test`` operation finds another value than it says."""


def decode_patch(raw: bytes) -> list[JSONObject]:
    """Read a JSON Patch; ``null`` is the empty one.

    As in the API server, only the outer form is looked at: an unknown ``op`` is noticed when it is applied.

    Raises:
        PatchDecodeError: the text is not JSON, or no array of objects; or, which the API server would let pass, it
            holds more values than any review.
    """
    if has_too_many_values(raw):
        raise PatchDecodeError(f"the patch holds {TOO_MANY_VALUES}")
    try:
        operations = decode(raw.decode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        raise PatchDecodeError(syntax_error(raw) or str(error)) from None
    except RecursionError:
        raise PatchDecodeError(_TOO_DEEP) from None
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise PatchDecodeError(type_error(operations, "jsonpatch.Patch"))
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise PatchDecodeError(type_error(operation, "jsonpatch.Operation"))
    return [operation or {} for operation in operations]


def apply_patch(document: JSON, operations: Iterable[JSONObject]) -> JSON:
    """Apply operations one after another; the first that fails ends it.

    Neither the document nor the operations are changed: the result is a new document that shares with the old
    one what the patch leaves alone, and with the operations what they bring.

    Raises:
        PatchError: an operation does not fit.
    """
    draft = _Draft(document)
    for operation in operations:
        kind = operation.get("op")
        apply = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if apply is None:
            raise PatchError(f"Unexpected kind: {kind if isinstance(kind, str) else 'unknown'}")
        try:
            apply(draft, operation)
        except RecursionError:
            raise PatchError(_TOO_DEEP) from None
    return draft.document


def patch_document(document: Document, operations: Iterable[JSONObject]) -> Document:
    """Make the document that operations make of another one, and see that it can be written.

    Operations that are harmless alone can nest without end together, which would be noticed much later.

    Raises:
        PatchError: an operation does not fit, or the whole has more levels than can be written.
    """
    patched = Document.from_data(apply_patch(document.data, operations))
    try:
        patched.raw  # noqa: B018 - written once, and kept for whoever is sent it
    except RecursionError:
        raise PatchError(_TOO_DEEP) from None
    return patched


class _UnfitError(Exception):
    """A key, path or value cannot be used; the operation at hand says of what."""


class _PatchTarget(NamedTuple):
    """A member or item, which may not exist yet, in a container that belongs to the draft alone."""

    container: JSON
    key: str

    def get(self) -> JSON:
        """Read the value; None where a member is missing."""
        if isinstance(self.container, dict):
            return self.container.get(self.key)
        return self.container[_item_index(self.container, self.key)]

    def put(self, value: JSON) -> None:
        """Set a member, or insert an item."""
        step = self._new_step()
        self._run("add", step)
        self._fill(step, value)

    def share(self, value: JSON) -> None:
        """The same with a value that is the document's already, and is not copied."""
        if isinstance(self.container, list):
            self.container.insert(_insertion_index(self.container, self.key), value)
        else:
            self.container[self.key] = value

    def replace(self, value: JSON) -> None:
        """Set a member, or an item that must exist."""
        is_item = isinstance(self.container, list)
        step = self._step() if is_item else escape(self.key)
        self._run("replace" if is_item else "add", step)
        self._fill(step, value)

    def remove(self) -> None:
        """Take away a member or item that must exist."""
        self._run("remove", self._step())

    def _step(self) -> str:
        """What the standard calls a member or item that must exist."""
        if isinstance(self.container, list):
            return str(_item_index(self.container, self.key))
        if self.key not in self.container:
            raise _UnfitError(f"Unable to remove nonexistent key: {self.key}: missing value")
        return escape(self.key)

    def _new_step(self) -> str:
        """What it calls a member, or where an item is to be inserted."""
        if isinstance(self.container, list):
            return str(_insertion_index(self.container, self.key))
        return escape(self.key)

    def _run(self, kind: str, step: str) -> None:
        operation = {"op": kind, "path": f"/{step}", "value": None}
        jsonpatch.JsonPatch.operations[kind](operation).apply(self.container)

    def _fill(self, step: str, value: JSON) -> None:
        """Put the value where ``jsonpatch`` has made room for it: of one that it is given, it would make a copy.

        Raises:
            RecursionError: it is too deep to be written.
        """
        if isinstance(value, dict | list):
            # What else is wrong with it is told by whoever writes it.
            with contextlib.suppress(TypeError, ValueError):
                encode(value)
        if isinstance(self.container, list):
            self.container[int(step)] = value
        else:
            self.container[self.key] = value


class _Draft:
    """A document while it is being patched: what is changed is copied first, and only once."""

    def __init__(self, document: JSON) -> None:
        self.document = document.copy() if isinstance(document, dict | list) else document
        self.copied_bytes = 0
        self.sizes = TextSizes()
        # Identities of containers that belong to the draft alone. A freed one's identity can only pass to a
        # container that the draft makes, because those of the original document are alive all the time.
        self._own: set[int] = set()
        self._is_shared = False

    def find(self, path: str) -> _PatchTarget | None:
        """Walk to the container of what a path names; None where there is none."""
        _, *steps = path.split("/")
        if not steps:
            return None
        container = self.document
        for step in map(unescape, steps[:-1]):
            key = _step_key(container, step)
            if key is None:
                return None
            container = self._owned(container, key)
        return _PatchTarget(container, unescape(steps[-1])) if isinstance(container, dict | list) else None

    def disown(self, value: JSON) -> None:
        """Let a value be in two places: wherever it is changed from here on, it is copied first, as is what it holds.

        So nothing else is copied because of it, and of what may be megabytes only what is changed.
        """
        self._own.discard(id(value))
        self._is_shared = True

    def _owned(self, container: JSON, key: str | int) -> JSON:
        child = container[key]
        if isinstance(child, dict | list) and id(child) not in self._own:
            child = container[key] = child.copy()
            if self._is_shared:
                # What it holds is now in two containers: in this one, and in the one that it was copied from.
                self._own.difference_update(map(id, child.values() if isinstance(child, dict) else child))
            self._own.add(id(child))
        return child


def _step_key(container: JSON, step: str) -> str | int | None:
    """The key of an existing child on the way to a place; None where there is none."""
    if isinstance(container, dict):
        return step if step in container else None
    if not isinstance(container, list):
        return None
    try:
        return _item_index(container, step)
    except _UnfitError:
        return None


def _add(draft: _Draft, operation: JSONObject) -> None:
    path = _pointer_of(operation, "path", "add", "missing value")
    place = draft.find(path)
    if place is None:
        raise PatchError(f'add operation does not apply: doc is missing path: "{path}": missing value')
    try:
        place.put(operation.get("value"))
    except _UnfitError as error:
        raise PatchError(f"error in add for path: '{path}': {error}") from None


def _remove(draft: _Draft, operation: JSONObject) -> None:
    path = _pointer_of(operation, "path", "remove", "missing value")
    place = draft.find(path)
    if place is None:
        raise PatchError(f'remove operation does not apply: doc is missing path: "{path}": missing value')
    try:
        place.remove()
    except _UnfitError as error:
        raise PatchError(f"error in remove for path: '{path}': {error}") from None


def _replace(draft: _Draft, operation: JSONObject) -> None:
    path = _pointer_of(operation, "path", "replace")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            # Go prints %!w(<nil>) where it wraps an error that is none.
            raise PatchError("replace operation value must be object or array: %!w(<nil>)")
        draft.document = jsonpatch.ReplaceOperation(operation | {"path": ""}).apply(None)
        return
    place = draft.find(path)
    if place is None:
        raise PatchError(f"replace operation does not apply: doc is missing path: {path}: missing value")
    try:
        place.replace(value)
    except _UnfitError:
        raise PatchError(
            f"replace operation does not apply: doc is missing key: {path}: missing value"
        ) from None


def _move(draft: _Draft, operation: JSONObject) -> None:
    source = _pointer_of(operation, "from", "move")
    place = draft.find(source)
    if place is None:
        raise PatchError(f"move operation does not apply: doc is missing from path: {source}: missing value")
    try:
        value = place.get()
        place.remove()
    except _UnfitError as error:
        raise PatchError(f"error in move for path: '{place.key}': {error}") from None
    path = _pointer_of(operation, "path", "move")
    target = draft.find(path)
    if target is None:
        raise PatchError(
            f"move operation does not apply: doc is missing destination path: {path}: missing value"
        )
    try:
        target.share(value)
    except _UnfitError as error:
        raise PatchError(f"error in move for path: '{path}': {error}") from None


def _copy(draft: _Draft, operation: JSONObject) -> None:
    source = _pointer_of(operation, "from", "copy")
    place = draft.find(source)
    if place is None:
        raise PatchError(f"copy operation does not apply: doc is missing from path: {source}: missing value")
    try:
        value = place.get()
    except _UnfitError as error:
        raise PatchError(f"error in copy for from: '{source}': {error}") from None
    path = _pointer_of(operation, "path", "copy", "missing value")
    draft.disown(value)
    target = draft.find(path)
    if target is None:
        raise PatchError(
            f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        )
    _charge_copy(draft, value)
    try:
        target.share(value)
    except _UnfitError as error:
        raise PatchError(f"error while adding value during copy: {error}") from None


def _test(draft: _Draft, operation: JSONObject) -> None:
    path = _pointer_of(operation, "path", "test")
    place = draft.find(path) if path else None
    if path and place is None:
        raise PatchError(f"test operation does not apply: is missing path: {path}: missing value")
    try:
        actual = place.get() if place else draft.document
    except _UnfitError as error:
        raise PatchError(f"error in test for path: '{path}': {error}") from None
    if not identical(actual, operation.get("value")):
        raise PatchTestError(f"testing value {path} failed: test failed")


_OPERATIONS: dict[str, Callable[[_Draft, JSONObject], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer_of(operation: JSONObject, name: str, kind: str, fault: str = "") -> str:
    """Read ``path`` or ``from``; some operations report every fault of it alike."""
    value = operation.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        absent = "operation missing path field" if name == "path" else "operation, missing from field"
        fault = fault or f"{absent}: missing value"
    raise PatchError(f"{kind} operation failed to decode {name}: {fault or type_error(value, 'string')}")


def _charge_copy(draft: _Draft, value: JSON) -> None:
    """Keep account of what copies add."""
    if value is None:
        return
    draft.copied_bytes += draft.sizes.of(value)
    if draft.copied_bytes > COPY_LIMIT:
        raise PatchError(
            "Unable to complete the copy, the accumulated size increase of copy is"
            f" {draft.copied_bytes}, exceeding the limit {COPY_LIMIT}"
        )


_INTEGER = re.compile(r"[+-]?[0-9]+")
_LARGEST_INT = 2**63 - 1
_LONGEST_INT = 4000
"""Digits that Python is willing to read; Go refuses from 20 on, unless they are zeros."""


def _item_index(items: list[JSON], key: str) -> int:
    """The index of an existing item; negative ones count from the end."""
    index = _parse_int(key)
    if not -len(items) <= index < len(items):
        raise _UnfitError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % len(items)


def _insertion_index(items: list[JSON], key: str) -> int:
    """The index that a new item will have; ``-`` and ``-1`` are behind the last."""
    if key == "-":
        return len(items)
    try:
        index = _parse_int(key)
    except _UnfitError as error:
        raise _UnfitError(f"value was not a proper array index: '{key}': {error}") from None
    places = len(items) + 1
    if not -places <= index < places:
        raise _UnfitError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % places


def _parse_int(key: str) -> int:
    """Read an integer as Go's ``strconv.Atoi``."""
    if not _INTEGER.fullmatch(key):
        raise _UnfitError(f"strconv.Atoi: parsing {go_quoted(key)}: invalid syntax")
    number = int(key) if len(key) <= _LONGEST_INT else _LARGEST_INT + 1
    if not -_LARGEST_INT - 1 <= number <= _LARGEST_INT:
        raise _UnfitError(f"strconv.Atoi: parsing {go_quoted(key)}: value out of range")
    return number
