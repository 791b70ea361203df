"""Pod templates: the Pods that workloads would make, made as their controllers make them.

A workload is admitted without anybody asking for its Pods: a controller makes them later, and what is refused then is
told in an event that few read. What is here makes one Pod of a template, so that it can be reviewed at once.
"""

from __future__ import annotations

from pratique.pod_templates.fields import field_in_workload
from pratique.pod_templates.made_pods import MadePod, made_pod

__all__ = ["MadePod", "field_in_workload", "made_pod"]
