"""The metadata service of a cloud, on loopback: metadata.py CLOUD PORTFILE COMING. Writes its port to
PORTFILE; tells of the end of the machine once the file COMING is there."""
import http.server
import os
import sys
import time

cloud, port_file, coming = sys.argv[1:]


class Service(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def reply(self, code, text, **headers):
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.reply(200, "token")

    def do_GET(self):
        if cloud == "aws":
            if self.headers["X-aws-ec2-metadata-token"] != "token":
                self.reply(401, "")
            elif self.path.endswith("spot/instance-action") and os.path.exists(coming):
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
                self.reply(200, '{"action": "terminate", "time": "%s"}' % at)
            else:
                self.reply(404, "")
        elif cloud == "gcp":
            if "wait_for_change=true" in self.path:
                for _ in range(500):
                    if os.path.exists(coming):
                        break
                    time.sleep(0.01)
            if "/preempted" in self.path:
                there = os.path.exists(coming)
                self.reply(200, "TRUE" if there else "FALSE", ETag="2" if there else "1")
            else:
                self.reply(200, "NONE")
        elif "/name" in self.path:
            self.reply(200, "vm_0")
        else:
            event = ('{"EventId": "A", "EventType": "Preempt", "Resources": ["vm_0"], '
                     '"EventStatus": "Scheduled", "NotBefore": ""}')
            self.reply(200, '{"DocumentIncarnation": 1, "Events": [%s]}' % (event if os.path.exists(coming) else ""))


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
server.daemon_threads = True
with open(port_file + ".new", "w") as f:
    print(server.server_port, file=f)
os.rename(port_file + ".new", port_file)
server.serve_forever()
