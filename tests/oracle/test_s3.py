#!/usr/bin/env python3
"""Our S3 client over HTTP against a server that checks signature, body hash and checksum of every
request, and misbehaves: lost answers, torn lines, 503, errors in a 200, a wrong clock, expired
credentials, another region."""
import os, random, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import s3_tool
from s3_server import KEY_ID, SECRET, REGION, Server

SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
RNG = random.Random(SEED)
PART = 8192
said = []  # every sentence printed, in which no secret may be


def call(server, *args, **env):
    return s3_tool.call(*args, said=said, **{"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
                                             "AWS_ENDPOINT_URL_S3": server.url, **env})


def check_calls(s):
    call(s, "put", "runs/a b+=&/ä.txt", "hello")
    assert s.objects == {"runs/a b+=&/ä.txt": b"hello"}
    assert call(s, "get", "runs/a b+=&/ä.txt") == b"hello"
    assert call(s, "range", "runs/a b+=&/ä.txt", "1", "3") == b"ell"
    assert call(s, "head", "runs/a b+=&/ä.txt").startswith(b"5 ")
    call(s, "range", "runs/a b+=&/ä.txt", "1", "9", rc=3)
    call(s, "get", "runs/none", rc=1)
    call(s, "head", "runs/none", rc=1)
    call(s, "put-new", "runs/one", "mine")
    call(s, "put-new", "runs/one", "yours", rc=1)
    assert s.objects["runs/one"] == b"mine"
    call(s, "tag", "runs/one", "frugal", "retired")
    assert s.tags["runs/one"] == {"frugal": "retired"}
    call(s, "delete", "runs/one")
    call(s, "delete", "runs/one")
    assert "runs/one" not in s.objects
    call(s, "put", "k", "v", to="s3://nobucket/x", rc=3)
    call(s, "put", "k", "v", to="http://x", rc=2)


def check_list(s):
    names = [f"list/{i % 3}/{i:03}" for i in range(25)] + ["list/z&<"]
    for n in names:
        s.objects[n] = b"x" * RNG.randrange(9)
    s.page = 7
    got = [l.rsplit(" ", 2) for l in call(s, "list", "list/").decode().splitlines()]
    assert [(g[0], int(g[1])) for g in got] == [(n, len(s.objects[n])) for n in sorted(names)]
    got = call(s, "list", "list/", "/").decode().splitlines()
    assert [g.rsplit(" ", 2)[0] for g in got] == ["list/0/", "list/1/", "list/2/", "list/z&<"], got
    s.page = 1000


def check_files(s, folder):
    path, back = os.path.join(folder, "file"), os.path.join(folder, "back")
    for size in [0, 1, PART, PART + 1, 80_000 + RNG.randrange(9999)]:
        data = RNG.randbytes(size)
        with open(path, "wb") as f:
            f.write(data)
        call(s, "upload", path, "runs/file", S3_PART_BYTES=str(PART), S3_CLASS="GLACIER_IR")
        assert s.objects["runs/file"] == data and s.classes["runs/file"] == "GLACIER_IR" and not s.uploads
        call(s, "download", "runs/file", str(size), back, S3_PART_BYTES=str(PART))
        with open(back, "rb") as f:
            assert f.read() == data, size
    return path, data


def check_multipart_faults(s, path, data):
    parts = {"S3_PART_BYTES": str(PART)}
    for match, how in [("PUT partNumber=2", "torn"), ("PUT partNumber=1", "torn_after"), ("PUT partNumber=3", "503 SlowDown"),
                       ("POST uploads", "500"), ("POST uploadId", "error_in_200"), ("POST uploadId", "torn_after"),
                       ("POST uploadId", "torn"), ("POST uploads", "torn_body"), ("PUT partNumber=4", "400 BadDigest")]:
        s.objects.pop("runs/file", None)
        s.misbehave(match, how)
        call(s, "upload", path, "runs/file", **parts)
        assert s.objects["runs/file"] == data and not s.faults, (match, how)
        s.uploads.clear()  # what a lost answer to "begin" left behind
    # A lost answer, and other bytes under the name by then: that is no success.
    s.misbehave("POST uploadId", "torn_after")
    s.misbehave("HEAD", "torn")
    original = s.get
    s.get = lambda key, headers: (206, [], b"x" * PART) if "range" in headers else original(key, headers)
    call(s, "upload", path, "runs/file", rc=3, **parts)
    s.get = original
    # What is refused is given up at once: no part is left to pay for.
    s.misbehave("PUT partNumber=5", "403 AccessDenied")
    call(s, "upload", path, "runs/other", rc=3, **parts)
    assert not s.uploads, s.uploads


def check_resume(s, path, data):
    parts = {"S3_PART_BYTES": str(PART)}
    s.misbehave("PUT partNumber=7", "403 AccessDenied")
    call(s, "upload", path, "runs/resumed", "resume", rc=3, **parts)
    (upload,) = s.uploads.values()
    there = len(upload["parts"])
    upload["parts"][min(upload["parts"])] = b"y" * PART  # not what we sent: it must be sent again
    before = s.count("PUT", "partNumber")
    call(s, "upload", path, "runs/resumed", "resume", **parts)
    sent, whole = s.count("PUT", "partNumber") - before, -(-len(data) // PART)
    assert s.objects["runs/resumed"] == data and sent == whole - there + 1, (sent, whole, there)
    s.uploads["u1"] = {"key": "runs/stale", "parts": {}, "class": ""}
    assert call(s, "abort", "runs/") == b"1\n" and not s.uploads


def check_tries(s):
    for how in ["torn", "torn_after", "503 SlowDown", "500", "429 TooManyRequests", "400 RequestTimeout"]:
        s.objects.pop("runs/t", None)
        s.misbehave("PUT", how)
        call(s, "put-new", "runs/t", "mine")  # torn_after: 412 on the second try, and it is ours
        assert s.objects["runs/t"] == b"mine" and not s.faults, how
    s.misbehave("GET", "torn_body")
    assert call(s, "get", "runs/t") == b"mine"
    # Somebody else was faster while our answer was lost: no, though the answer was lost.
    s.misbehave("PUT", "torn")
    s.objects["runs/t"] = b"theirs"
    call(s, "put-new", "runs/t", "mine", rc=1)
    s.misbehave("PUT", "503 SlowDown", 99)
    begin = time.time()
    call(s, "put", "runs/t", "x", rc=3, S3_LIMIT_S="1")
    assert time.time() - begin < 5 and b"SlowDown" in said[-1]
    s.faults.clear()
    s.misbehave("PUT", "403 AccessDenied")
    call(s, "put", "runs/t", "x", rc=3)
    assert b"AccessDenied" in said[-1] and not s.faults


def check_clock_region_style(s):
    for ahead in [4000, -4000]:
        s.clock_ahead_s = ahead
        call(s, "put", "runs/clock", "x")
        assert call(s, "head", "runs/clock").startswith(b"1")
    s.clock_ahead_s = 0
    call(s, "put", "runs/region", "x", AWS_REGION="us-east-1")
    call(s, "head", "runs/region", AWS_REGION="us-east-1")
    call(s, "put", "runs/host", "x", AWS_ENDPOINT_URL_S3=f"http://localhost:{s.port}", S3_STYLE="host")
    assert s.objects["runs/host"] == b"x"
    call(s, "put", "runs/secret", "x", rc=3, AWS_SECRET_ACCESS_KEY="wrong")
    assert b"SignatureDoesNotMatch" in said[-1]
    s.misbehave("PUT", "403 " + SECRET)  # a store that tells secrets
    call(s, "put", "runs/secret", "x", rc=3)


def check_google(s):
    s.keys["GOOG1ETEST"] = "goog-secret"
    google = {"S3_ENDPOINT": s.url, "AWS_ACCESS_KEY_ID": "GOOG1ETEST", "AWS_SECRET_ACCESS_KEY": "goog-secret",
              "S3_CLASS": "NEARLINE", "to": "gs://bucket/runs"}
    call(s, "put-new", "runs/g", "mine", **google)
    call(s, "put-new", "runs/g", "yours", rc=1, **google)
    assert call(s, "get", "runs/g", **google) == b"mine"


def check_expired(s, folder):
    """Keys from a profile that somebody renews: refused as expired, they are read again, once."""
    path = os.path.join(folder, "credentials")
    profile = lambda token: f"[other]\naws_access_key_id = X\n# note\n[team]\naws_access_key_id = AKIDTEAM\n" \
                            f"aws_secret_access_key = {SECRET}2\naws_session_token = {token}\n"
    s.keys["AKIDTEAM"], s.tokens["AKIDTEAM"] = SECRET + "2", "token-two"
    team = {"AWS_ACCESS_KEY_ID": None, "AWS_SHARED_CREDENTIALS_FILE": path, "AWS_PROFILE": "team"}
    with open(path, "w") as f:
        f.write(profile("token-two"))
    call(s, "put", "runs/p", "x", **team)
    with open(path, "w") as f:
        f.write(profile("token-one"))
    before = len(s.log)
    call(s, "put", "runs/p", "x", rc=3, **team)
    assert len(s.log) - before == 2 and b"ExpiredToken" in said[-1]
    assert b"token-one" not in said[-1]
    call(s, "put", "runs/p", "x", rc=2, **{**team, "AWS_PROFILE": "nobody"})
    call(s, "put", "runs/p", "x", rc=2, AWS_ACCESS_KEY_ID=None)  # none at all


def check_process(s, folder):
    """Keys that a command of the user's prints; expired ones are asked for again, once."""
    config, printed, calls = (os.path.join(folder, n) for n in ("config", "printed", "calls"))
    s.keys["AKIDPROC"], s.tokens["AKIDPROC"] = SECRET + "3", "token-proc"
    env = {"AWS_ACCESS_KEY_ID": None, "AWS_CONFIG_FILE": config}

    def says(command, text=""):
        with open(config, "w") as f:
            f.write(f"[default]\ncredential_process = {command}\n")
        with open(printed, "w") as f:
            f.write(text)

    keys = lambda token: f'{{"Version": 1, "AccessKeyId": "AKIDPROC", "SecretAccessKey": "{SECRET}3", "SessionToken": "{token}"}}'
    says(f"echo >>'{calls}'; cat '{printed}'", keys("token-proc"))
    call(s, "put", "runs/process", "x", **env)
    says(f"echo >>'{calls}'; cat '{printed}'", keys("token-stale"))
    call(s, "put", "runs/process", "x", rc=3, **env)
    assert os.path.getsize(calls) == 3 and b"ExpiredToken" in said[-1], said[-1]
    for command, sentence in (("exit 7", b"it exited with 7"), ("echo no", b"not JSON"), ("echo {}", b"without AccessKeyId")):
        says(command)
        call(s, "put", "runs/process", "x", rc=3, S3_LIMIT_S="2", **env)
        assert b"credential_process" in said[-1] and sentence in said[-1], said[-1]


def check_services(s, folder):
    """Credentials from each of the services, over HTTP; then ones that the store calls expired: renewed once."""
    token, near = os.path.join(folder, "token"), f"http://localhost:{s.port}"
    proxy = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}  # none but the store is to be asked without it
    ways = {
        "web identity": {"AWS_ROLE_ARN": "arn:r", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": s.url},
        "container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": near + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod-token"},
        "instance": {"S3_ASK": "aws", "AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": near},
    }
    with open(token, "w") as f:
        f.write("web-token\n")
    s.keys["ASIAROLE"], s.tokens["ASIAROLE"] = "role-" + SECRET, "token-role"
    s.role = ("ASIAROLE", "role-" + SECRET, "token-role", 3600)
    for name, env in ways.items():
        call(s, "put", f"runs/by {name}", "x", AWS_ACCESS_KEY_ID=None, **proxy, **env)
        assert f"runs/by {name}" in s.objects
    s.role = ("ASIAROLE", "role-" + SECRET, "token-old", 3600)
    before = s.count("GET", "/container")
    call(s, "put", "runs/expired", "x", rc=3, AWS_ACCESS_KEY_ID=None, **ways["container"])
    assert s.count("GET", "/container") - before == 2 and b"ExpiredToken" in said[-1]
    s.role, s.bearers = (None, None, "token-ya29", 3599), {"token-ya29"}
    google = {"to": "gs://bucket/runs", "S3_ENDPOINT": s.url, "S3_ASK": "gcp", "AWS_ACCESS_KEY_ID": None,
              "GCE_METADATA_HOST": f"localhost:{s.port}", **proxy}
    call(s, "put-new", "runs/bearer", "x", **google)
    call(s, "put-new", "runs/bearer", "y", rc=1, **google)
    s.bearers = set()
    call(s, "put", "runs/bearer", "y", rc=3, **google)


def check_archive(s):
    s.objects["runs/cold"], s.classes["runs/cold"] = b"brr", "GLACIER"
    assert call(s, "head", "runs/cold") == b"3 GLACIER archived\n"
    call(s, "restore", "runs/cold", "2")
    assert call(s, "head", "runs/cold") == b"3 GLACIER archived restoring\n"


def main():
    print(f"CHECK_SEED={SEED}")
    with tempfile.TemporaryDirectory() as folder, Server() as s:
        check_calls(s)
        check_list(s)
        path, data = check_files(s, folder)
        check_multipart_faults(s, path, data)
        check_resume(s, path, data)
        check_tries(s)
        check_clock_region_style(s)
        check_google(s)
        check_expired(s, folder)
        check_process(s, folder)
        check_services(s, folder)
        check_archive(s)
        requests = len(s.log)
    for text in said:
        assert SECRET.encode() not in text and b"goog-secret" not in text and b"token-" not in text, text
    print(f"{requests} requests, every one checked; {len(said)} sentences without a secret")


main()
