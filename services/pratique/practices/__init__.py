"""Good practices: what is right with configurations as the API server sees it, and yet unwise.

Each rule is a :class:`~pratique.practices.definitions.Practice` in a file of its group; ``registry`` lists them all,
and ``findings`` runs them. docs/practices.md says which advice of Kubernetes each of them stands for.
"""
