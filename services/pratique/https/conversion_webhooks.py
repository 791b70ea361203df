"""Conversion webhooks: servers that convert custom resources to other versions, called as kube-apiserver calls them.

Sources: ``k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go``, and ``client.go`` and
``authentication.go`` in ``k8s.io/apiserver/pkg/util/webhook``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import unquote

import msgspec

from pratique.admission.reviews import Deadline
from pratique.apimachinery.decoding import GoTypes, ResponseDecoder, Scheme, TypeMeta
from pratique.apimachinery.errors import CallError, CallTimeoutError, ConversionError
from pratique.apimachinery.field_errors import ROOT, TooManyErrorsError, limited_errors, limited_texts
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_reading import (
    go_kind,
    is_within_structure_limits,
)
from pratique.apimachinery.json_values import (
    JSON,  # msgspec reads the types of fields
    Document,
    JSONObject,
    encode,
    mapping_at,
    member,
)
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.names import check_dns1123_label
from pratique.apimachinery.selectors import validate_labels
from pratique.apimachinery.statuses import aggregate, go_quoted
from pratique.apimachinery.urls import parse_url
from pratique.cluster.api_resources import CRD_GROUP
from pratique.cluster.conversion import PendingConversionError, failed_conversion
from pratique.https.clients import HttpsClients, SessionKey, require_http_library
from pratique.https.requests import HttpRequest, clean_path, response_body, send_with_retries
from pratique.processes.review_threads import estimate_values, work_on_review
from pratique.registry.validation.metadata import validate_annotations

_TIMEOUT_SECONDS = 30
_HTTPS_PORT = 443
_MAX_SESSIONS = 32
"""How many sessions stay open; those of the webhooks that were called first are closed then."""

_HEADERS = (
    ("Accept", "application/json, */*"),
    ("Content-Type", "application/json"),
    ("User-Agent", "kube-apiserver-admission"),
    ("Accept-Encoding", "gzip"),
)
_KIND = "ConversionReview"
_VERSIONS = ("v1", "v1beta1")

MayCall: TypeAlias = Callable[[JSONObject], bool]
"""Tells whether the webhook of a CustomResourceDefinition may be called."""


class _ResultDocument(msgspec.Struct, frozen=True):
    status: str | None = None
    message: str | None = None


class _ConversionResponse(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    converted_objects: tuple[JSON, ...] | None = None
    result: _ResultDocument | None = None


class _ConversionReview(TypeMeta, frozen=True):
    response: _ConversionResponse | None = None


_GO_TYPES: GoTypes = {
    "apiVersion": (_KIND, "string"),
    "kind": (_KIND, "string"),
    "response": (_KIND, "v1.ConversionResponse"),
    "response.uid": ("ConversionResponse", "types.UID"),
    "response.convertedObjects": ("ConversionResponse", "[]runtime.RawExtension"),
    "response.result": ("ConversionResponse", "v1.Status"),
    "response.result.status": ("Status", "string"),
    "response.result.message": ("Status", "string"),
}
_SCHEME = Scheme(CRD_GROUP, _VERSIONS, (_KIND, "CustomResourceDefinition", "CustomResourceDefinitionList"))
_decoder = ResponseDecoder(_ConversionReview, _SCHEME, _GO_TYPES)


class _UnusableAnswerError(Exception):
    """An answer cannot be used; the text is the rest of the API server's, after the kind."""


class HttpsConversionWebhooks:
    """Calls the conversion webhooks of CustomResourceDefinitions, anonymously and within 30 s each."""

    def __init__(self, clients: HttpsClients, may_call: MayCall = lambda _: True) -> None:
        """Call nobody yet.

        Args:
            clients: The sessions.
            may_call: Decides, for each conversion, whether the definition's webhook is called at all.
        """
        self._clients = clients
        self._may_call = may_call
        self._sessions: dict[SessionKey, None] = {}

    async def convert(self, pending: PendingConversionError, until: float | None) -> Document:
        """Have an object converted, and check what has become of it.

        Raises:
            ConversionError: there is no usable answer; the text is the API server's.
        """
        before = pending.before
        if not self._may_call(pending.definition):
            text = "only those of CustomResourceDefinitions that the cluster had from the start are called"
            raise ConversionError(failed_conversion(before, text))
        version = _review_version(pending.definition)
        uid = str(uuid.uuid4())
        try:
            body = await self._call(pending, _encode_review(pending, version, uid), until)
            values = estimate_values(body)
            objects = await work_on_review(values, _converted_objects, body, version, uid)
        except CallError as error:
            raise ConversionError(failed_conversion(before, str(error))) from None
        except _UnusableAnswerError as error:
            raise ConversionError(failed_conversion(before, str(error))) from None
        try:
            return await work_on_review(values, lambda: _limited(_checked_object(pending, objects)))
        except _UnusableAnswerError as error:
            raise ConversionError(f"conversion webhook for {before} returned {error}") from None

    async def close(self) -> None:
        """Close all connections."""
        sessions, self._sessions = self._sessions, {}
        for key in sessions:
            await self._clients.release(key)

    async def _call(self, pending: PendingConversionError, body: bytes, until: float | None) -> bytes:
        config = _client_config(pending.definition)
        authority, path, to_service = _address(config, pending.definition)
        key = SessionKey(_ca_bundle(config), None, to_service)
        url = f"https://{authority}{path}?timeout={_TIMEOUT_SECONDS}s"
        deadline = Deadline.after(_TIMEOUT_SECONDS)
        if until is not None:
            deadline = Deadline(min(deadline.at, until))
        request = HttpRequest(url, authority, body, _HEADERS, ())
        require_http_library()
        self._clients.acquire(key)  # for this call, so that nobody else's closes it meanwhile
        try:
            await self._keep_open(key)
            return response_body(await send_with_retries(self._clients.session(key), request, deadline))
        except CallTimeoutError as error:
            raise CallTimeoutError(f"{error} (Client.Timeout exceeded while awaiting headers)") from None
        finally:
            await self._clients.release(key)

    async def _keep_open(self, key: SessionKey) -> None:
        """Keep a session open for later calls, and the one that is kept for the longest time no more."""
        if key in self._sessions:
            return
        self._clients.acquire(key)
        self._sessions[key] = None
        if len(self._sessions) > _MAX_SESSIONS:
            oldest = next(iter(self._sessions))
            del self._sessions[oldest]
            await self._clients.release(oldest)


def conversion_settings(definition: JSONObject) -> JSONObject:
    """Whom a definition, of v1 or v1beta1, asks for conversions, in the shape of v1's ``spec.conversion.webhook``."""
    written = mapping_at(definition, "spec", "conversion")
    if isinstance(written.get("webhook"), dict):
        return mapping_at(written, "webhook")
    versions = written.get("conversionReviewVersions") or ["v1beta1"]
    return {
        "clientConfig": mapping_at(written, "webhookClientConfig"),
        "conversionReviewVersions": versions,
    }


def _client_config(definition: JSONObject) -> JSONObject:
    return mapping_at(conversion_settings(definition), "clientConfig")


def _review_version(definition: JSONObject) -> str:
    written = conversion_settings(definition).get("conversionReviewVersions")
    versions = written if isinstance(written, list) else ()
    found = next((version for version in versions if version in _VERSIONS), None)
    if found is None:
        raise ConversionError("no supported conversion review versions")
    return str(found)


def _address(config: JSONObject, definition: JSONObject) -> tuple[str, str, bool]:
    """Authority and path of a webhook's URL, and whether its host is a Service."""
    service, url = config.get("service"), config.get("url")
    if isinstance(service, dict):
        name, namespace = (str(service.get(field) or "") for field in ("name", "namespace"))
        if check_dns1123_label(name) or check_dns1123_label(namespace):
            raise CallError("could not get REST client: the Service's name and namespace must be DNS labels")
        port = service.get("port") or _HTTPS_PORT
        if not isinstance(port, int) or isinstance(port, bool):
            raise CallError("could not get REST client: the Service's port must be a number")
        return f"{name}.{namespace}.svc:{port}", clean_path(str(service.get("path") or "")), True
    if not url or not isinstance(url, str):
        name = go_quoted(f"conversion_webhook_for_{member(definition, 'metadata', 'name')}")
        text = f"failed calling webhook {name}: webhook configuration must have either service or URL"
        raise CallError(f"could not get REST client: {text}")
    try:
        parsed = parse_url(url)
    except ValueError as error:
        raise CallError(f"could not get REST client: {error}") from None
    if parsed.scheme != "https" or not parsed.host:
        raise CallError("could not get REST client: the URL must be one of an HTTPS server")
    authority = parsed.host if parsed.host.isascii() else parsed.host.encode("idna").decode()
    return authority, clean_path(unquote(parsed.path)), False


def _ca_bundle(config: JSONObject) -> bytes:
    written = config.get("caBundle") or ""
    try:
        return decode_base64(written).strip() if isinstance(written, str) else b""
    except ValueError as error:
        raise CallError(f"could not get REST client: caBundle: {error}") from None


def _encode_review(pending: PendingConversionError, version: str, uid: str) -> bytes:
    request = {
        "uid": uid,
        "desiredAPIVersion": pending.api_version,
        "objects": [msgspec.Raw(pending.document.raw)],
    }
    # The API server's encoder writes the empty response, too.
    response: JSONObject = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    review = {"kind": _KIND, "apiVersion": f"{CRD_GROUP}/{version}", "request": request, "response": response}
    return msgspec.json.encode(review)


def _converted_objects(body: bytes, version: str, uid: str) -> Sequence[JSON]:
    """The objects of an answer. v1 must name its kind and repeat the uid; v1beta1 need not."""
    review = _decoder.decode(body, version)
    found, wanted = review.group_version_kind, GroupVersionKind(CRD_GROUP, version, _KIND)
    response = review.response
    if version == "v1" and found != wanted:
        raise _UnusableAnswerError(f"expected webhook response of {wanted}, got {found}")
    if response is None:
        raise _UnusableAnswerError("no response provided")
    if version == "v1" and (response.uid or "") != uid:
        raise _UnusableAnswerError(
            f"expected response.uid={go_quoted(uid)}, got {go_quoted(response.uid or '')}"
        )
    result = response.result or _ResultDocument()
    if result.status != "Success":
        status = f"response.result.status was '{result.status or ''}', not 'Success'"
        raise _UnusableAnswerError(result.message or status)
    return response.converted_objects or ()


def _limited(converted: JSONObject) -> Document:
    """A document of an object that is no larger and no deeper than what is reviewed may be."""
    try:
        raw = encode(converted)
    except RecursionError:
        raw = b""
    if not raw or not is_within_structure_limits(raw):
        raise _UnusableAnswerError("invalid object: it has too many levels or values")
    document = Document.from_raw(raw)
    try:
        _ = document.data
    except msgspec.ValidationError:
        raise _UnusableAnswerError("invalid object: it has a number out of the range of float64") from None
    return document


def _checked_object(pending: PendingConversionError, objects: Sequence[JSON]) -> JSONObject:
    """The converted object with the metadata that it had, but for labels and annotations."""
    if len(objects) != 1:
        raise _UnusableAnswerError(f"{len(objects)} objects, expected 1")
    converted, before = objects[0], pending.before
    if not isinstance(converted, dict):
        raise _UnusableAnswerError(f"invalid object at index 0: it is {go_kind(converted)}, not an object")
    api_version, kind = (str(converted.get(field) or "") for field in ("apiVersion", "kind"))
    at_index = "invalid object at index 0: invalid"
    if api_version != pending.api_version:
        text = f"groupVersion (expected {pending.api_version}, received {api_version})"
        raise _UnusableAnswerError(f"{at_index} {text}")
    if kind != before.kind:
        raise _UnusableAnswerError(f"{at_index} kind (expected {before.kind}, received {kind})")
    original = pending.document.data
    _check_same(original, converted)
    try:
        return {**converted, "metadata": _restored_metadata(original, converted)}
    except _UnusableAnswerError as error:
        raise _UnusableAnswerError(f"invalid metadata: {error}") from None


def _check_same(original: JSONObject, converted: JSONObject) -> None:
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        had, has = (_text(member(document, "metadata", field)) for document in (original, converted))
        if had != has:
            raise _UnusableAnswerError(f"invalid object: must have the same {name}: {had} != {has}")


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _restored_metadata(original: JSONObject, converted: JSONObject) -> JSONObject:
    if "metadata" not in converted:
        raise _UnusableAnswerError("missing metadata in converted object")
    answered = converted["metadata"]
    if not isinstance(answered, dict):
        raise _UnusableAnswerError(f"invalid metadata of type {_go_type(answered)} in converted object")
    restored = original.get("metadata", {})
    if not isinstance(restored, dict):
        raise _UnusableAnswerError(f"invalid metadata of type {_go_type(restored)} in input object")
    restored = {name: value for name, value in restored.items() if name not in {"labels", "annotations"}}
    for field in ("labels", "annotations"):
        if answered.get(field) is not None:
            had = mapping_at(original, "metadata").get(field)
            restored[field] = _checked_texts(field, answered[field], had)
    return restored


def _checked_texts(field: str, answered: JSON, had: JSON) -> Mapping[str, str]:
    """Labels or annotations of an answer; they must be valid if they changed."""
    if not isinstance(answered, dict):
        raise _UnusableAnswerError(
            f"invalid metadata.{field} of type {_go_type(answered)} in converted object"
        )
    if had is not None and not isinstance(had, dict):
        raise _UnusableAnswerError(f"invalid metadata.{field} of type {_go_type(had)} in original object")
    for key, value in answered.items():
        if not isinstance(value, str):
            text = f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object"
            raise _UnusableAnswerError(text)
    if answered != (had or {}):
        texts = _errors_of_texts(field, answered)
        if texts:
            raise _UnusableAnswerError(aggregate(texts))
    return answered


def _errors_of_texts(field: str, answered: JSONObject) -> list[str]:
    """What is wrong with labels or annotations. kube-apiserver tells all of it, which may be a hundred megabytes."""
    metadata = ROOT / "metadata"
    try:
        with limited_errors():
            errors = (
                validate_labels(answered, metadata / "labels")
                if field == "labels"
                else validate_annotations(answered, metadata / "annotation")
            )
        return [text for text, _ in limited_texts(errors)]
    except TooManyErrorsError as error:
        return [str(error)]


_GO_TYPE_NAMES: Mapping[type, str] = {
    bool: "bool",
    dict: "map[string]interface {}",
    float: "float64",
    int: "int64",
    list: "[]interface {}",
    str: "string",
}


def _go_type(value: JSON) -> str:
    """How Go prints the type of a decoded JSON value."""
    return _GO_TYPE_NAMES.get(type(value), "<nil>")
