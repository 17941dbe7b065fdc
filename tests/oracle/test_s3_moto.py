#!/usr/bin/env python3
"""Our S3 client against moto's server, and Amazon's own boto3 to look at what we did: conditions,
multipart, tags, lifecycle, archives. (moto believes any signature and checksum: those are for test_s3.py.)"""
import os, random, subprocess, sys, tempfile

os.environ.update(AWS_ACCESS_KEY_ID="moto", AWS_SECRET_ACCESS_KEY="moto", AWS_EC2_METADATA_DISABLED="true")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_tool import call, free_port, wait_for

try:
    import boto3, flask, moto.server
except ImportError as e:
    print(f"needs {e.name}: pip install 'moto[s3]' flask flask-cors")
    sys.exit(77)

SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
RNG = random.Random(SEED)
PART = 5 << 20  # the least that S3 takes, and moto too


def check(url, folder):
    env = {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto", "AWS_REGION": "us-east-1",
           "AWS_ENDPOINT_URL_S3": url, "S3_PART_BYTES": str(PART)}
    ask = lambda *args, **more: call(*args, **{**env, **more})
    amazon = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    amazon.create_bucket(Bucket="bucket")
    body = lambda key: amazon.get_object(Bucket="bucket", Key=key)["Body"].read()

    ask("put-new", "runs/attempts/000001", "mine")
    ask("put-new", "runs/attempts/000001", "yours", rc=1)
    assert body("runs/attempts/000001") == b"mine"
    amazon.put_object(Bucket="bucket", Key="runs/by boto", Body=b"theirs")
    assert ask("get", "runs/by boto") == b"theirs"
    ask("put-new", "runs/by boto", "x", rc=1)
    names = ask("list", "runs/", "/").decode().splitlines()
    assert [n.rsplit(" ", 2)[0] for n in names] == ["runs/attempts/", "runs/by boto"] or len(names) == 2, names

    path, back = os.path.join(folder, "file"), os.path.join(folder, "back")
    data = RNG.randbytes(2 * PART + RNG.randrange(1, 9999))
    with open(path, "wb") as f:
        f.write(data)
    ask("upload", path, "runs/weights", S3_CLASS="GLACIER_IR")
    head = amazon.head_object(Bucket="bucket", Key="runs/weights")
    assert body("runs/weights") == data and head["StorageClass"] == "GLACIER_IR", head
    assert ask("head", "runs/weights") == f"{len(data)} GLACIER_IR\n".encode()
    ask("download", "runs/weights", str(len(data)), back)
    with open(back, "rb") as f:
        assert f.read() == data

    amazon.create_multipart_upload(Bucket="bucket", Key="runs/stale")
    assert ask("abort", "runs/") == b"1\n"
    assert "Uploads" not in amazon.list_multipart_uploads(Bucket="bucket")

    ask("tag", "runs/weights", "frugal", "retired")
    tags = amazon.get_object_tagging(Bucket="bucket", Key="runs/weights")["TagSet"]
    assert tags == [{"Key": "frugal", "Value": "retired"}], tags

    assert ask("lifecycle-get") == b""
    theirs = {"ID": "logs", "Filter": {"Prefix": "logs/"}, "Status": "Enabled", "Expiration": {"Days": 3}}
    amazon.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration={"Rules": [theirs]})
    for _ in range(2):  # a second time changes nothing
        assert ask("lifecycle", "7", "GLACIER_IR") == b"1 of others\n"
        rules = {r["ID"]: r for r in amazon.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"]}
        assert rules.pop("logs") == theirs
        assert sorted(rules) == ["frugal-retired runs/", "frugal-uploads runs/"], rules
        cold = rules["frugal-retired runs/"]
        assert cold["Transitions"] == [{"Days": 7, "StorageClass": "GLACIER_IR"}], cold
        assert cold["Filter"]["And"]["Tags"] == [{"Key": "frugal", "Value": "retired"}], cold
        assert rules["frugal-uploads runs/"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}

    amazon.put_object(Bucket="bucket", Key="runs/cold", Body=b"brr", StorageClass="GLACIER")
    assert ask("head", "runs/cold") == b"3 GLACIER archived\n"
    ask("restore", "runs/cold", "2")
    ask("delete", "runs/cold")
    ask("head", "runs/cold", rc=1)


def main():
    print(f"CHECK_SEED={SEED}, moto {moto.__version__}")
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        with tempfile.TemporaryDirectory() as folder:
            check(f"http://127.0.0.1:{port}", folder)
    finally:
        server.terminate()
        server.wait()
    print("conditions, multipart, tags, lifecycle and archives as boto3 sees them")


main()
