"""The API server that judges is the real one, of the release that it should be."""

from __future__ import annotations

import contextlib

from support.api_servers import ApiServer
from support.kubernetes_programs import version

PODS = "/api/v1/namespaces/default/pods"


def test_it_is_of_the_release_that_its_module_requires(api_server: ApiServer) -> None:
    assert api_server.ask("GET", "/version").body["gitVersion"] == f"v{version()}"


def test_a_user_without_rights_may_do_nothing(api_server: ApiServer) -> None:
    reply = api_server.ask("POST", PODS, {}, user="developer")
    assert reply.code == 403
    assert 'User "developer" cannot create resource "pods"' in reply.body["message"]


def test_an_administrator_can_call_as_any_user(api_server: ApiServer) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "developers"}
    with contextlib.closing(api_server.client(**headers)) as client:
        created = client.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert created["status"]["userInfo"]["username"] == "jane"
    assert "developers" in created["status"]["userInfo"]["groups"]


def test_kubectl_shows_warnings_and_the_audit_log_has_the_request(api_server: ApiServer) -> None:
    pod = (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "twice", "namespace": "default"},'
        '"spec": {"containers": [{"name": "app", "image": "app:1", "env": [{"name": "A"}, {"name": "A"}]}]}}'
    )
    done = api_server.kubectl("create", "--dry-run=server", "--validate=false", "-f", "-", stdin=pod)
    assert done.returncode == 1
    assert 'serviceaccount "default" not found' in done.stderr
    assert any(
        event["objectRef"].get("name") == "twice" and event["responseStatus"]["code"] == 403
        for event in api_server.audit_events()
    )
