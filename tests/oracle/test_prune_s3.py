#!/usr/bin/env python3
"""frugal checkpoints on object stores, over HTTP, s3:// and gs://: list, verify, show and copy; what is damaged is found
and copied neither there nor back; dollars by class; prune: what is superseded goes, manifest first. The same on
moto's server where that is installed."""
import contextlib, json, os, subprocess, sys, tempfile, threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import KEY_ID, SECRET, REGION, Server

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL, SAVE = os.path.join(TOP, "build", "frugal"), os.path.join(TOP, "build", "save_checkpoints")
THERE = "s3://bucket/runs/7"
if not os.path.exists(FRUGAL) or not os.path.exists(SAVE):
    print("no build/frugal or build/save_checkpoints yet")
    sys.exit(77)


def checkpoints(server, *args, rc=0):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "*",
           "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
           "AWS_ENDPOINT_URL_S3": server if isinstance(server, str) else server.url}
    if any(a.startswith("gs://") for a in args):
        env.update(AWS_ACCESS_KEY_ID="GOOG1ETEST", AWS_SECRET_ACCESS_KEY="goog-secret", STORAGE_EMULATOR_HOST=server.url)
    done = subprocess.run([FRUGAL, "checkpoints", *args], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == rc, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def check(server, top):
    here, back = os.path.join(top, "here"), os.path.join(top, "back")
    subprocess.run([SAVE, here, "4"], check=True)
    for step in 10, 20, 30, 40:
        checkpoints(server, "copy", here, THERE, str(step))
    server.objects["runs/7/step-000000030.1.3/weights.safetensors"] = b"x" * 4104
    assert "is damaged" in checkpoints(server, "copy", THERE, back, "30", rc=3)
    assert os.listdir(back) == ["lock"]
    with open(os.path.join(here, "step-000000040.1.4", "state.safetensors"), "r+b") as f:
        f.write(b"\xff")
    assert "is damaged" in checkpoints(server, "copy", here, "s3://bucket/other", "40", rc=1)
    assert not any(key.startswith("other/step") for key in server.objects)

    assert "2 kept, 2 deleted" in checkpoints(server, "prune", THERE, "--keep", "1")
    left = {key.split("/")[2] for key in server.objects if key.startswith("runs/7/")}
    assert left == {"step-000000040.1.4", "step-000000020.1.2"}, left  # the newest and the best
    gone = [path for method, path in server.log if method == "DELETE" and "step-000000010" in path]
    assert "manifest.json" in gone[0] and len(gone) == 3, gone
    checkpoints(server, "prune", THERE, "--keep", "none", rc=2)


def events(*args, **more):
    return {e["event"]: e for e in map(json.loads, checkpoints(*args, "--json", **more).splitlines())}


def look(server, top, where):
    """list, verify, show and copy of two that are whole."""
    here, back = os.path.join(top, "looked"), os.path.join(top, "back " + where[:2] + str(server)[-5:])
    if not os.path.exists(here):
        subprocess.run([SAVE, here, "2"], check=True)
    for step in 10, 20:
        checkpoints(server, "copy", here, where, str(step))
    assert checkpoints(server, "list", where).count(" valid") == 2
    assert checkpoints(server, "verify", where).count(" verified") == 2
    assert "step-000000010" in checkpoints(server, "verify", where, "10")
    text = checkpoints(server, "show", where, "20")
    assert "shard     weights.safetensors" in text and "measured just now" in text and "requests" in text, text
    told = events(server, "show", where, "20", "--rate", "1")
    assert abs(told["restore"]["seconds"] - told["restore"]["bytes"] / 1e6) < 1e-9, told
    assert told["storage"]["bytes"] == told["restore"]["bytes"], told
    checkpoints(server, "copy", where, back, "10")
    assert "verified" in checkpoints(server, "verify", back)
    for folder, _, names in os.walk(back):
        open_to_others = [n for n in names if os.stat(os.path.join(folder, n)).st_mode & 0o077]
        assert not open_to_others, open_to_others
    checkpoints(server, "show", where, "30", rc=2)


def dollars(server):
    """Of a class with a minimum: 90 days at $0.004 a GB and month, whatever it is deleted after; reading a GB back $0.03."""
    for key in server.objects:
        server.classes[key] = "GLACIER_IR"
    s = events(server, "show", "s3://bucket/looked", "20")["storage"]
    gb = s["bytes"] / 1e9
    assert s["storage_class"] == "glacier_ir" and s["minimum_days"] == 90, s
    minimum = 0.004 * gb * 90 / (365 / 12)
    assert abs(s["month_usd"] - minimum) < 1e-12, s  # a month of it is billed as the minimum
    assert 0.99 < s["early_usd"] / minimum <= 1, s  # written just now: all of it is still due
    assert abs(s["retrieve_usd"] - 0.03 * gb) < 1e-12 and abs(s["egress_usd"] - 0.09 * gb) < 1e-12, s
    assert abs(s["requests_usd"] - 5 * 0.01 / 1000) < 1e-12, s  # two shards: HEAD and GET each, and the manifest
    for key in server.objects:
        server.classes[key] = "GLACIER"
    assert "restoring its" in checkpoints(server, "show", "s3://bucket/looked", "20")
    assert "restoring its" in checkpoints(server, "verify", "s3://bucket/looked", "20", rc=1)
    for key in server.objects:
        server.classes[key] = ""
    rules = events(server, "lifecycle", "s3://bucket/looked")["lifecycle"]
    assert (rules["gb_month_usd"], rules["minimum_days"], rules["move_1000_usd"]) == (0.004, 90, 0.02), rules


def damage(server):
    """Every kind of it, found by verify; a list sees which shards there are, and how large."""
    shard = "looked/step-000000020.1.2/weights.safetensors"
    whole = server.objects[shard]
    for bad in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), None):
        server.objects.pop(shard) if bad is None else server.objects.update({shard: bad})
        text = checkpoints(server, "verify", "s3://bucket/looked", rc=1)
        assert "1 of 2 checkpoints cannot be restored" in text, text
        same = bad is not None and len(bad) == len(whole)
        assert checkpoints(server, "list", "s3://bucket/looked").count(" valid") == (2 if same else 1)
    server.objects[shard] = whole


@contextlib.contextmanager
def moto_server():
    """Its address; None where it is not installed."""
    try:
        import boto3, logging, moto.server
        from werkzeug.serving import make_server
    except ImportError:
        yield None
        return
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, moto.server.DomainDispatcherApplication(moto.server.create_backend_app), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").create_bucket(Bucket="bucket")
    yield url
    server.shutdown()


with Server() as server, tempfile.TemporaryDirectory() as top:
    server.keys["GOOG1ETEST"] = "goog-secret"
    look(server, top, "s3://bucket/looked")
    look(server, top, "gs://bucket/google")
    dollars(server)
    damage(server)
    check(server, top)
    with moto_server() as url:
        if url:
            look(url, top, "s3://bucket/moto")
        print("what is superseded is gone, what is damaged came nowhere", "" if url else "(moto is not installed)")
