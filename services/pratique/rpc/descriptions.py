"""The CatalogueService: describes the controllers and inputs of another service on the same server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pratique.admission.controllers import Controller, Phase
from pratique.admission.rules import Rule
from pratique.admission.v1 import catalogue_service_pb2 as pb
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.handlers import inputs_to_messages, unary_handler
from pratique.rpc.servers import RpcService


def catalogue_service(controllers: Iterable[Controller], phase: Phase, held: RecentInputs[Any]) -> RpcService:
    """Return the service that describes the controllers that run in ``phase``, and the ``held`` inputs."""
    descriptions = [_describe_controller(controller, phase) for controller in controllers]

    async def describe(_request: object, _context: object) -> pb.DescribeResponse:
        return pb.DescribeResponse(controllers=descriptions, held=inputs_to_messages(held))

    return RpcService(
        "pratique.admission.v1.CatalogueService", {"Describe": unary_handler(pb.DescribeRequest, describe)}
    )


def _describe_controller(controller: Controller, phase: Phase) -> pb.ControllerDescription:
    return pb.ControllerDescription(
        name=controller.name,
        phases=[pb.PHASE_MUTATE if phase is Phase.MUTATE else pb.PHASE_VALIDATE],
        rules=[_rule_to_message(rule) for rule in controller.rules],
        summary=controller.summary,
    )


def _rule_to_message(rule: Rule) -> pb.Rule:
    return pb.Rule(
        operations=rule.operations,
        api_groups=rule.api_groups,
        api_versions=rule.api_versions,
        resources=rule.resources,
        scope=rule.scope or "",
    )
