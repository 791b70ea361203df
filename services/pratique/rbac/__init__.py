"""RBAC: who may do what, by the Roles and bindings of a cluster.

``documents`` reads the objects; ``rules`` says what a rule allows, ``roles`` and ``aggregation`` which rules a role
has, ``bindings`` to whom it is granted; ``compilations`` keeps what was made of them; ``authorizers`` decides.
"""
