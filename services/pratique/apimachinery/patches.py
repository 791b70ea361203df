"""JSON Patch as the API server applies it.

The API server uses ``gopkg.in/evanphx/json-patch.v4`` (``patch.go``), which departs from RFC 6902:

- ``add``, ``replace`` and ``test`` without a value mean null.
- ``replace`` adds a missing member, and accepts only an object or array for the whole document.
- ``add`` and ``remove`` cannot change the whole document, and ``move`` and ``copy`` cannot copy it.
- Indexes may be negative, and may have a sign or leading zeros.
- A path loses everything before its first slash, and a ``~`` that escapes nothing stays.
- ``move`` may put a value into itself, because the source is removed first.
- ``copy`` is limited by :data:`COPY_LIMIT`.

So each operation is resolved here: the paths, the copies, and the errors, in that library's words. The one change that
is left, of a member or item of a single object or array, is where RFC 6902 and that library agree, and the library
``jsonpatch`` makes it. Values pass through it uncopied: it would copy them member by member, which takes longer than
all the rest, and its own ``copy`` lets 18 operations turn 21 bytes into megabytes.

Two deviations remain: ``test`` compares numbers by type and value, not by spelling (``1`` is not ``1.0``, but ``1e2``
is ``100.0``), and where the Go library crashes (a ``test`` or ``replace`` of the whole document without a value), the
operation fails.

::

    PratiqueError
    ├── PatchDecodeError    the text is not a JSON Patch
    └── PatchError          the patch does not fit the document
        └── PatchTestError  a ``test`` operation failed
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import jsonpatch
import msgspec

from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.json_reading import (
    MAX_LEVELS,
    TOO_MANY_VALUES,
    has_too_many_values,
    syntax_error,
    type_error,
)
from pratique.apimachinery.json_values import (
    JSON,
    Document,
    JSONObject,
    TextSizes,
    decode,
    encode,
    escape,
    unescape,
)

COPY_LIMIT = 3 * 1024 * 1024
"""How many bytes the ``copy`` operations of a patch may add: the API server's ``JSONPatchMaxCopyBytes``."""


_TOO_DEEP = "exceeded max depth"
"""Go's error message. Go stops at 10,000 levels, Python below 1,000."""


class PatchDecodeError(PratiqueError):
    """A text is not a JSON Patch. The message is that of Go's ``encoding/json``."""


class PatchError(PratiqueError):
    """A JSON Patch does not fit the document. The message is that of the API server's library."""


class PatchTestError(PatchError):
    """A ``test`` operation found another value."""


def decode_patch(raw: bytes) -> list[JSONObject]:
    """Decode a JSON Patch; ``null`` is the empty patch.

    As in the API server, decoding checks only the outer form: an unknown ``op`` fails when it is applied.

    Raises:
        PatchDecodeError: the text is not JSON or not an array of objects, or, unlike in the API server, it holds more
            values than any review may.
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
    """Apply operations in order, until one fails.

    Neither the document nor the operations are changed. The result shares unchanged parts with the document, and
    values with the operations.

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
    """Apply operations to a document, and check that the result can be encoded.

    Operations can nest values too deeply together though none of them does alone.

    Raises:
        PatchError: an operation does not fit, or the result is too deep to be encoded.
    """
    operations = tuple(operations)
    data = apply_patch(document.data, operations)
    try:
        # What adds few levels to a text within the limits can be encoded, which is then left to who needs the text.
        shallow = document.is_shallow and all(map(_adds_few_levels, operations))
        patched = Document.from_data(data, shallow=shallow).after(document)
        if not shallow:
            patched.raw  # noqa: B018 - encoded once, and remembered for sending
    except RecursionError:
        raise PatchError(_TOO_DEEP) from None
    return patched


_PLAIN_KINDS = frozenset({"add", "remove", "replace", "test"})
_SHORT_BYTES = 4096
"""The longest value whose levels are estimated. Encoding a longer one may take as long as encoding all."""


def _adds_few_levels(operation: JSONObject) -> bool:
    """Tell whether what an operation adds can be encoded, and certainly has no more levels than allowed.

    Raises:
        Exception: its value cannot be encoded.
    """
    kind, path = operation.get("op"), operation.get("path")
    if kind not in _PLAIN_KINDS or not isinstance(path, str):
        return False
    written = encode(operation.get("value"))
    levels = path.count("/") + written.count(b"{") + written.count(b"[")
    return len(written) <= _SHORT_BYTES and levels <= MAX_LEVELS


class _UnfitError(Exception):
    """A key or index does not fit its container; the operation adds the path to the message."""


class _PatchTarget(NamedTuple):
    """A member or item, which may not exist yet, in a container that the draft owns."""

    container: JSON
    key: str

    def get(self) -> JSON:
        """The value; None if a member is missing."""
        if isinstance(self.container, dict):
            return self.container.get(self.key)
        return self.container[_item_index(self.container, self.key)]

    def add(self, value: JSON) -> None:
        """Set a member, or insert an item."""
        is_item = isinstance(self.container, list)
        token = str(_insertion_index(self.container, self.key)) if is_item else escape(self.key)
        _change(jsonpatch.AddOperation, "add", token, self.container, value)

    def replace(self, value: JSON) -> None:
        """Set a member, or an item that must exist."""
        if isinstance(self.container, list):
            token = str(_item_index(self.container, self.key))
            _change(jsonpatch.ReplaceOperation, "replace", token, self.container, value)
        else:
            self.add(value)

    def remove(self) -> None:
        """Remove a member or item that must exist."""
        if isinstance(self.container, list):
            token = str(_item_index(self.container, self.key))
        elif self.key in self.container:
            token = escape(self.key)
        else:
            raise _UnfitError(f"Unable to remove nonexistent key: {self.key}: missing value")
        _change(jsonpatch.RemoveOperation, "remove", token, self.container)


class _Uncopied:
    """A value that ``jsonpatch`` takes as it is, because its deep copy is the value itself."""

    __slots__ = ("_value",)

    def __init__(self, value: JSON) -> None:
        self._value = value

    def __deepcopy__(self, _memo: JSONObject) -> JSON:
        return self._value


def _change(
    operation_type: type[jsonpatch.PatchOperation], op: str, token: str, container: JSON, value: JSON = None
) -> None:
    """Have ``jsonpatch`` change one member or item of a container, given by a token of RFC 6901."""
    operation_type({"op": op, "path": f"/{token}", "value": _Uncopied(value)}).apply(container)


def _check_depth(value: JSON) -> None:
    """Raise RecursionError if a value is too deep to be encoded. Encoding the result reports other faults."""
    if isinstance(value, dict | list):
        with contextlib.suppress(TypeError, ValueError):
            encode(value)


class _Draft:
    """A document while it is patched: containers are copied before their first change, and only then."""

    def __init__(self, document: JSON) -> None:
        self.document = document.copy() if isinstance(document, dict | list) else document
        self.copied_bytes = 0
        self.sizes = TextSizes()
        # The identities of containers that only the draft references. The identity of a freed container can only pass
        # to another container of the draft, because those of the original document stay alive.
        self._own: set[int] = set()
        self._is_shared = False

    def find(self, path: str) -> _PatchTarget | None:
        """Walk to the target of a path; None if its container does not exist."""
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
        """Allow a value to be in two places: from now on it, and everything it holds, is copied before a change.

        So copying a value costs nothing, and only the parts of it that are changed later are duplicated.
        """
        self._own.discard(id(value))
        self._is_shared = True

    def _owned(self, container: JSON, key: str | int) -> JSON:
        child = container[key]
        if isinstance(child, dict | list) and id(child) not in self._own:
            child = container[key] = child.copy()
            if self._is_shared:
                # The values it holds are now in two containers: in this copy, and in its original.
                self._own.difference_update(map(id, child.values() if isinstance(child, dict) else child))
            self._own.add(id(child))
        return child


def _step_key(container: JSON, step: str) -> str | int | None:
    """The key of an existing child on a path; None if there is none."""
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
    value = operation.get("value")
    _check_depth(value)
    try:
        place.add(value)
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
        _check_depth(value)
        draft.document = value.copy()
        return
    place = draft.find(path)
    if place is None:
        raise PatchError(f"replace operation does not apply: doc is missing path: {path}: missing value")
    _check_depth(value)
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
        target.add(value)
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
        target.add(value)
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
    """Read ``path`` or ``from``; some operations have one error for all its faults."""
    value = operation.get(name)
    if isinstance(value, str):
        return value
    if value is None:
        absent = "operation missing path field" if name == "path" else "operation, missing from field"
        fault = fault or f"{absent}: missing value"
    raise PatchError(f"{kind} operation failed to decode {name}: {fault or type_error(value, 'string')}")


def _charge_copy(draft: _Draft, value: JSON) -> None:
    """Charge the size of a copy against the limit."""
    if value is None:
        return
    draft.copied_bytes += draft.sizes.size_of(value)
    if draft.copied_bytes > COPY_LIMIT:
        raise PatchError(
            "Unable to complete the copy, the accumulated size increase of copy is"
            f" {draft.copied_bytes}, exceeding the limit {COPY_LIMIT}"
        )


def _item_index(items: list[JSON], key: str) -> int:
    """The index of an existing item; negative indexes count from the end."""
    index = _parse_index(key)
    if not -len(items) <= index < len(items):
        raise _UnfitError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % len(items)


_MAX_PLAIN_DIGITS = 18
"""Any number of that many digits is an int64, so that nothing is left to check."""


def _insertion_index(items: list[JSON], key: str) -> int:
    """The index of a new item; ``-`` and ``-1`` append it."""
    if key == "-":
        return len(items)
    try:
        index = _parse_index(key)
    except _UnfitError as error:
        raise _UnfitError(f"value was not a proper array index: '{key}': {error}") from None
    places = len(items) + 1
    if not -places <= index < places:
        raise _UnfitError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index % places


def _parse_index(key: str) -> int:
    if key.isascii() and key.isdigit() and len(key) <= _MAX_PLAIN_DIGITS:
        return int(key)
    try:
        return parse_int64(key, "Atoi")
    except ValueError as error:
        raise _UnfitError(str(error)) from None
