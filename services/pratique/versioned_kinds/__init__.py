"""Kinds whose versions differ in more than their name: one file for each family of them.

Each file says how a version of a kind is led to the form that all its versions can be led to and from, and back:
Kubernetes' internal type, written as JSON. Two versions are converted by way of it. Defaults are no conversion,
but for those that a version gives a meaning to that another one cannot tell.
"""
