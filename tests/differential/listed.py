"""Differences that ``docs/differences.md`` argues, so that they are no news: what each side says, in patterns."""

from __future__ import annotations

import dataclasses
import re

from differential.comparison import Difference


@dataclasses.dataclass(frozen=True, slots=True)
class ListedDifference:
    """Patterns by which a difference is recognized; each has to match the whole text."""

    shown: str
    """What the page says of it, word for word."""
    real: str
    """What the API server says, or has at that place."""
    ours: str
    """What we say; ``{name}`` stands for what the group ``name`` of ``real`` has matched."""
    path: str = ""
    """The place of the difference, in an object."""

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is this one."""
        real = re.fullmatch(self.real, str(difference.real), re.DOTALL)
        if real is None or not re.fullmatch(self.path, difference.path):
            return False
        ours = self.ours
        for name, value in real.groupdict().items():
            ours = ours.replace(f"{{{name}}}", re.escape(value))
        return re.fullmatch(ours, str(difference.ours), re.DOTALL) is not None


_FAILED_OPEN = r"alpha\.image-policy\.k8s\.io/failed-open"
_ALLOWED = "200 "

LISTED = (
    ListedDifference(
        "`alpha.image-policy.k8s.io/failed-open` is stored",
        real="None",
        ours="true",
        path=rf"metadata\.annotations\.{_FAILED_OPEN}",
    ),
    ListedDifference(
        "`alpha.image-policy.k8s.io/failed-open` is stored",
        real="None",
        ours=rf"\{{'{_FAILED_OPEN}': 'true'\}}",
        path=r"metadata\.annotations",
    ),
    ListedDifference(
        'is not authorized to request tokens for audience "vault"',
        real=r'(?P<what>.* is forbidden: )(?P<node>\S+) is not authorized to request tokens for audience "(?P<a>\S*)"',
        ours=r'{what}audience "{a}" not found in pod spec volume, {node} is not authorized to request tokens for this'
        " audience",
    ),
    ListedDifference(
        "pod update requires features InPlacePodVerticalScalingInitContainers",
        real=r"403 pods .* is forbidden: pod update requires features InPlacePodVerticalScalingInitContainers which are"
        " not available on node .*",
        ours=_ALLOWED,
    ),
    ListedDifference(
        "found no matching overload for '_&&_' applied to '(string, bool)'",
        real=r".*expected type 'bool' but found '[^']+'.*",
        ours=r".*found no matching overload for '_(&&|\|\|)_' applied to '\([^']+\)'.*",
    ),
    ListedDifference(
        "no viable alternative at input",
        real=r"(?P<before>.*ERROR: <input>:\d+:\d+: Syntax error: )mismatched input '[^']+' expecting [^\n]+"
        r"(?P<after>\n.*)",
        ours=r"{before}no viable alternative at input '[^\n]+{after}",
    ),
    ListedDifference(
        "undefined field 'other'",
        real=r".*expected type of field '(?P<field>\w+)' is '' but provided type is '\w+'.*",
        ours=r".*undefined field '{field}'.*",
    ),
    ListedDifference(
        "spec.ports[1].nodePort: Duplicate value: 30080",
        real=r".*spec\.ports\[(?P<n>\d+)\]\.nodePort: Duplicate value: \d+.*",
        ours=r".*spec\.ports\[{n}\]: Duplicate value: \{.*",
    ),
    ListedDifference(
        "spec.healthCheckNodePort: Invalid value: -2147483648",
        real=r"422 .* is invalid: spec\.healthCheckNodePort: Invalid value: -?\d+: must be between 1 and 65535,"
        " inclusive",
        ours=_ALLOWED,
    ),
    ListedDifference(
        "this cluster is not configured for dual-stack services",
        real=r"(422 )?(?P<what>Service .* is invalid: )\[?spec\.ipFamilyPolicy: .*: this cluster is not configured for"
        " dual-stack services.*",
        ours=rf"{_ALLOWED}|(422 )?{{what}}.*",
    ),
    ListedDifference(
        "conversion webhook for <kind> returned invalid object: must have the same UID",
        real=r"500 (conversion webhook for \S+, Kind=\S+ (failed|returned).*|Object 'Kind' is missing in .*)",
        ours=_ALLOWED,
    ),
    ListedDifference(
        "expression of type 'object.self.cargo'",
        real=r".*compilation failed: ERROR: .*selfType\d+\b.*",
        ours=r".*compilation failed: ERROR: .*object\.self\b.*",
    ),
    ListedDifference(
        "defaults of a CustomResourceDefinition",
        real=r".*spec\.validation\.openAPIV3Schema\.[^:]+\.default: Invalid value: .*",
        ours=r".*spec\.validation\.openAPIV3Schema\.properties.*",
    ),
)
"""All of them."""


def is_listed(difference: Difference) -> bool:
    """Whether the page argues a difference."""
    return any(listed.covers(difference) for listed in LISTED)
