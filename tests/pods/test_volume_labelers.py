"""Volume labelers: listed ones, and those of other packages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.volumes import (
    DISK_SOURCES,
    ListedVolumes,
    VolumeLabelError,
    VolumeLabels,
    disk_of,
    load_labeler,
    split_zones,
)

Install: TypeAlias = "Callable[..., None]"

ZONE = "topology.kubernetes.io/zone"
EBS = "awsElasticBlockStore"


def volume(source: str, name: str) -> JSONObject:
    return {"spec": {source: {DISK_SOURCES[source].id_field: name}}}


def listed(*entries: tuple[str, str, dict[str, str]]) -> ListedVolumes:
    return ListedVolumes([VolumeLabels(source, name, labels) for source, name, labels in entries])


@pytest.mark.parametrize("source", DISK_SOURCES)
def test_a_volume_yields_its_disk(source: str) -> None:
    assert disk_of(volume(source, "vol-1")) == (source, "vol-1")


@pytest.mark.parametrize(
    ("document", "disk"),
    [
        ({"spec": {"hostPath": {"path": "/"}}}, None),
        ({"spec": {EBS: None}}, None),
        ({"spec": {EBS: {}}}, (EBS, "")),
        ({"spec": {"gcePersistentDisk": {"pdName": "g"}, EBS: {"volumeID": "a"}}}, (EBS, "a")),
        ({}, None),
        (None, None),
    ],
)
def test_a_volume_may_have_no_disk_or_several(document: JSON, disk: tuple[str, str] | None) -> None:
    assert disk_of(document) == disk


def test_a_listed_disk_has_its_labels_and_others_those_of_the_asterisk() -> None:
    labeler = listed((EBS, "*", {ZONE: "a"}), (EBS, "vol-1", {ZONE: "b"}), ("azureDisk", "vol-2", {}))
    assert asyncio.run(labeler.labels(volume(EBS, "vol-1"))) == {ZONE: "b"}
    assert asyncio.run(labeler.labels(volume(EBS, "vol-2"))) == {ZONE: "a"}
    assert asyncio.run(labeler.labels(volume("azureDisk", "vol-2"))) == {}


@pytest.mark.parametrize("document", [volume(EBS, "vol-2"), volume("cinder", "vol-1"), {"spec": {}}])
def test_an_unlisted_disk_does_not_exist(document: JSONObject) -> None:
    with pytest.raises(VolumeLabelError, match="it is not in the list of volumes"):
        asyncio.run(listed((EBS, "vol-1", {})).labels(document))


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        (
            [("ebs", "*", {})],
            (
                'volumes[0].source: Unsupported value: "ebs": supported values: "awsElasticBlockStore",'
                ' "gcePersistentDisk", "azureDisk", "cinder", "vsphereVolume"'
            ),
        ),
        ([(EBS, "", {})], 'volumes[0].id: Required value: the name of a disk, or "*" for any'),
        ([(EBS, "a", {}), ("cinder", "a", {}), (EBS, "a", {})], 'volumes[2].id: Duplicate value: "a"'),
        (
            [(EBS, "a", {ZONE: "a__"})],
            '[volumes[0].labels[topology.kubernetes.io/zone]: Invalid value: "a__": a valid label must be',
        ),
        (
            [(EBS, "a", {ZONE: "a____b"})],
            (
                'volumes[0].labels[topology.kubernetes.io/zone]: Invalid value: "a____b":'
                ' must be zones separated by "__"'
            ),
        ),
        ([(EBS, "a", {"a b": "c"})], 'volumes[0].labels: Invalid value: "a b": name part must consist of'),
    ],
)
def test_an_invalid_list_of_volumes_is_refused(
    entries: list[tuple[str, str, dict[str, str]]], text: str
) -> None:
    with pytest.raises(ConfigurationError) as fault:
        listed(*entries)
    assert str(fault.value).startswith(text)


@pytest.mark.parametrize(
    ("value", "zones"),
    [
        ("a", ["a"]),
        ("c__a__b__a", ["a", "b", "c"]),
        ("a__ b ", ["a", "b"]),
        ("", None),
        ("a__", None),
        ("a_b", ["a_b"]),
    ],
)
def test_zones_are_sorted_and_unique(value: str, zones: list[str] | None) -> None:
    assert split_zones(value) == zones


PACKAGE = """
class Labeler:
    async def labels(self, volume):
        return {"zone": volume["spec"]["cinder"]["volumeID"]}

CLOUD = Labeler()
NOTHING = object()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of one module, as pip lays it out."""

    def install_package(package: str, *lines: str) -> None:
        module = f"{package}_{tmp_path.name}".replace("-", "_")
        folder = tmp_path / package
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (folder / f"{module}.py").write_text(PACKAGE, "utf-8")
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        text = "\n".join(["[pratique.pods.volumes]", *(line.format(module) for line in lines)])
        (metadata / "entry_points.txt").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install_package


def test_a_package_offers_a_labeler(install: Install) -> None:
    install("acme", "acme-cloud = {}:CLOUD")
    assert asyncio.run(load_labeler("acme-cloud").labels(volume("cinder", "c1"))) == {"zone": "c1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acme-clout", 'labeler "acme-clout" is unknown; did you mean "acme-cloud"?'),
        ("x", 'labeler "x" is unknown; known: acme-cloud, class, missing, nothing'),
        ("missing", 'labeler "missing": AttributeError: '),
        ("nothing", 'labeler "nothing": '),
        ("class", 'labeler "class": '),
    ],
)
def test_an_entry_point_that_is_no_labeler_is_refused(install: Install, name: str, text: str) -> None:
    install(
        "acme", "acme-cloud = {}:CLOUD", "nothing = {}:NOTHING", "class = {}:Labeler", "missing = {}:NONE"
    )
    with pytest.raises(ConfigurationError) as fault:
        load_labeler(name)
    assert str(fault.value).startswith(text)


def test_two_labelers_with_one_name_are_refused(install: Install) -> None:
    install("acme", "cloud = {}:CLOUD")
    install("other", "cloud = {}:CLOUD")
    with pytest.raises(ConfigurationError, match='labeler "cloud": several packages offer one of this name'):
        load_labeler("cloud")


def test_without_packages_no_labeler_is_known() -> None:
    with pytest.raises(ConfigurationError, match='labeler "cloud" is unknown; known: none'):
        load_labeler("cloud")
