"""One notice to one run: a scripted metadata service of a cloud, an object store of a stated rate, and a moment of the
run's life. Within the notice the run's last state is whole in the store, or the message says that it is not.

    verdict = Notice(run, cloud, phase, rate, notice_s, rng).give()

Phases: `start` (reading, compiling, warming up), `first` (the first steps), `steady`, `evaluation` (after every step, so
that most of the time is spent there), `saving` (likewise), `uploading` (once the store is being sent one), and `again`:
the start of a run that goes on from the store. GCP is heard at once; AWS is asked every five seconds, Azure every second.
`sigterm` is no cloud: a scheduler that signals, and would kill 15 s later, as on Kubernetes' spot nodes at Google.
"""
import contextlib, json, os, signal, sqlite3, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from busy import Delays
from s3_server import Server
from s3_train import Machine, steps_there

CLOUDS = {"aws": 120, "gcp": 30, "azure": 30, "sigterm": 15}  # seconds of notice: facts of the clouds
PHASES = ["start", "first", "steady", "evaluation", "saving", "uploading", "again"]
EVERY = 40
FAREWELL_S = 2.5  # before its notice ends a run begins to (src/train/last_save.c); what holds it up from then on makes it late
BUSY = {"evaluation": ["train.eval_every=1"], "saving": ["checkpoint.every=1"]}


class Metadata:
    """The service of a cloud; says nothing until `tell` is called, then that the machine goes `notice_s` later."""

    def __init__(self, cloud, notice_s):
        self.cloud, self.notice_s, self.told_at, self.gone_at = cloud, notice_s, None, None
        handler = type("H", (Handler,), {"service": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # the run may end before it has heard the answer
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.told = threading.Event()

    def tell(self):
        self.told_at = self.told_at or time.time()
        self.told.set()
        if self.cloud == "sigterm":
            self.heard()
            self.process.send_signal(signal.SIGTERM)

    def heard(self):
        """The cloud's clock runs from its word, and it says when; the others count from when they are heard."""
        if not self.gone_at:
            self.gone_at = (self.told_at if self.cloud == "aws" else time.time()) + self.notice_s
        return self.gone_at

    def answer(self, path):
        if self.cloud == "aws":
            if not path.endswith("/spot/instance-action") or not self.told.is_set():
                return 404, "", {}
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.heard()))
            return 200, json.dumps({"action": "terminate", "time": when}), {}
        if self.cloud == "gcp":
            if not "/preempted" in path:
                return 200, "NONE", {}
            if "wait_for_change" in path:
                self.told.wait(5)
            if self.told.is_set():
                self.heard()
            return 200, "TRUE" if self.told.is_set() else "FALSE", {"ETag": str(self.told.is_set())}
        if "/name" in path:
            return 200, "vm_0", {}
        events = []
        if self.told.is_set():
            when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.heard()))
            events = [{"EventId": "A", "EventType": "Preempt", "Resources": ["vm_0"], "EventStatus": "Scheduled",
                       "NotBefore": when}]
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": events}), {}

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self):
        self.reply(200, "token", {})

    def do_GET(self):
        self.reply(*self.service.answer(self.path))


class Notice:
    """`rate`: bytes a second that the store takes of a body; a checkpoint has some 60,000."""

    def __init__(self, run, cloud, phase, rate, notice_s, rng):
        self.run, self.cloud, self.phase, self.rate, self.rng = run, cloud, phase, rate, rng
        self.metadata = Metadata(cloud, notice_s)
        self.notice_s, self.events = notice_s, []
        self.delay_s, self.step = rng.uniform(0, 0.15), 1 if phase == "first" else rng.randrange(EVERY // 2, 3 * EVERY)

    def machine(self, server, *more):
        m = Machine(server, self.run, "train.steps=100000000", f"checkpoint.every={EVERY}", "train.log_every=1",
                    FRUGAL_RUN_LEDGER="ledger.db")
        m.args = [a for a in m.args if not a.startswith("spot.cloud")] + list(more)
        return m

    def watch(self, process, server):
        """Reads what the run tells, and gives the notice when its moment has come."""
        for line in process.stdout:
            event = dict(json.loads(line), heard=time.time())
            self.events.append(event)
            if event["event"] == "step" and event["step"] >= self.step and not self.metadata.told_at:
                if self.phase != "uploading" or any(m == "PUT" and "/step-" in t for m, t in server.log):
                    self.metadata.tell()

    def before(self, server):
        """A run that has left something in the store."""
        if self.phase != "again":
            return
        m = self.machine(server, "spot.cloud=none", f"train.steps={EVERY}")
        m.start().end(0)

    def tell_soon(self):
        if self.phase in ("start", "again"):
            threading.Timer(self.delay_s, self.metadata.tell).start()

    def give(self):
        with Server() as server:
            self.before(server)
            server.bytes_s = self.rate
            where = ([f"spot.cloud={self.cloud}", f"spot.metadata={self.metadata.address}"] if self.cloud != "sigterm" else
                     ["spot.cloud=none", f"spot.grace_s={self.notice_s}"])
            m = self.machine(server, *where, *BUSY.get(self.phase, []))
            self.metadata.process = m.start_heard().process
            self.delays = Delays(m.process.pid)
            self.delays.start()
            self.tell_soon()
            words = []
            reader = threading.Thread(target=lambda: words.append(m.process.stderr.read()))
            reader.start()
            self.watch(m.process, server)
            rc = m.process.wait()
            ended = time.time()
            self.delays.stop = True
            reader.join()
            self.metadata.close()
            return self.judge(rc, ended, words[0], server, os.path.join(m.folder.name, "ledger.db"))

    def judge(self, rc, ended, words, server, ledger):
        """What became of it: complete, honest or nothing to save; anything else is an AssertionError. `left` is what the
        notice had left when the process ended: a sentence that comes in time does not make up for an end that does not.
        What the machine's other work kept it waiting for at the end is not held against it."""
        about = (self.cloud, self.phase, self.rate, self.notice_s, words[-600:])
        unborn = self.cloud == "sigterm" and rc == -signal.SIGTERM and not self.events  # before main had a handler
        assert rc == 4 or unborn, (rc, *about)
        done = max([e["step"] for e in self.events if e["event"] == "step"], default=EVERY if self.phase == "again" else 0)
        there = steps_there(server)  # each of them is whole
        told = [e for e in self.events if e["event"] == "checkpoint"]
        honest = [e for e in told if e["what"] in ("not uploaded", "failed")]
        kind = "complete" if done in there else "honest" if honest else "nothing" if not done else None
        assert kind, ("not there, and nothing said", done, there, *about)
        if any(e["event"] == "step" for e in self.events) and "without SQLite" not in words:
            with contextlib.closing(sqlite3.connect(ledger)) as rows:
                kinds = rows.execute("select kind, notice_s from interruption").fetchall()
            kind_of, notice_s = kinds[0] if len(kinds) == 1 else (None, None)
            assert kind_of == ("signal" if self.cloud == "sigterm" else "notice") and (notice_s or 0) < self.notice_s + 2, (kinds, *about)
        left = self.metadata.gone_at - ended
        if left < 0:
            left += self.delays.since(self.metadata.gone_at - FAREWELL_S)
        lost = done - max([s for s in there if s <= done], default=0)
        return {"cloud": self.cloud, "phase": self.phase, "rate": self.rate, "notice_s": self.notice_s, "kind": kind,
                "seconds": ended - self.metadata.told_at, "steps": done,
                "left": left, "lost": lost,
                "said": honest[-1]["text"] if kind == "honest" else ""}
