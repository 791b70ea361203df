"""CSI drivers: which driver serves a volume, and the tokens that it wants.

Source: ``plugin/pkg/admission/noderestriction/admission.go`` and, for volumes that Kubernetes once served itself,
``k8s.io/csi-translation-lib/plugins``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import statuses
from pratique.errors import RefusalError
from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.json_values import JSON, JSONObject

_MIGRATED = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "cinder": "cinder.csi.openstack.org",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}


def driver_of_volume(pod: JSONObject, volume: JSONObject, cluster: Cluster) -> str:
    """The driver that serves a volume of a Pod; empty where none does.

    Raises:
        RefusalError: a claim, or the volume that it is bound to, does not exist; 404.
    """
    namespace = str(member(pod, "metadata", "namespace") or "")
    if member(volume, "ephemeral", "volumeClaimTemplate") is not None:
        claim = f"{member(pod, 'metadata', 'name')}-{volume.get('name')}"
        return _driver_of_claim(namespace, claim, cluster)
    if volume.get("persistentVolumeClaim") is not None:
        claim = str(member(volume, "persistentVolumeClaim", "claimName") or "")
        return _driver_of_claim(namespace, claim, cluster)
    return _driver(volume)


def wants_audience(driver: str, audience: str, cluster: Cluster) -> bool:
    """Tell whether a driver wants tokens for an audience.

    Raises:
        RefusalError: there is no such driver; 404.
    """
    found = cluster.get("storage.k8s.io", "csidrivers", driver)
    if found is None:
        raise RefusalError(statuses.not_found("storage.k8s.io", "csidriver", driver))
    requests = member(found, "spec", "tokenRequests")
    wanted = requests if isinstance(requests, list) else ()
    return any((member(request, "audience") or "") == audience for request in wanted)


def _driver_of_claim(namespace: str, name: str, cluster: Cluster) -> str:
    claim = cluster.get("", "persistentvolumeclaims", name, namespace)
    if claim is None:
        raise RefusalError(statuses.not_found("", "persistentvolumeclaim", name))
    bound_to = str(member(claim, "spec", "volumeName") or "")
    if not bound_to:
        return ""
    volume = cluster.get("", "persistentvolumes", bound_to)
    if volume is None:
        raise RefusalError(statuses.not_found("", "persistentvolume", bound_to))
    return _driver(member(volume, "spec"))


def _driver(source: JSON) -> str:
    if member(source, "csi") is not None:
        return str(member(source, "csi", "driver") or "")
    return next((driver for field, driver in _MIGRATED.items() if member(source, field) is not None), "")
