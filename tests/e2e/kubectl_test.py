#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""k8s/ by kubectl itself: what `kubectl kustomize` and `kubectl debug` make of it is what the other tests run. Needs a
kubectl whose kustomize is of version 5 or newer; there is no such Debian 12 package, so without one this is skipped.

For `kubectl debug` a server that knows one pod stands for the API server: it keeps what is sent to it.
"""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import yaml

import debug_container
import kustomize

SOURCE = os.environ["PILLION_SOURCE"]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "cuda-app", "namespace": "default", "resourceVersion": "1"},
    "spec": {"containers": [{"name": "app", "image": "registry.example.com/cuda-app:latest"}]},
}
PODS = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "patch"]}
ANSWERS = {
    "/version": {"major": "1", "minor": "32"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [PODS, {**PODS, "name": "pods/ephemeralcontainers"}],
    },
    "/api/v1/namespaces/default/pods/cuda-app": POD,
}


def why_not():
    if shutil.which("kubectl") is None:
        return "no kubectl"
    said = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, timeout=30).stdout
    found = re.search(r"Kustomize Version: v(\d+)", said)
    return None if found and int(found[1]) >= 5 else f"kubectl is too old: {said.strip()}"


class ApiServer(http.server.BaseHTTPRequestHandler):
    def _answer(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        answer = ANSWERS.get(self.path.split("?")[0])
        self._answer(200 if answer else 404, answer or {"kind": "Status", "status": "Failure", "code": 404})

    def do_PATCH(self):
        self.server.patches.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(200, POD)

    def log_message(self, *_):
        pass


class KubectlTest(unittest.TestCase):
    def run_kubectl(self, *words):
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "HOME": home, "KUBECONFIG": os.devnull}
            done = subprocess.run(
                ["kubectl", *words], env=environment, cwd=SOURCE, capture_output=True, text=True, timeout=60
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_component_merges_as_the_tests_have_it(self):
        found = list(yaml.safe_load_all(self.run_kubectl("kustomize", "k8s/example")))
        # kubectl sorts the keys, which say nothing; the order of lists does.
        self.assertEqual(found, kustomize.build(os.path.join(SOURCE, "k8s", "example")))

    def test_the_debug_command_adds_the_container_that_the_tests_run(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
        server.patches = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            words = debug_container.command()
            self.assertEqual(words[:3], ["kubectl", "debug", "pod/cuda-app"])
            self.run_kubectl("--server", f"http://127.0.0.1:{server.server_port}", *words[1:])
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        [(path, patch)] = server.patches
        self.assertTrue(path.startswith("/api/v1/namespaces/default/pods/cuda-app/ephemeralcontainers"), path)
        [sent] = json.loads(patch)["spec"]["ephemeralContainers"]
        filled_in = {"resources": {}, "terminationMessagePolicy": "File"}
        self.assertEqual(sent, {**debug_container.container(), **filled_in})


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
