"""PodSecurityPolicies: what a policy fills in at a Pod, and what it refuses.

Source: ``pkg/security/podsecuritypolicy`` of 1.24, the last release that had it.
"""
