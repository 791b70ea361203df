"""What the API server says of a webhook's ``clientConfig``, and what Pratique says of ``grpc://`` URLs.

Source: ``k8s.io/apiserver/pkg/util/webhook/validation.go``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique import names
from pratique.configurations.urls import Url, parse_url
from pratique.field_errors import FieldError, FieldPath, invalid, required

if TYPE_CHECKING:
    from pratique.configurations.webhooks import ClientConfig, ServiceReference

GRPC_SCHEMES = frozenset({"grpc", "grpcs"})
"""Schemes of URLs that reach a service over gRPC, in the clear or by TLS."""

_HTTPS_FORM = "; desired format: https://host[/path]"
_GRPC_FORM = "; desired format: {scheme}://host:port"
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_AUTHORITY = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?P<port>:[0-9]*)?")


def validate_client_config(client_config: ClientConfig, path: FieldPath) -> list[FieldError]:
    """Check that there is exactly one of ``url`` and ``service``, and that one."""
    url, service = client_config.url, client_config.service
    if url is not None and service is None:
        return _validate_url(url, path / "url")
    if service is not None and url is None:
        return _validate_service(service, path / "service")
    return [required(path, "exactly one of url or service is required")]


def _validate_url(text: str, path: FieldPath) -> list[FieldError]:
    try:
        url = parse_url(text)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_HTTPS_FORM}")]
    if url.scheme in GRPC_SCHEMES:
        form = _GRPC_FORM.format(scheme=url.scheme)
        return _validate_extras(url, path, form) + _validate_grpc_authority(url, path, form)
    errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_HTTPS_FORM}"))
    return errors + _validate_extras(url, path, _HTTPS_FORM)


def _validate_extras(url: Url, path: FieldPath, form: str) -> list[FieldError]:
    errors = []
    if not url.host:
        errors.append(invalid(path, url.host, f"host must be specified{form}"))
    if url.user is not None:
        errors.append(invalid(path, url.user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def _validate_grpc_authority(url: Url, path: FieldPath, form: str) -> list[FieldError]:
    errors = []
    if url.path:
        errors.append(invalid(path, url.path, f"paths are not permitted in a {url.scheme} URL{form}"))
    found = _AUTHORITY.fullmatch(url.host)
    host, port = (found["host"], found["port"]) if found else (url.host, None)
    if url.host and not host.startswith("[") and not _HOST_NAME.fullmatch(host):
        errors.append(invalid(path, host, f"host must be a name or an address{form}"))
    number = (port or "").removeprefix(":")
    if not number:
        errors.append(invalid(path, url.host, f"port must be specified{form}"))
    elif len(number) > 5 or names.check_port_number(int(number)):
        detail = f"port is not valid: must be between 1 and 65535, inclusive{form}"
        errors.append(invalid(path, number, detail))
    return errors


def _validate_service(service: ServiceReference, path: FieldPath) -> list[FieldError]:
    errors = [required(path / field) for field in ("name", "namespace") if not getattr(service, field)]
    port = service.port or 0
    if messages := names.check_port_number(port):
        errors.append(invalid(path / "port", port, f"port is not valid: {', '.join(messages)}"))
    return errors + _validate_service_path(service.path or "", path / "path")


def _validate_service_path(written: str, path: FieldPath) -> list[FieldError]:
    if written in {"", "/"}:
        return []
    if written == "//":
        return [invalid(path, written, "segment[0] may not be empty")]
    errors = []
    if not written.startswith("/"):
        errors.append(invalid(path, written, "must start with a '/'"))
    for index, segment in enumerate(written[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, written, f"segment[{index}] may not be empty"))
            continue
        messages = names.check_dns1123_subdomain(segment)
        errors += [invalid(path, written, f"segment[{index}]: {message}") for message in messages]
    return errors
