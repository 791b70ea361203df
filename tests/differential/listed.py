"""Differences that the documents argue, so that they are no news: what each side says, and where that is argued."""

from __future__ import annotations

import dataclasses

from differential.comparison import Difference


@dataclasses.dataclass(frozen=True, slots=True)
class ListedDifference:
    """Texts by which a difference is recognized."""

    real: str
    """What the API server says has this in it."""
    ours: str
    """What we say has this in it."""
    page: str
    """The page that argues it, below ``docs``."""
    shown: str
    """What that page says, word for word."""
    path: str = ""
    """What the place of the difference begins with."""

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is this one."""
        texts = self.real in str(difference.real) and self.ours in str(difference.ours)
        return texts and difference.path.startswith(self.path)


LISTED = (
    ListedDifference(
        real="None",
        ours="true",
        page="controllers/ImagePolicyWebhook.md",
        shown="the Pod's annotation is stored, as the plugin has it",
        path="metadata.annotations",
    ),
    ListedDifference(
        real="is not authorized to request tokens for audience ",
        ours="not found in pod spec volume, system:node:",
        page="controllers/NodeRestriction.md",
        shown="The audience message is that of 1.33 to 1.36.",
    ),
    ListedDifference(
        real="expected type 'bool' but found",
        ours="found no matching overload for '_&&_' applied to",
        page="cel.md",
        shown="found no matching overload for '_&&_' applied to '(string, bool)'",
    ),
    ListedDifference(
        real="found no matching overload for '",
        ours="undeclared reference to '",
        page="cel.md",
        shown="here it is `undeclared reference to 'trim'`",
    ),
    ListedDifference(
        real="expected type of field 'other' is '' but provided type is 'string'",
        ours="undefined field 'other'",
        page="cel.md",
        shown="`undefined field 'other'`",
    ),
    ListedDifference(
        real=".nodePort: Duplicate value: 3",
        ours="Duplicate value: {",
        page="object-validation.md",
        shown="what only allocation finds: addresses and node ports outside the cluster's ranges or in use",
    ),
    ListedDifference(
        real="hostIP set without hostPort: ",
        ours="[]",
        page="object-validation.md",
        shown="warnings, but for names of pull secrets",
    ),
    ListedDifference(
        real="cannot be handled as a DaemonSet: strconv.ParseInt: parsing ",
        ours="200 ",
        page="object-validation.md",
        shown="that the annotation with a DaemonSet's template generation is a number",
    ),
    ListedDifference(
        real="may specify no more than one IP for each IP family",
        ours="spec.ipFamilies[1]: Duplicate value: ",
        page="object-validation.md",
        shown="that a Service has both addresses of one family",
    ),
    ListedDifference(
        real="invalid character ",
        ours='<secret contents redacted>": unexpected end of JSON input',
        page="object-validation.md",
        shown="where Go's decoder gives up on a Docker configuration that goes on after a text",
    ),
    ListedDifference(
        real=".default: Invalid value: ",
        ours="is invalid: [spec.validation.openAPIV3Schema.properties",
        page="object-validation.md",
        shown="and with fields that the schema does not know",
    ),
    ListedDifference(
        real="'value': '0'",
        ours="None",
        page="object-validation.md",
        shown="a capacity without a value is shown without one",
        path="spec.devices",
    ),
    ListedDifference(
        real="spec.healthCheckNodePort: Invalid value: -2147483648: must be between 1 and 65535, inclusive",
        ours="200 ",
        page="object-validation.md",
        shown="what only allocation finds: addresses and node ports outside the cluster's ranges",
    ),
)
"""All of them."""


def is_listed(difference: Difference) -> bool:
    """Whether a page argues a difference."""
    return any(listed.covers(difference) for listed in LISTED)
