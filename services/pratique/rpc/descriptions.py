"""What a service hosts, as it tells those who ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pratique.admission.controllers import Controller, Phase
from pratique.admission.rules import Rule
from pratique.admission.v1 import catalogue_service_pb2 as pb
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.handlers import inputs_to_messages, unary_handler
from pratique.rpc.servers import RpcService

if TYPE_CHECKING:
    from pratique.hosting.catalogue import HostedController


def catalogue_service(
    hosted: Iterable[HostedController], phase: Phase, held: RecentInputs[Any] | None = None
) -> RpcService:
    """The service that tells which controllers another one on the same server runs in ``phase``, and what it holds."""
    described = describe_response(hosted, phase)

    async def describe(_request: object, _context: object) -> pb.DescribeResponse:
        if held is None:
            return described
        return pb.DescribeResponse(controllers=described.controllers, held=inputs_to_messages(held))

    return RpcService(
        "pratique.admission.v1.CatalogueService", {"Describe": unary_handler(pb.DescribeRequest, describe)}
    )


def describe_response(hosted: Iterable[HostedController], phase: Phase) -> pb.DescribeResponse:
    """List the controllers that have a half for ``phase``, which is the only one that the service runs."""
    return pb.DescribeResponse(
        controllers=[
            _describe_controller(one.controller, phase)
            for one in hosted
            if (one.handlers.mutate if phase is Phase.MUTATE else one.handlers.validate) is not None
        ]
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
