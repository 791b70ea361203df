"""An ordinary Kubernetes webhook: HTTPS and JSON, with nothing but the standard library."""

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, HTTPServer

PATCH = [{"op": "add", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}]


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": True}
        if self.path.startswith("/mutate"):
            response |= {
                "patchType": "JSONPatch",
                "patch": base64.b64encode(json.dumps(PATCH).encode()).decode(),
            }
        elif review["request"]["object"]["spec"].get("hostNetwork"):
            response |= {"allowed": False, "status": {"code": 403, "message": "hostNetwork is not for us"}}
        answer = json.dumps(
            {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Admission objects are secrets: nothing of them belongs in a log."""


server = HTTPServer(("127.0.0.1", 18903), Webhook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("local/cert.pem", "local/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready on 18903", flush=True)
server.serve_forever()
