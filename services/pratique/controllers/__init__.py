"""The admission controllers: one file each, with both halves side by side and a ``CONTROLLER``.

``pratique.hosting.catalogue`` finds them here; a new file needs no other entry than its place in the chain's order.
"""
