"""Names of compute resources: which are Kubernetes' own, and which somebody added.

Source: ``pkg/apis/core/helper/helpers.go``.
"""

from __future__ import annotations

from pratique import names

_REQUESTS = "requests."


def is_native(name: str) -> bool:
    """Tell whether a resource is Kubernetes' own: it has no domain, or one of ``kubernetes.io``."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether a resource is one that a cluster was extended by: ``example.com/gpu``.

    It must be possible to limit its requests by a quota, which writes ``requests.`` before the name.
    """
    if is_native(name) or name.startswith(_REQUESTS):
        return False
    return not names.check_qualified_name(f"{_REQUESTS}{name}")
