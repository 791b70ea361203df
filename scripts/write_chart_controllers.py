#!/usr/bin/env python3
"""Write what the Helm chart knows of the admission controllers, from the catalogue.

    .venv/bin/python scripts/write_chart_controllers.py >deploy/helm/pratique/files/controllers.yaml

Of each controller: whether it is on by default, what it looks up in which service, and the rules of the webhooks that
call it. The chart makes roles and webhooks of it for the chain that its values name.
"""

from __future__ import annotations

import sys

import msgspec
import yaml

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller, Phase
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import built_in_resources
from pratique.configuration.loading import Configurations
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.cluster_roles import PHASES_OF_SERVICES, FollowedResources, controllers_of
from pratique.hosting.webhook_rules import rules_of_chain

_CHANGED_BY_CONFIGURATION = {
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
}


def description(controller: Controller) -> JSONObject:
    """Describe one controller."""
    rules = {"mutating": MUTATE, "validating": VALIDATE}
    described: JSONObject = {
        "name": controller.name,
        "default": controller.default,
        "looksUp": _looked_up(controller),
        "rules": {name: _rules(controller, phases) for name, phases in rules.items()},
    }
    if controller.name in _CHANGED_BY_CONFIGURATION:
        described["configured"] = True
    if controller.commits_quota or not controller.hosted:
        described["affects"] = True
    return described


def _looked_up(controller: Controller) -> JSONObject:
    """What it looks up, by service and group."""
    known = built_in_resources()
    found: JSONObject = {}
    for service in PHASES_OF_SERVICES:
        if controllers_of(service, [controller]) or (service == "frontdoor" and controller.skip_looks_up):
            followed = FollowedResources.of_service(service, [controller], Configurations(), known)
            found[service] = {group: [*resources] for group, resources in followed.resources.items()}
    return found


def _rules(controller: Controller, phases: frozenset[Phase]) -> JSON:
    return msgspec.json.decode(msgspec.json.encode(rules_of_chain([controller], Configurations(), phases)))


def text() -> str:
    """The whole file."""
    known = [
        controller
        for controller in load_catalogue()
        if controller.phases & BOTH and controller.name not in load_catalogue().origins
    ]
    always = FollowedResources.of_service("frontdoor", (), Configurations(), built_in_resources()).resources
    document = {
        "frontdoor": {group: [*resources] for group, resources in always.items()},
        "controllers": [description(controller) for controller in known],
    }
    head = "# Generated from the catalogue by scripts/write_chart_controllers.py; do not edit it.\n"
    return head + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120)


if __name__ == "__main__":
    sys.stdout.write(text())
