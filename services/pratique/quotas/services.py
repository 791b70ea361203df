"""Services: how many there are, and how many node ports and load balancers they take.

Source: ``pkg/quota/v1/evaluator/core/services.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.quantities import Quantity
from pratique.quotas.evaluators import Evaluator
from pratique.quotas.object_counts import count_name
from pratique.quotas.resource_lists import ONE, ZERO
from pratique.reviews import Operation, Review

if TYPE_CHECKING:
    from pratique.demands import ResourceList
    from pratique.json_values import JSON

_COUNT = count_name("", "services")
_SERVICES = "services"
_NODE_PORTS = "services.nodeports"
_LOAD_BALANCERS = "services.loadbalancers"


def usage(service: JSON) -> ResourceList:
    """What a Service uses. Ports are not allocated yet when it is reviewed, so its type and ports tell."""
    kind = member(service, "spec", "type")
    return {
        _COUNT: ONE,
        _SERVICES: ONE,
        _LOAD_BALANCERS: ONE if kind == "LoadBalancer" else ZERO,
        _NODE_PORTS: Quantity(_node_ports(service, kind)),
    }


def _node_ports(service: JSON, kind: JSON) -> int:
    ports = member(service, "spec", "ports")
    if kind not in {"NodePort", "LoadBalancer"} or not isinstance(ports, list):
        return 0
    if kind == "LoadBalancer" and member(service, "spec", "allocateLoadBalancerNodePorts") is False:
        return sum(bool(member(port, "nodePort")) for port in ports)
    return len(ports)


def _is_charged(review: Review) -> bool:
    """Tell of every update, too, because a Service can change its type."""
    return review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_service(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "Service") == "Service"


EVALUATOR = Evaluator(
    group="",
    resource="services",
    is_charged=_is_charged,
    is_kind=_is_service,
    measures={_COUNT, _SERVICES, _NODE_PORTS, _LOAD_BALANCERS}.__contains__,
    usage=usage,
)
