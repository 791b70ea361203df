"""Lists: one document that holds many objects, as ``kubectl get -o yaml`` writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import JSON, json_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.field_errors import Step
    from pratique.source_documents import SourceDocument


def unwrap_lists(documents: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
    """Replace every list (``kind: List``, ``PodList`` and so on) by its items.

    An item without ``kind`` and ``apiVersion`` takes them from its list, as in
    ``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go``.

    Raises:
        InputError: the ``items`` of a list are not a list of objects.
    """
    for document in documents:
        if is_list(document.data):
            yield from unwrap_lists(_items(document))
        else:
            yield document


def is_list(data: JSON) -> bool:
    """True for ``kind: List``, and for every other kind that ends so and has ``items``."""
    kind = data.get("kind")
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in data)


def _items(document: SourceDocument) -> Iterator[SourceDocument]:
    items = document.data.get("items") or []
    if not isinstance(items, list):
        raise document.fault(("items",), f"items must be a list, got {json_type(items)}")
    inherited = {
        "apiVersion": document.data.get("apiVersion"),
        "kind": document.data["kind"].removesuffix("List"),
    }
    for index, item in enumerate(items):
        path: tuple[Step, ...] = ("items", index)
        if not isinstance(item, dict):
            raise document.fault(path, f"items[{index}] must be an object, got {json_type(item)}")
        named = item.get("kind") or item.get("apiVersion")
        yield document.part(item if named else {**item, **inherited}, path)
