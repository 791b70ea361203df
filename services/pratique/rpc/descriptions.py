"""The CatalogueService: describes the controllers and inputs of another service on the same server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import grpc

from pratique.admission.controllers import Controller, Phase, QuotaAmount
from pratique.admission.rules import Rule
from pratique.admission.v1 import catalogue_service_pb2 as pb
from pratique.admission.v1 import catalogue_service_pb2_grpc
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.handlers import IncomingRequest, inputs_to_messages, unary_handler
from pratique.rpc.servers import RpcService

QuotaUsage: TypeAlias = Mapping[tuple[str, ...], QuotaAmount]
"""How much of each quota is used, by namespace, name of the ResourceQuota, and resource."""
_MAX_USAGE = 1000
"""The most quota usage that is believed: as much as a service of ours reports."""


def catalogue_service(
    controllers: Iterable[Controller],
    phase: Phase,
    held: RecentInputs[Any],
    quota_usage: Callable[[], QuotaUsage],
) -> RpcService:
    """Return the service that describes the controllers that run in ``phase``, the ``held`` inputs, and quotas."""
    descriptions = [_describe_controller(controller, phase) for controller in controllers]

    async def describe(request: IncomingRequest[pb.DescribeRequest], _context: object) -> pb.DescribeResponse:
        usage = quota_usage() if request.message.quota_usage else {}
        return pb.DescribeResponse(
            controllers=descriptions,
            held=inputs_to_messages(held),
            quota_usage=[
                pb.QuotaUsage(
                    namespace=namespace,
                    resource_quota=name,
                    resource=resource,
                    used=amount.used,
                    hard=amount.hard,
                )
                for (namespace, name, resource), amount in usage.items()
            ],
        )

    return RpcService(
        "pratique.admission.v1.CatalogueService", {"Describe": unary_handler(pb.DescribeRequest, describe)}
    )


async def fetch_quota_usage(channel: grpc.aio.Channel, seconds: float) -> QuotaUsage:
    """Fetch how much of each quota is used, as a service knows; empty if it keeps none.

    Raises:
        AioRpcError: the service does not answer within ``seconds``, or has no catalogue.
    """
    catalogue = catalogue_service_pb2_grpc.CatalogueServiceStub(channel)
    response = await catalogue.Describe(pb.DescribeRequest(quota_usage=True), timeout=seconds)
    return {
        (usage.namespace, usage.resource_quota, usage.resource): QuotaAmount(
            usage.used, usage.hard if usage.HasField("hard") else None
        )
        for usage in itertools.islice(response.quota_usage, _MAX_USAGE)
    }


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
