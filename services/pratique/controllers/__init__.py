"""The admission controllers: one file or folder each, with both handlers side by side and a ``CONTROLLER``.

``pratique.hosting.catalogue`` finds them here. A new controller needs no registration, only a place in the chain's
order.
"""
