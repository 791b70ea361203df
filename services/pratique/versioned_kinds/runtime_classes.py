"""RuntimeClasses: v1alpha1 has a ``spec``. Source: ``pkg/apis/node/v1alpha1/conversion.go``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import mapping, present, text, without

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Family


def _to_shared(runtime_class: JSONObject) -> JSONObject:
    spec = mapping(runtime_class.get("spec"), "spec")
    return without(runtime_class, "spec", "handler", "overhead", "scheduling") | present(
        handler=text(spec.get("runtimeHandler"), "runtimeHandler"),
        overhead=spec.get("overhead"),
        scheduling=spec.get("scheduling"),
    )


def _from_shared(runtime_class: JSONObject) -> JSONObject:
    spec = present(
        runtimeHandler=text(runtime_class.get("handler"), "handler"),
        overhead=runtime_class.get("overhead"),
        scheduling=runtime_class.get("scheduling"),
    )
    return without(runtime_class, "spec", "handler", "overhead", "scheduling") | {"spec": spec}


CLASSES: Family = {
    "node.k8s.io/v1": SHARED,
    "node.k8s.io/v1beta1": SHARED,
    "node.k8s.io/v1alpha1": Form(_to_shared, _from_shared),
}
