"""Selectors of devices, as a real kube-apiserver takes or refuses them for what they may cost."""

from __future__ import annotations

import pytest

from support.object_refusals import causes

TOO_COMPLEX = "spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"


def repeated(expression: str, times: int) -> str:
    """An expression that is evaluated a hundred times so often."""
    outer, inner = (f"[{','.join(['1'] * number)}]" for number in (times, 100))
    return f"{outer}.all(w, {inner}.all(u, {expression}))"


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("device.attributes['d'].name == device.attributes['e'].name", 551),
        ("device.attributes['d'].all(k, k == 'a')", 59),
        ("device.capacity['d'].mem == quantity('1Gi')", 1094),
        ("cel.bind(x, device.attributes['d'], x.a == 'b' || x.exists(k, k == x.c))", 26),
    ],
)
def test_a_selector_has_a_limit_of_cost(expression: str, most: int) -> None:
    def refusal(times: int) -> list[str]:
        selector = {"cel": {"expression": repeated(expression, times)}}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "a"}}
        return causes({**kind, "spec": {"selectors": [selector]}})

    assert refusal(most) == []
    assert refusal(most + 1) == [TOO_COMPLEX]
