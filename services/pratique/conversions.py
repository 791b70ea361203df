"""Conversions: one object in another version of its API.

A webhook that asks for ``matchPolicy: Equivalent`` sees an object in the version that its rules name, whatever the
version of the request. Most versions of a kind have the same fields, so that the object's type is all that changes;
those that differ are in :mod:`pratique.versioned_kinds`.
Sources: ``k8s.io/apiserver/pkg/admission/conversion.go`` ``ConvertToGVK``, ``pkg/apis/*/*/conversion.go``, and for
custom resources ``k8s.io/apiextensions-apiserver/pkg/apiserver/conversion``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.custom_resources import GROUP, RESOURCE
from pratique.errors import ConversionError, InputError
from pratique.json_values import Document, JSONObject, member
from pratique.kinds import kind_of
from pratique.resources import built_in

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.kinds import GroupVersionKind, GroupVersionResource
    from pratique.versioned_kinds.forms import Family

__all__ = ["ConversionError", "convert"]


def convert(
    document: Document, resource: GroupVersionResource, kind: GroupVersionKind, cluster: Cluster
) -> Document:
    """Give an object as another kind that is stored in the same collection.

    Args:
        document: The object; the null document stays what it is.
        resource: A collection that it belongs in, in any version.
        kind: What it is to be.
        cluster: Holds the CustomResourceDefinition that says how custom resources are converted.

    Raises:
        ConversionError: that cannot be done; the text says why, and holds nothing of the object.
    """
    if document.is_null:
        return document
    data = document.data
    try:
        before = kind_of(data)
    except InputError as error:
        raise ConversionError(str(error)) from None
    if before == kind:
        return document
    if built_in().for_resource(resource) is None:
        _check_strategy(before, resource, cluster)
        changed = data
    else:
        changed = _convert_built_in(data, before, kind)
    return Document.from_data({**changed, "apiVersion": kind.api_version, "kind": kind.kind})


def _convert_built_in(data: JSONObject, before: GroupVersionKind, after: GroupVersionKind) -> JSONObject:
    if before.kind != after.kind:
        raise ConversionError(f"unable to convert {before} to {after}: they are different kinds")
    # Most requests need no conversion: the families are there for those that do.
    from pratique.versioned_kinds.families import family_of  # noqa: PLC0415

    families = [family_of(kind.kind, kind.api_version) for kind in (before, after)]
    for family in families:
        if family is not None:
            return _by_way_of_shared(data, before, after, family)
    return data


def _by_way_of_shared(
    data: JSONObject, before: GroupVersionKind, after: GroupVersionKind, family: Family
) -> JSONObject:
    source, target = family.get(before.api_version), family.get(after.api_version)
    if source is None or target is None:
        raise ConversionError(f"unable to convert {before} to {after}: this conversion is not supported")
    return target.from_shared(source.to_shared(data))


def _check_strategy(before: GroupVersionKind, resource: GroupVersionResource, cluster: Cluster) -> None:
    """Refuse custom resources that are converted by a webhook of their own: conversion webhooks are not called."""
    definition = cluster.get(GROUP, RESOURCE, f"{resource.resource}.{resource.group}")
    strategy = member(definition, "spec", "conversion", "strategy") or "None"
    if strategy != "None":
        raise ConversionError(
            f"conversion webhook for {before} failed: conversion webhooks are not supported"
        )
