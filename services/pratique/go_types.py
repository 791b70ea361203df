"""Go types, by which some of the API server's messages call an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.json_values import JSON


def go_type(document: JSON) -> str:
    """Name the Go type that an API server would have made of an object: ``*core.Service``, ``<nil>`` for none.

    The package is that of the API group below ``k8s.io/kubernetes/pkg/apis``.
    """
    kind = member(document, "kind")
    if not isinstance(kind, str):
        return "<nil>"
    group, slash, _ = str(member(document, "apiVersion") or "").rpartition("/")
    return f"*{group.partition('.')[0] if slash else 'core'}.{kind}"
