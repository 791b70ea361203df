"""Rules: what a rule of a role allows.

Source: ``plugin/pkg/auth/authorizer/rbac/rbac.go`` ``RuleAllows`` and ``pkg/apis/rbac/v1/evaluation_helpers.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.authorizers import Attributes
    from pratique.rbac.documents import PolicyRule

_ALL = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule made ready to be asked many times."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    """``pods``, ``pods/log``, ``*/log`` for that subresource of everything, ``*`` for all with all subresources."""
    names: frozenset[str]
    """Of these objects only; empty means of all."""
    urls: frozenset[str]
    url_prefixes: tuple[str, ...]
    """What URLs begin with that the rule writes with a star at their end."""

    def allows(self, asked: Attributes) -> bool:
        """Tell whether the rule allows it. Field and label selectors are not looked at: a rule has none."""
        if not _has(self.verbs, asked.verb):
            return False
        if asked.path:
            return asked.path in self.urls or asked.path.startswith(self.url_prefixes)
        return (
            _has(self.groups, asked.group)
            and self._has_resource(asked.resource, asked.subresource)
            and (not self.names or asked.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if not subresource:
            return _has(self.resources, resource)
        return _has(self.resources, f"{resource}/{subresource}") or f"*/{subresource}" in self.resources


def _has(values: frozenset[str], value: str) -> bool:
    return _ALL in values or value in values


def compile_rule(rule: PolicyRule) -> Rule:
    """Make a rule ready for use."""
    urls = rule.non_resource_urls or ()
    return Rule(
        verbs=frozenset(rule.verbs or ()),
        groups=frozenset(rule.api_groups or ()),
        resources=frozenset(rule.resources or ()),
        names=frozenset(rule.resource_names or ()),
        urls=frozenset(urls),
        url_prefixes=tuple(url.rstrip(_ALL) for url in urls if url.endswith(_ALL)),
    )


def compile_rules(rules: Iterable[PolicyRule]) -> tuple[Rule, ...]:
    """Make rules ready for use."""
    return tuple(map(compile_rule, rules))
