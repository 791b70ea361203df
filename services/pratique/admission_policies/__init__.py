"""Admission policies: the CEL policies of an API server, compiled once and decided for each review.

:class:`pratique.admission_policies.validating.ValidatingPolicies` is ValidatingAdmissionPolicy whole. Matching,
parameters, match conditions and variables are the same for MutatingAdmissionPolicy and stand in files of their own.
"""
