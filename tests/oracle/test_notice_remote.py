#!/usr/bin/env python3
"""A spot notice while checkpoints go to an object store: within the notice the last one is there, or the
message says that it is not. Side by side: stores of several rates, one of them too slow."""
import json, os, sys, tempfile, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import SECRET, Server
from s3_train import Machine, data, said, steps_there

NOTICE_S = 4  # instead of AWS's 120
RATES = [None, 400_000, 60_000, 8_000]  # bytes a second; a checkpoint has some 60,000


class Metadata(BaseHTTPRequestHandler):
    """IMDSv2 of a machine that AWS takes away, told when it is asked for the second time."""
    asked = 0

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.answer(200, b"token")

    def do_GET(self):
        if not self.path.endswith("/spot/instance-action"):
            return self.answer(404)
        cls = type(self)
        cls.asked += 1
        if cls.asked == 1:
            return self.answer(404)
        cls.at = getattr(cls, "at", time.time() + NOTICE_S)
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(cls.at))
        self.answer(200, json.dumps({"action": "terminate", "time": when}).encode())


def check(rate, run, results):
    handler = type("M", (Metadata,), {})
    metadata = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=metadata.serve_forever, daemon=True).start()
    with Server() as s:
        s.bytes_s = rate
        m = Machine(s, run, "train.steps=100000000")
        m.args = [a for a in m.args if not a.startswith("spot.cloud")] + [
            "run.ledger=none",  # its rows follow the checkpoint for as long as the machine lasts, and are not judged here
            "spot.cloud=aws", f"spot.metadata=http://127.0.0.1:{metadata.server_address[1]}"]
        m.start().end(4)
        late = time.time() - handler.at
        assert late < 1, f"{late} s after the machine is gone"
        last, there = max(e["step"] for e in m.told("saved")), steps_there(s)
        honest = m.told("not uploaded") + m.told("failed")
        assert last in there or honest, (rate, last, there)
        results[rate] = "complete" if last in there else "honest"
    metadata.shutdown()


def main():
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        run = data(folder)
        threads = [threading.Thread(target=check, args=(rate, run, results)) for rate in RATES]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(results) == len(RATES), results
    assert results[None] == "complete" and results[RATES[-1]] == "honest", results
    assert all(SECRET not in text for text in said)
    print(results)


main()
