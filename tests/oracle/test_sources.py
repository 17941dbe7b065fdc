#!/usr/bin/env python3
"""Shards written by Python's tarfile in its three formats, read from a disk, over HTTP from a real server on loopback that
sometimes fails, and from moto's S3: the same samples in the same order for any number of threads, every byte fetched
once an epoch with a cache of a tenth."""
import http.server, io, os, random, subprocess, sys, tarfile, tempfile, threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READ = os.path.join(TOP, "build", "read_place")
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
RNG = random.Random(SEED)
SHARDS, EACH, FORMATS = 60, 12, (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
if not os.path.exists(READ):
    print("no build/read_place yet")
    sys.exit(77)


def write_shards(folder):
    for s in range(SHARDS):
        form = FORMATS[s % 3]
        with tarfile.open(os.path.join(folder, f"set-{s:03d}.tar"), "w", format=form) as tar:
            for i in range(EACH):
                deep = "/".join("folder" * RNG.randrange(1, 3) for _ in range(RNG.randrange(1, 9 if form == FORMATS[0] else 30)))
                name = ("" if form == FORMATS[0] else RNG.choice(["", "ü", "漢字 "])) + f"{s}_{i}"
                for end, body in ((".jpg", RNG.randbytes(RNG.randrange(2000, 9000))), (".cls", b"%d" % RNG.randrange(9))):
                    info = tarfile.TarInfo(f"{deep}/{name}{end}")
                    info.size, info.mtime = len(body), RNG.randrange(1 << 31) + 0.5
                    tar.addfile(info, io.BytesIO(body))
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))


def read(path, cache, cache_bytes, epochs, threads, rc=0, **env):
    base = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "*"}
    done = subprocess.run([READ, path, cache, str(cache_bytes), str(epochs), str(threads)], env={**base, **env},
                          capture_output=True, timeout=100)
    assert done.returncode == rc, (done.returncode, done.stdout, done.stderr)
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert all(int(line[0]) == SHARDS * EACH for line in lines), lines
    return [line[1] for line in lines], [int(line[2]) for line in lines]


class Ranges(http.server.BaseHTTPRequestHandler):
    protocol_version, folder, sent, requests = "HTTP/1.1", None, 0, 0
    lock = threading.Lock()

    def log_message(self, *args):
        pass

    def do_GET(self):
        with Ranges.lock:
            Ranges.requests += 1
            ill = Ranges.requests % 17 == 0
        path = os.path.join(self.folder, os.path.basename(self.path))
        if ill or not os.path.exists(path):
            self.send_response(503 if ill else 404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        size = os.path.getsize(path)
        first, last = (int(x) for x in self.headers["Range"].removeprefix("bytes=").split("-"))
        last = min(last, size - 1)
        with open(path, "rb") as f:
            f.seek(first)
            body = f.read(last - first + 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("ETag", f'"{size}-{os.stat(path).st_mtime_ns}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        with Ranges.lock:
            Ranges.sent += len(body)


def check_http(folder, total, want, caches):
    Ranges.folder = folder
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/set-{{000..{SHARDS - 1:03d}}}.tar"
    for threads in (1, 5):
        before = Ranges.sent
        got, _ = read(url, f"{caches}/http{threads}", total // 10, len(want), threads)
        assert got == want, "over HTTP another order or other bytes"
        sent = Ranges.sent - before
        assert sent <= 1.05 * total * len(want), (sent, total * len(want))
    both = [subprocess.Popen([READ, url, f"{caches}/shared", str(total // 10), "1", "2"], stdout=subprocess.PIPE,
                             env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "no_proxy": "*"}) for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=100)
        assert process.returncode == 0 and out.split()[1].decode() == want[0], "two processes with one cache"
    server.shutdown()
    print(f"HTTP: {sent / total / len(want):.3f} of the data set an epoch, {Ranges.requests} requests, every 17th refused")


def check_moto(folder, total, want, caches):
    try:
        import boto3, flask, moto.server
    except ImportError as e:
        print(f"S3 was left out, it needs {e.name}: pip install 'moto[s3]' flask flask-cors")
        return
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from s3_tool import free_port, wait_for
    keys = {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto"}
    os.environ.update(keys)
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        endpoint = f"http://127.0.0.1:{port}"
        amazon = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        amazon.create_bucket(Bucket="bucket")
        for f in sorted(os.listdir(folder)):
            amazon.upload_file(os.path.join(folder, f), "bucket", f"data/{f}")
        got, fetched = read(f"s3://bucket/data/set-{{000..{SHARDS - 1:03d}}}.tar", f"{caches}/s3", total // 10, len(want), 4,
                            AWS_ENDPOINT_URL_S3=endpoint, AWS_REGION="us-east-1", **keys)
        assert got == want, "from S3 another order or other bytes"
        assert fetched[-1] <= 1.05 * total * len(want), (fetched, total)
    finally:
        server.terminate()
        server.wait()
    print(f"S3 by moto: {fetched[-1] / total / len(want):.3f} of the data set an epoch")


def main():
    print(f"CHECK_SEED={SEED}")
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "set")
        os.mkdir(folder)
        total = write_shards(folder)
        path = os.path.join(folder, f"set-{{000..{SHARDS - 1:03d}}}.tar")
        want, _ = read(path, f"{top}/disk", total // 10, 2, 3)  # makes the indexes, too
        assert len(os.listdir(folder)) == 2 * SHARDS and want[0] != want[1]
        check_http(folder, total, want, top)
        check_moto(folder, total, want, top)


main()
