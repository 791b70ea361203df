"""Answer decoders: JSON that a server answered, read as the API server's decoder reads it, and refused in its words.

It is lenient where msgspec is strict: a null member is one that is not there, text that is no UTF-8 is
mended, and YAML is understood. Sources: ``k8s.io/apimachinery/pkg/runtime/serializer/json/json.go`` and
``…/serializer/{recognizer,versioning}``, and Go's ``encoding/json/decode.go``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

from pratique.errors import BadAnswerError
from pratique.json_errors import syntax_error, type_error
from pratique.json_limits import TOO_MUCH, holds_too_much

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON

_YAML_LIMIT = 16 * 1024
"""Bytes up to which an answer that is not JSON is tried as YAML: enough for an error page, and soon done."""

_KIND_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_TOO_DEEP = "invalid character '{' exceeded max depth"
"""Go's limit is 10,000 levels; ours are fewer, and no answer needs ten."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_GO_KINDS = {"str": "string", "int": "number", "float": "number"}
"""What Go calls the kinds of JSON values that msgspec calls otherwise."""

_VALIDATION = re.compile(r"got `(?P<got>\w+)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
_ITEM = re.compile(r"\[[^\]]*\]")

GoTypes: TypeAlias = "Mapping[str, tuple[str, str]]"
"""By path: the Go struct that has the field, and the field's Go type."""

_Document = TypeVar("_Document", bound=msgspec.Struct)


class AnswerDecoder(Generic[_Document]):
    """Reads answers of one kind."""

    def __init__(self, document: type[_Document], kind: str, go_types: GoTypes) -> None:
        """Read answers as ``document``, every member of which may be absent.

        ``kind`` is what Kubernetes calls it; ``go_types`` serve to word what is of another type.
        """
        self._document = document
        self._kind = kind
        self._go_types = go_types
        self._decoder = msgspec.json.Decoder(document)

    def decode(self, body: bytes) -> _Document:
        """Read an answer.

        Raises:
            BadAnswerError: it is not JSON, or a member is of another type. The text is the decoder's.
        """
        if not body.lstrip().startswith(b"{"):
            return self._convert(_outer_yaml(body))
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise self._type_mismatch(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._convert(_mended(body))
        except RecursionError:
            raise _unreadable(_TOO_DEEP) from None

    def _convert(self, data: JSON) -> _Document:
        try:
            return msgspec.convert(data, self._document)
        except msgspec.ValidationError as error:
            raise self._type_mismatch(error) from None

    def _type_mismatch(self, error: msgspec.ValidationError) -> BadAnswerError:
        found = _VALIDATION.search(str(error))
        path = _ITEM.sub("[]", (found and found["path"]) or "")
        if found is None or path not in self._go_types:
            return BadAnswerError(f"json: {error}")
        struct, go_type = self._go_types[path]
        got = _GO_KINDS.get(found["got"], found["got"])
        if struct == self._kind and go_type == "string":
            return _unreadable(f"json: cannot unmarshal {got} into Go struct field .{path} of type string")
        return mismatch(got, f"{struct}.{path.replace('[]', '')}", go_type)


def mismatch(kind: str, field: str, go_type: str) -> BadAnswerError:
    """The error of a member that is of another type."""
    return BadAnswerError(f"json: cannot unmarshal {kind} into Go struct field {field} of type {go_type}")


def _mended(body: bytes) -> JSON:
    """Read JSON that Go reads and msgspec does not: its strings are no valid Unicode."""
    if holds_too_much(body):
        raise BadAnswerError(f"response body holds {TOO_MUCH}")
    fault = syntax_error(body)
    if fault:
        raise _unreadable(fault)
    try:
        text = json.dumps(json.loads(body.decode("utf-8", "replace")), ensure_ascii=False)
    except RecursionError:
        raise _unreadable(_TOO_DEEP) from None
    return json.loads(_LONE_SURROGATE.sub("\ufffd", text))


def _outer_yaml(body: bytes) -> JSON:
    """Read an answer that does not begin as a JSON object does; it must hold one, or nothing."""
    data = _yaml(body) if len(body) <= _YAML_LIMIT else ""
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _unreadable(type_error(data, _KIND_TYPE))
    return data


def _yaml(body: bytes) -> JSON:
    # Here, because only an answer that is not JSON needs it.
    from pratique.yaml_values import YamlFault, read_values  # noqa: PLC0415

    try:
        first = next(read_values(body), None)
    except YamlFault as fault:
        raise BadAnswerError(
            f"error converting YAML to JSON: yaml: line {fault.line}: {fault.problem}"
        ) from None
    return None if first is None else first.value


def _unreadable(reason: str) -> BadAnswerError:
    return BadAnswerError(f"couldn't get version/kind; json parse error: {reason}")
