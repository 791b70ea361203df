"""Codes of gRPC, by the names that Go gives them: those of metrics, traces, and Kubernetes' messages."""

from __future__ import annotations

from types import MappingProxyType

import grpc

OK = "OK"
CANCELED = "Canceled"
_ODD = {grpc.StatusCode.OK: OK, grpc.StatusCode.CANCELLED: CANCELED}

NAMES = MappingProxyType(
    {code: _ODD.get(code) or code.name.title().replace("_", "") for code in grpc.StatusCode}
)
"""By code."""
NAMES_BY_NUMBER = MappingProxyType({code.value[0]: name for code, name in NAMES.items()})
"""By its number, as a server's context has it."""
