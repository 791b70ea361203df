"""Paths, modes and owners of files in volumes.

Source: ``validateLocalDescendingPath``, ``ValidateLocalNonReservedPath``, ``validateKeyToPath`` and their like in
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject

_MAX_MODE, _MAX_ID = 0o777, 2**31 - 1
_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_ID_MESSAGE = f"must be between 0 and {_MAX_ID}, inclusive"


def validate_id(value: JSON, path: FieldPath) -> list[FieldError]:
    """Validate the number of a user or group, if there is one: ``IsValidUserID``."""
    return [] if value is None or 0 <= value <= _MAX_ID else [invalid(path, value, _ID_MESSAGE)]


def validate_mode(mode: JSON, path: FieldPath) -> list[FieldError]:
    """Validate the permissions of a file, if there are any."""
    return [] if mode is None or 0 <= mode <= _MAX_MODE else [invalid(path, mode, _MODE_MESSAGE)]


def validate_file_defaults(source: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the permissions and the owner that files of a volume have by default."""
    errors = []
    if (mode := source.get("defaultMode")) is not None:
        errors += validate_mode(mode, path / "defaultMode")
    if (user := source.get("defaultUser")) is not None:
        errors += validate_id(user, path / "defaultUser")
    return errors


def validate_no_backsteps(text: str, path: FieldPath) -> list[FieldError]:
    """Refuse a path that leads up: ``validatePathNoBacksteps``."""
    return [invalid(path, text, "must not contain '..'")] if ".." in text.split("/") else []


def validate_descending_path(text: str, path: FieldPath) -> list[FieldError]:
    """Validate a path inside a volume: ``validateLocalDescendingPath``; an empty one is none."""
    errors = [invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    return errors + validate_no_backsteps(text, path)


def validate_file_path(text: str, path: FieldPath) -> list[FieldError]:
    """A file of a volume, whose name may not start with two dots: ``ValidateLocalNonReservedPath``."""
    errors = validate_descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(invalid(path, text, "must not start with '..'"))
    return errors


def validate_key_paths(items: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate the files that keys become: ``validateKeyToPath``."""
    errors = []
    for index, item in enumerate(items):
        errors += validate_key_path(item, path / index)
    return errors


def validate_key_path(item: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the file that one key becomes: ``validateKeyToPath``."""
    text = item.get("path", "")
    errors = [required(path / field) for field in ("key", "path") if not item.get(field)]
    errors += validate_file_path(text, path / "path")
    if (mode := item.get("mode")) is not None:
        errors += validate_mode(mode, path / "mode")
    return errors if item.get("user") is None else errors + validate_id(item["user"], path / "user")
