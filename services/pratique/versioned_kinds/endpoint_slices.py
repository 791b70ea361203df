"""EndpointSlices: v1 has fields for the zone and the node that v1beta1 keeps in a map.

Source: ``pkg/apis/discovery/v1beta1/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import changed_items, mapping, present, text, without

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Family

_ZONE = "topology.kubernetes.io/zone"
_HOSTNAME = "kubernetes.io/hostname"


def _to_shared(endpoint_slice: JSONObject) -> JSONObject:
    return changed_items(endpoint_slice, "endpoints", _endpoint_to_shared)


def _endpoint_to_shared(endpoint: JSONObject) -> JSONObject:
    plain = without(endpoint, "topology", "deprecatedTopology", "zone")
    topology = mapping(endpoint.get("topology"), "topology")
    zone = topology.get(_ZONE)
    # One that is not the node's own name is kept: it tells something that nodeName does not.
    told_twice = topology.get(_HOSTNAME) is not None and topology[_HOSTNAME] == endpoint.get("nodeName")
    rest = without(topology, _ZONE, *([_HOSTNAME] if told_twice else []))
    return plain | present(deprecatedTopology=rest or None, zone=zone)


def _from_shared(endpoint_slice: JSONObject) -> JSONObject:
    return changed_items(endpoint_slice, "endpoints", _endpoint_from_shared)


def _endpoint_from_shared(endpoint: JSONObject) -> JSONObject:
    topology = dict(mapping(endpoint.get("deprecatedTopology"), "deprecatedTopology"))
    if endpoint.get("zone") is not None:
        topology[_ZONE] = text(endpoint["zone"], "zone")
    if endpoint.get("nodeName") is not None and not topology.get(_HOSTNAME):
        topology[_HOSTNAME] = text(endpoint["nodeName"], "nodeName")
    plain = without(endpoint, "deprecatedTopology", "zone", "topology")
    return {**plain, "topology": topology} if topology else plain


SLICES: Family = {"discovery.k8s.io/v1": SHARED, "discovery.k8s.io/v1beta1": Form(_to_shared, _from_shared)}
