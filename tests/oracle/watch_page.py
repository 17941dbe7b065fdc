"""What the tests of `frugal watch` share: small runs to look at, a server on a free port, and Debian's browser."""
import os, re, signal, socket, struct, subprocess, sys, tempfile, time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL = os.environ.get("FRUGAL", os.path.join(TOP, "build", "frugal"))
WAIT_S = 90  # on a machine that is busy with other tests; what is waited for takes about a second


def skip(why):
    print(why)
    sys.exit(77)


def wait_until(done, what, seconds=WAIT_S):
    end = time.time() + seconds
    while time.time() < end:
        value = done()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("not within %d s: %s" % (seconds, what))


class Place:
    """A folder with a ledger of its own, data to learn and a run file."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.env = dict(os.environ, FRUGAL_RUN_LEDGER=os.path.join(self.folder.name, "state", "ledger.db"), DISPLAY="", WAYLAND_DISPLAY="")
        self.children = []
        classes = 4
        pixels = bytes((200 if p == i % classes else 30 + 37 * i % 50) for i in range(400) for p in range(classes))
        self.write("images", struct.pack(">IIII", 0x803, 400, 2, 2) + pixels)
        self.write("labels", struct.pack(">II", 0x801, 400) + bytes((i + (i % 16 == 5)) % classes for i in range(400)))  # some are wrong, so that there are mistakes to show
        self.write("run.yaml", b"""data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 64}, relu, {dense: 4}]}
train: {steps: 100000000, usd_hour: 3600, lr: 0.001, eval_every: 2000, threads: 1, out: weights.safetensors}
""")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            if child.poll() is None:
                child.kill()
                child.wait()
        self.folder.cleanup()

    def write(self, name, data):
        with open(os.path.join(self.folder.name, name), "wb") as f:
            f.write(data)

    def start(self, *words, **more):
        child = subprocess.Popen([FRUGAL, *words], env=self.env, cwd=self.folder.name, stdin=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.children.append(child)
        return child

    def run(self, *words):
        return subprocess.run([FRUGAL, *words], env=self.env, cwd=self.folder.name, capture_output=True, text=True, timeout=300)

    def train(self, *words):
        """In another process, its messages in a file that nobody has to read."""
        with open(os.path.join(self.folder.name, "train.log"), "a") as log:
            child = subprocess.Popen([FRUGAL, "train", "run.yaml", *words], env=self.env, cwd=self.folder.name,
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def watch(self, *words):
        """The address that it prints first."""
        child = self.start("watch", "--no-open", *words)
        address = child.stdout.readline().strip()
        if not address:
            why = child.stderr.read()
            if "built without" in why or "is not on this machine" in why:
                skip(why.strip())
            raise AssertionError(why)
        return child, address

    def end(self, child, how=signal.SIGTERM):
        child.send_signal(how)
        child.wait(timeout=WAIT_S)


def browser(playwright):
    """Debian's chromium; without the guard against other networks, which it does not know how to live with."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"], env=env)


def port_of(address):
    return int(re.match(r"http://[^/:]+:(\d+)/", address).group(1))


def token_of(address):
    return re.search(r"[?&]token=(\w+)", address).group(1)


def talk(port, data, wait=5):
    """Bytes to the server, and all that it answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as s:
        s.settimeout(wait)
        s.sendall(data)
        got = b""
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    break
                got += more
                head, _, body = got.partition(b"\r\n\r\n")
                size = re.search(rb"(?i)content-length: (\d+)", head)
                if size and len(body) >= int(size.group(1)):
                    break
        except (socket.timeout, ConnectionError):
            pass
        return got
