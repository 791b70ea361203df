"""Virtual resources: reviews of who somebody is and what they may do, which are answered and never stored.

Source: ``pkg/kubeapiserver/admission/exclusion/resources.go``.
"""

from __future__ import annotations

VIRTUAL_RESOURCES = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Groups and resources that neither webhooks nor policies are asked about, lest a broken one lock everybody out."""
