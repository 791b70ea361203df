"""Label sets: labels written in one line, ``env=test, region=eu``, and how two sets of them go together.

Source: ``k8s.io/apimachinery/pkg/labels/labels.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names
from pratique.errors import InputError
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_label_set(text: str) -> dict[str, str]:
    """Read labels: ``ConvertSelectorToLabelsMap``. The last of several values of a key counts.

    Raises:
        InputError: it is not a list of ``key=value``, or a key or value has the wrong form. The text is Kubernetes'
            own, which names no field.
    """
    return dict(_parse(pair) for pair in text.split(",")) if text else {}


def _parse(pair: str) -> tuple[str, str]:
    parts = pair.split("=")
    if len(parts) != 2:
        raise InputError(f"invalid selector: [{' '.join(parts)}]")
    key, value = parts[0].strip(), parts[1].strip()
    # Kubernetes prints the path to a field that it does not know.
    _refuse("<nil>", key, names.check_qualified_name(key))
    _refuse(f"[{key}]", value, names.check_label_value(value))
    return key, value


def _refuse(where: str, value: str, messages: list[str]) -> None:
    if messages:
        raise InputError(f"{where}: Invalid value: {go_quoted(value)}: {'; '.join(messages)}")


def conflict(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Tell whether two sets give the same key different values."""
    return any(second.get(key, value) != value for key, value in first.items())


def is_subset(labels: Mapping[str, str], allowed: Mapping[str, str]) -> bool:
    """Tell whether all labels are among those allowed; without any, all are."""
    return not allowed or all(allowed.get(key) == value for key, value in labels.items())
