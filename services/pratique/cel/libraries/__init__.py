"""The functions that expressions may call, one file for each library.

``operators``, ``conversions`` and ``times`` are the language's own, ``strings``, ``lists``, ``sets`` and ``optionals``
extensions of cel-go, the others Kubernetes'.
"""
