"""The functions that expressions may call, one module for each library or group of libraries.

``operators`` and ``conversions`` are CEL's own, ``strings`` and ``lists`` mostly cel-go's extensions, and the others
Kubernetes'.
"""
