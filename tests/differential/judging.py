"""The real side: a kube-apiserver that decides, and others of the same storage that show what admission is asked.

One of them calls only webhooks, and the first of these remembers its AdmissionReview and denies, so that nothing comes
after it. That webhook is there for requests of one group only, whose name is taken out again. The third server has no
plugins: it tells what storing an object makes of it, and what is refused without admission.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from differential.custom_resources import CONVERTING
from differential.image_reviews import BACKEND, review_images
from differential.marker_policies import markers, watching_parameters
from differential.pairs import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Answer,
    Request,
    Setup,
    User,
    World,
    made,
    resource_of,
)
from differential.webhooks import BEHAVIOURS
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.hosting.catalogue import load_catalogue
from support.api_clients import Client, Reply
from support.api_servers import AUDIT_POLICY, ApiServer, running, running_etcd
from support.webhook_servers import WebhookServer, denied, serve

_RECORDED = "recorded"
_RECORDER = "00-recorder"
_RECORD = "/record"
"""Webhooks are called in the order of their configurations' names."""
_IDENTITIES: dict[User, tuple[str, tuple[str, ...]]] = {
    User.ADMIN: ("admin", ("system:masters",)),
    User.AUTHOR: ("author", ("authors",)),
    User.GUEST: ("guest", ("guests",)),
    User.NODE: ("system:node:n0", ("system:nodes",)),
    User.SERVICE_ACCOUNT: (
        "system:serviceaccount:robots:robot",
        ("system:serviceaccounts", "system:serviceaccounts:robots", "authors"),
    ),
}
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")
_INVALID = 422
_NOT_OF_ADMISSION = ("authorization.k8s.io/", "authentication.kubernetes.io/")
"""Annotations of those who let a request in, and of who makes a token."""
_NOT_KNOWN_YET = "There can be a delay between when CustomResourceDefinitions are created and when"
"""Policies that mutate learn of new kinds every five seconds."""
_DRY_RUN: JSONObject = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
_PATIENCE_SECONDS = 120
_NUMBERS = itertools.count()
"""Of policies that judges add, which share an etcd."""
_RBAC = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)


class AuditLog:
    """The audit log of an API server, read on from where it was read to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def skip(self) -> None:
        """Pass over everything so far."""
        self._read = self._path.stat().st_size if self._path.exists() else 0

    def annotations(self, path: str) -> dict[str, str]:
        """The annotations of the next request to a path that has ended, of admission."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            for event in self._events():
                if event["stage"] == "ResponseComplete" and event["requestURI"].partition("?")[0] == path:
                    found = event.get("annotations", {})
                    return {
                        key: value for key, value in found.items() if not key.startswith(_NOT_OF_ADMISSION)
                    }
            time.sleep(0.002)
        raise TimeoutError(f"no audit event of {path}")

    def _events(self) -> Iterator[JSONObject]:
        with self._path.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield json.loads(line)


class InvalidObjectError(Exception):
    """The API server does not take an object; the text is its message."""


class Judge:
    """All API servers.

    Args:
        deciding: the one with all plugins.
        recording: the one with nothing but webhooks.
        storing: the one without plugins.
        webhooks: the server of the webhook that records, and of those of worlds.
        folder: what configurations name is here.
    """

    def __init__(
        self,
        deciding: ApiServer,
        recording: ApiServer,
        storing: ApiServer,
        webhooks: WebhookServer,
        folder: Path,
    ) -> None:
        self.folder = folder
        """What configurations name is here."""
        self.webhooks = webhooks
        """The server of the webhook that records, and of those of worlds."""
        self._audit_log = AuditLog(deciding.audit_log)
        self._deciders = {user: deciding.client(user.value) for user in User}
        self._storers = {user: storing.client(user.value) for user in User}
        self._recorded = {user: recording.client(f"{_RECORDED}-{user}") for user in User}
        self._prepare()
        self.common = self._common()
        """What every world has beside its own objects: namespaces, priority classes, and who may do what; and the
        webhook that records, because the audit log counts webhooks that are not called, too."""

    def close(self) -> None:
        """Close all connections."""
        for client in (*self._deciders.values(), *self._storers.values(), *self._recorded.values()):
            client.close()

    def decide(self, request: Request) -> Answer:
        """What the API server answers with all its plugins, once it knows of the request's kind."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            self._audit_log.skip()
            answer = _answer(_send(self._deciders[request.user], request), request)
            if _NOT_KNOWN_YET not in answer.message:
                return dataclasses.replace(answer, annotations=self._audit_log.annotations(request.path))
            assert time.monotonic() < until, answer.message
            time.sleep(0.1)

    def decide_as(self, user: str, request: Request) -> Answer:
        """What it answers to a user of any name who may do what authors may. It is no dry run."""
        impersonated = {"Impersonate-User": user, "Impersonate-Group": "authors"}
        reply = self._deciders[User.ADMIN].ask(request.method, request.path, request.body, **impersonated)
        return _answer(reply, request)

    def record(self, request: Request) -> JSONObject | None:
        """The AdmissionReview of a request; None if the API server refuses it before admission."""
        before = len(self.webhooks.received)
        _send(self._recorded[request.user], request)
        recorded = [call for call in self.webhooks.received[before:] if call.path == _RECORD]
        if not recorded:
            return None
        review: JSONObject = recorded[0].review
        review["request"]["userInfo"]["groups"].remove(_RECORDED)
        return review

    def store(self, request: Request) -> Answer:
        """What the API server answers without plugins."""
        return _answer(_send(self._storers[request.user], request), request)

    def apply(self, request: Request) -> Answer:
        """What it answers without plugins to ``kubectl apply --dry-run=server``, which lets no unknown field pass."""
        strictly = f"{request.path}?dryRun=All&fieldValidation=Strict"
        return _answer(self._admin.ask(request.method, strictly, request.body), request)

    @contextlib.contextmanager
    def world(self, world: World) -> Iterator[World]:
        """Make a world and give it as stored until the block ends, without objects and statuses that are invalid."""
        stored: list[JSONObject] = []
        try:
            for item in world.objects:
                with contextlib.suppress(InvalidObjectError):
                    stored.append(self._make(item))
            self.order_policies_anew()
            yield dataclasses.replace(world, objects=tuple(stored))
        finally:
            for item in reversed(stored):
                self._remove(item)

    @property
    def _admin(self) -> Client:
        """Past all plugins."""
        return self._storers[User.ADMIN]

    def _make(self, item: JSONObject) -> JSONObject:
        path, name = _place(item)
        reply = self._admin.ask("POST", path, item)
        if reply.code == 409:  # what every cluster has, or what a world before this one left behind
            there = self._admin.must("GET", f"{path}/{name}")["metadata"]["resourceVersion"]
            anew = item | {"metadata": item["metadata"] | {"resourceVersion": there}}
            return _readable(self._admin.must("PUT", f"{path}/{name}", anew))
        if reply.code == _INVALID:
            raise InvalidObjectError(reply.body["message"])
        assert reply.code == 201, (path, reply.body)
        if item["kind"] == "CustomResourceDefinition":
            self._await_served(item)
        if "status" not in item:
            return _readable(reply.body)
        told = self._admin.ask("PUT", f"{path}/{name}/status", reply.body | {"status": item["status"]})
        assert told.code in {200, _INVALID}, (path, told.body)
        return _readable(told.body if told.code == 200 else reply.body)

    def _await_served(self, definition: JSONObject) -> None:
        """Wait until all API servers serve the custom resources of a definition."""
        spec = definition["spec"]
        until = time.monotonic() + _PATIENCE_SECONDS
        for clients in (self._deciders, self._recorded, self._storers):
            for version in spec["versions"]:
                path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                while clients[User.ADMIN].ask("GET", path).code != 200:
                    assert time.monotonic() < until, f"{path} is not served"
                    time.sleep(0.05)

    def _remove(self, item: JSONObject) -> None:
        path, name = _place(item)
        if item["kind"] == "Namespace" or "namespace" in item["metadata"]:
            return  # nothing of another world is in the same namespace
        reply = self._admin.ask("DELETE", f"{path}/{name}")
        assert reply.code in {200, 202, 404}, (path, reply.body)

    def order_policies_anew(self) -> None:
        """Add a policy of each kind, wait until both deny, and remove them.

        The policies before them are known by then, as is everything else; and the API server has put all of them in a
        new order, because it takes them from a map.
        """
        name = f"marker-{next(_NUMBERS)}"
        items = markers(name)
        for item in items:
            self._make(item)
        until = time.monotonic() + _PATIENCE_SECONDS
        for marked_name in (f"{name}-v", f"{name}-m"):
            body = made(CONFIG_MAPS, marked_name, "default")
            marked = Request(User.ADMIN, "POST", CONFIG_MAPS, "default", marked_name, body)
            while marked_name not in self.decide(marked).message:
                assert time.monotonic() < until, "the policies of a world did not become known"
                time.sleep(0.01)
        for item in items:
            self._remove(item)

    def _prepare(self) -> None:
        """Make the roles of users, and the webhook that records."""
        everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        plain = [{"apiGroups": ["*"], "resources": ["*"], "verbs": list(_VERBS)}]
        # no finalizers: who has "*" as a resource may update these as well
        guests = [rule | {"resources": list(_plurals())} for rule in plain]
        for name, rules, groups in (
            ("authors", everything, ("authors",)),
            ("nodes", plain, ("system:nodes",)),  # and tokens for no audience but those that their Pods use
            ("guests", guests, ("guests",)),
        ):
            self._make(made(CLUSTER_ROLES, name, rules=rules))
            subjects = [
                {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group} for group in groups
            ]
            role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": name}
            self._make(made(CLUSTER_ROLE_BINDINGS, name, roleRef=role, subjects=subjects))
        for path in ("/api/v1/namespaces/default/serviceaccounts",):
            reply = self._admin.ask(
                "POST",
                path,
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
            )
            assert reply.code in {201, 409}, reply.body
        self._make(_recording_webhook(self.webhooks))
        for item in watching_parameters():
            self._make(item)

    def _common(self) -> tuple[JSONObject, ...]:
        found: list[JSONObject] = []
        for resource in (*_RBAC, NAMESPACES, SERVICE_ACCOUNTS, PRIORITY_CLASSES, MUTATING_WEBHOOKS):
            kind = {"apiVersion": resource.api_version, "kind": resource.kind}
            listed = self._admin.must("GET", resource.path())
            found.extend(_readable(kind | item) for item in listed["items"])
        return tuple(found)


def _plurals() -> tuple[str, ...]:
    return tuple(dict.fromkeys(resource.plural for resource in RESOURCES.values()))


def _place(item: JSONObject) -> tuple[str, str]:
    resource = resource_of(item["apiVersion"], item["kind"])
    metadata = item["metadata"]
    return resource.path(metadata.get("namespace", "")), metadata["name"]


def _readable(body: JSON) -> JSONObject:
    body["metadata"].pop("managedFields", None)
    return dict(body)


def _send(client: Client, request: Request) -> Reply:
    if request.method == "DELETE":  # its options come in the body, and replace those of the query
        return client.ask("DELETE", request.path, _DRY_RUN | request.body)
    return client.ask(request.method, f"{request.path}?dryRun=All", request.body)


def _answer(reply: Reply, request: Request) -> Answer:
    warnings = tuple(reply.warnings)
    if reply.code < 300:
        stored = None if request.method == "DELETE" else reply.body
        return Answer(reply.code, warnings=warnings, object=stored)
    status = reply.body
    return Answer(reply.code, status.get("reason", ""), status.get("message", ""), warnings)


def _recording_webhook(recorder: WebhookServer) -> JSONObject:
    every = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*/*"],
        "operations": ["*"],
        "scope": "*",
    }
    webhook = {
        "name": "recorder.differential.tests",
        "clientConfig": {
            "url": f"{recorder.url}{_RECORD}",
            "caBundle": base64.b64encode(recorder.ca_bundle).decode(),
        },
        "rules": [every],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Exact",
        "matchConditions": [{"name": "recorded", "expression": f"'{_RECORDED}' in request.userInfo.groups"}],
    }
    return made(MUTATING_WEBHOOKS, _RECORDER, webhooks=[webhook])


_SERVED = {_RECORD: denied("seen"), BACKEND: review_images, **BEHAVIOURS, **CONVERTING}


class Judges:
    """Judges of setups, one at a time, over one etcd. Servers that do not decide stay as long as flags do."""

    def __init__(self, folder: Path, webhooks: WebhookServer, etcd: str) -> None:
        self._folder, self._webhooks, self._etcd = folder, webhooks, etcd
        tokens, policy = folder / "tokens.csv", folder / "audit-policy.json"
        tokens.write_text("".join(_tokens()))
        # patches of webhooks are in the audit log from the level Request on
        policy.write_text(json.dumps(AUDIT_POLICY | {"rules": [{"level": "Request"}]}))
        (folder / "backend.kubeconfig").write_text(json.dumps(_kubeconfig(webhooks)))
        self._flags = {"token-auth-file": str(tokens), "audit-policy-file": str(policy)}
        self._of_flags, self._of_setup = contextlib.ExitStack(), contextlib.ExitStack()
        self._others: dict[str, tuple[ApiServer, ApiServer]] = {}
        self._judges: dict[Setup, Judge] = {}

    def of(self, setup: Setup) -> Judge:
        """Give the judge of a setup, which ends when that of another one is asked for."""
        if setup not in self._judges:
            self._of_setup.close()
            self._judges = {setup: self._started(setup)}
        return self._judges[setup]

    def close(self) -> None:
        """End all API servers."""
        self._of_setup.close()
        self._of_flags.close()

    def _started(self, setup: Setup) -> Judge:
        flags = {**self._flags, **setup.flags}
        written = json.dumps(flags)
        if written not in self._others:
            self._of_flags.close()
            self._others = {written: self._that_do_not_decide(flags)}
        admission = setup.admission(self._folder)
        running_one = running(enable=setup.plugins, admission=admission, flags=flags, etcd=self._etcd)
        deciding = self._of_setup.enter_context(running_one)
        judge = Judge(deciding, *self._others[written], self._webhooks, self._folder)
        self._of_setup.callback(judge.close)
        return judge

    def _that_do_not_decide(self, flags: Mapping[str, str]) -> tuple[ApiServer, ApiServer]:
        """The one with nothing but webhooks, and the one without plugins."""
        default = [controller.name for controller in load_catalogue() if controller.default]
        off = [name for name in default if name != "MutatingAdmissionWebhook"]
        recording, storing = (
            self._of_flags.enter_context(running(disable=disabled, flags=flags, etcd=self._etcd))
            for disabled in (off, [*off, "MutatingAdmissionWebhook"])
        )
        return recording, storing


@contextlib.contextmanager
def judging() -> Iterator[Judges]:
    """Run what API servers need until the block ends, and those that are asked for."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(_SERVED) as webhooks,
        running_etcd(Path(folder)) as etcd,
        contextlib.closing(Judges(Path(folder), webhooks, etcd)) as judges,
    ):
        yield judges


def _kubeconfig(server: WebhookServer) -> JSONObject:
    """How the backend of ImagePolicyWebhook is reached."""
    authority = base64.b64encode(server.ca_bundle).decode()
    cluster = {"server": f"{server.url}{BACKEND}", "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "images", "cluster": cluster}],
        "users": [{"name": "us", "user": {"token": "secret"}}],
        "contexts": [{"name": "images", "context": {"cluster": "images", "user": "us"}}],
        "current-context": "images",
    }


def _tokens() -> Iterator[str]:
    for user, (name, groups) in _IDENTITIES.items():
        for token, all_groups in ((str(user), groups), (f"{_RECORDED}-{user}", (*groups, _RECORDED))):
            yield f'token-of-{token},{name},uid-of-{name},"{",".join(all_groups)}"\n'
