"""A stand-in for Kubernetes' API, as far as Spark's driver needs it: pods run as it is told."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Manifest = dict[str, Any]
_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/([^/]+)(?:/([^/]+))?")
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update"}


class Request(NamedTuple):
    """What was asked for: as a Role names it, and what came with it."""

    verb: str
    resource: str
    namespace: str
    body: Manifest


class KubernetesApi(ThreadingHTTPServer):
    """Keeps what is created, and runs pods.

    Args:
        run: Runs a pod.
        driver: Name of the pod that is there already.
        namespace: Where it is.
    """

    daemon_threads = True

    def __init__(self, run: Callable[[Manifest], None], driver: str, namespace: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.run = run
        self.requests: list[Request] = []
        self.objects: dict[tuple[str, str], Manifest] = {}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": driver}}
        self.create("pods", namespace, pod)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def create(self, resource: str, namespace: str, made: Manifest) -> Manifest:
        """Keep an object, with what Kubernetes adds to it."""
        own = {"uid": str(uuid.uuid4()), "namespace": namespace, "resourceVersion": "1"}
        kept = {**made, "metadata": {**made["metadata"], **own}}
        if resource == "pods":
            kept["status"] = {"phase": "Running"}
        self.objects[resource, made["metadata"]["name"]] = kept
        return kept


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubernetesApi

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        api = self.server
        path, _, query = self.path.partition("?")
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(text) if text else {}
        found = _PATH.fullmatch(path)
        if found is None:
            self._send({"kind": "Status", "status": "Failure", "code": 404}, 404)
            return
        namespace, resource, name = found.groups()
        verb = self._verb(name, query)
        api.requests.append(Request(verb, resource, namespace, body))
        if verb == "create":
            made = api.create(resource, namespace, body)
            self._send(made, 201)
            if resource == "pods":
                api.run(made)
        elif verb.startswith("delete"):
            self._send({"kind": "Status", "status": "Success"}, 200)
        elif name is not None and (kept := api.objects.get((resource, name))) is not None:
            self._send(kept, 200)
        elif name is not None:
            self._send({"kind": "Status", "status": "Failure", "code": 404}, 404)
        else:
            items = [
                one
                for (kind, _), one in list(api.objects.items())
                if kind == resource and "spark-exec-id" in one["metadata"].get("labels", {})
            ]
            listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}}
            self._send({**listed, "items": items}, 200)

    def _verb(self, name: str | None, query: str) -> str:
        if self.command == "GET" and name is None:
            return "watch" if "watch=true" in query else "list"
        if self.command == "DELETE":
            return "deletecollection" if name is None else "delete"
        return _VERBS.get(self.command, "get")

    def _send(self, answer: Manifest, code: int) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer


@contextmanager
def kubernetes_api(
    run: Callable[[Manifest], None], *, driver: str, namespace: str
) -> Generator[KubernetesApi]:
    """Serve a stand-in for Kubernetes' API."""
    api = KubernetesApi(run, driver, namespace)
    thread = threading.Thread(target=api.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.shutdown()
        api.server_close()
        thread.join()
