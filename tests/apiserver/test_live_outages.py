"""What happens to a live store when the network to the API server is cut, and when the API server forgets or restarts.

No answer may come from objects that are too old, and all is as before once the API server is back, by itself.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import api_servers, local_stacks
from support.api_servers import ApiServer, write_kubeconfig
from support.connection_forwarders import Forwarder
from support.free_ports import free_port
from support.live_stacks import metric, reason, wait_for
from support.local_stacks import Stack

LABEL = "pod-security.kubernetes.io/enforce"
NAMESPACE = "shop"


@pytest.fixture(name="server", scope="module")
def _server(disturbed_server: ApiServer) -> ApiServer:
    disturbed_server.create_namespace(NAMESPACE)
    return disturbed_server


@pytest.fixture(name="network", scope="module")
def _network(server: ApiServer) -> Iterator[Forwarder]:
    with Forwarder(("127.0.0.1", free_port()), [server.port]) as network:
        yield network


def flags(server: ApiServer, network: Forwarder, folder: Path, staleness: str) -> list[str]:
    kubeconfig = write_kubeconfig(server, folder, port=network.port)
    return ["--kubeconfig", str(kubeconfig), "--context", "test", "--cluster-staleness", staleness]


def set_level(server: ApiServer, change: str) -> None:
    done = server.kubectl("label", "--overwrite", "ns", NAMESPACE, LABEL + change)
    assert done.returncode == 0, done.stderr


def check_cut(server: ApiServer, network: Forwarder, stack: Stack, seconds: float) -> None:
    """Cut the network, change a namespace meanwhile, and never see its old state once it was too old."""
    wait_for(lambda: not reason(stack, NAMESPACE))
    network.cut()
    began = time.monotonic()
    set_level(server, "=baseline")
    wait_for(lambda: "of the live cluster were last confirmed" in reason(stack, NAMESPACE))
    while time.monotonic() < began + seconds:
        assert "of the live cluster were last confirmed" in reason(stack, NAMESPACE)
        time.sleep(0.2)
    network.mend()
    while "violates PodSecurity" not in (answer := reason(stack, NAMESPACE)):
        assert "last confirmed" in answer, "a decision by objects that were known to be too old"
        time.sleep(0.02)
    wait_for(lambda: stack.get("/readyz")[0] == 200)
    set_level(server, "-")
    wait_for(lambda: not reason(stack, NAMESPACE))


def test_what_a_silent_api_server_does_not_confirm_is_refused_until_it_answers_again(
    server: ApiServer, network: Forwarder, tmp_path: Path
) -> None:
    with local_stacks.running_alone(*flags(server, network, tmp_path, "3s")) as stack:
        wait_for(lambda: not reason(stack, NAMESPACE))
        server.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "and --cluster-staleness is 3 s" in reason(stack, NAMESPACE))
            wait_for(lambda: stack.get("/readyz")[0] == 503)
            assert "of the live cluster were last confirmed" in stack.get("/readyz")[1]
        finally:
            server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: not reason(stack, NAMESPACE))
        wait_for(lambda: stack.get("/readyz")[0] == 200)
        set_level(server, "=baseline")
        wait_for(lambda: "violates PodSecurity" in reason(stack, NAMESPACE))
        set_level(server, "-")


def test_a_network_that_is_cut_refuses_and_never_shows_the_old_state_again(
    server: ApiServer, network: Forwarder, tmp_path: Path
) -> None:
    with local_stacks.running_alone(*flags(server, network, tmp_path, "3s")) as stack:
        check_cut(server, network, stack, 5)


@pytest.mark.long
def test_every_process_of_a_stack_outlives_a_minute_without_network(
    server: ApiServer, network: Forwarder, tmp_path: Path
) -> None:
    with local_stacks.running(*flags(server, network, tmp_path, "20s"), "--validators", "2") as stack:
        check_cut(server, network, stack, 60)


def test_versions_that_etcd_forgot_and_a_restart_of_the_api_server_lose_no_change(
    server: ApiServer, network: Forwarder, tmp_path: Path, restarts: contextlib.ExitStack
) -> None:
    with local_stacks.running_alone(*flags(server, network, tmp_path, "60s")) as stack:
        assert reason(stack, NAMESPACE) == ""
        lists = metric(stack, "pratique_live_lists_total", resource="namespaces")
        network.cut()
        network.break_connections()
        set_level(server, "=baseline")
        api_servers.compact(server)
        network.mend()
        wait_for(lambda: "violates PodSecurity" in reason(stack, NAMESPACE))
        assert metric(stack, "pratique_live_lists_total", resource="namespaces") > lists
        set_level(server, "-")
        wait_for(lambda: not reason(stack, NAMESPACE))
        restarts.enter_context(api_servers.restarted(server))
        set_level(server, "=restricted")
        wait_for(lambda: 'violates PodSecurity "restricted:latest"' in reason(stack, NAMESPACE))
        set_level(server, "-")
        wait_for(lambda: not reason(stack, NAMESPACE))
