"""Owner kinds: the collections that an owner reference leads to, by the kind that it names.

Source: ``k8s.io/client-go/restmapper/discovery.go`` and ``k8s.io/apimachinery/pkg/api/meta/multirestmapper.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.eras import is_served_beside
from pratique.errors import InputError
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.kinds import GroupVersionResource, ResourceType
    from pratique.resources import Resources


def owner_collections(
    api_version: str, kind: str, resources: Resources, asked: GroupVersionResource
) -> Sequence[ResourceType]:
    """The collections of a kind in an API server, at least one, each in one of its versions.

    Args:
        api_version: As it is written. Without a version, all versions of the group are meant.
        kind: As it is written. Written all small it is understood, too.
        resources: All that is known.
        asked: What the API server was asked for, which tells what else it serves.

    Raises:
        InputError: it does not serve the kind. The text is what its REST mapper says.
    """
    group, version = _parse(api_version)
    found = {
        each.resource.resource: each
        for each in resources
        if each.served
        and not each.subresource
        and (each.kind.group, each.kind.version) == (group, version or each.kind.version)
        and kind in {each.kind.kind, each.kind.kind.lower()}
        and is_served_beside(resources, each, asked)
    }
    if not found:
        where = f"{group}/{version}" if group else version
        raise InputError(f"no matches for kind {go_quoted(kind)} in version {go_quoted(where)}")
    return tuple(found.values())


def _parse(api_version: str) -> tuple[str, str]:
    """Split it as Go's ``schema.ParseGroupVersion`` does, which lets either part be empty."""
    if api_version.count("/") > 1:
        raise InputError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return group, version
