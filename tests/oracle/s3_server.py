"""An object store that trusts nobody: every request's signature (SigV4 by Python's hmac), body hash and
CRC-32C are checked, and it misbehaves when told to.

    with Server() as server:
        server.misbehave("PUT", "torn_after")      # the next PUT is done, but its answer is lost
        ... AWS_ENDPOINT_URL_S3=server.url, bucket "bucket" ...
"""
import base64, collections, hashlib, hmac, socket, struct, threading, time, urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.etree import ElementTree

KEY_ID, SECRET, REGION, BUCKET = "AKIDTEST", "a-secret/that+must=never-show", "eu-test-1", "bucket"
HANG_S = 2  # of silence, until the connection is torn


def crc32c_table():
    table = []
    for b in range(256):
        for _ in range(8):
            b = b >> 1 ^ (0x82F63B78 if b & 1 else 0)
        table.append(b)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ TABLE[(crc ^ b) & 0xFF]
    return base64.b64encode(struct.pack(">I", crc ^ 0xFFFFFFFF)).decode()


def sign(words, secret, scope, to_sign):
    key = (words["prefix"] + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


AWS = {"algorithm": "AWS4-HMAC-SHA256", "prefix": "AWS4", "x": "x-amz", "end": "s3/aws4_request"}
GOOGLE = {"algorithm": "GOOG4-HMAC-SHA256", "prefix": "GOOG4", "x": "x-goog", "end": "storage/goog4_request"}


class Refused(Exception):
    def __init__(self, status, code, message="no", headers=(), extra=""):
        self.status, self.code, self.message, self.headers, self.extra = status, code, message, headers, extra


class Torn(Exception):
    pass


class Objects(dict):
    """By key. Tests go through them while threads of the server put and delete: a loop sees those that were there when it began."""

    def __iter__(self):
        return iter(list(super().keys()))

    def items(self):
        return list(super().items())


class Server:
    def __init__(self):
        self.objects, self.classes, self.tags, self.uploads = Objects(), {}, {}, {}
        self.lifecycle = None
        self.log, self.faults, self.before = [], [], {}
        self.keys = {KEY_ID: SECRET}
        self.tokens = {}          # key id: the session token that it needs
        self.bearers = set()
        self.region = REGION
        self.clock_ahead_s = 0
        self.ignores_conditions = False
        self.page = 1000
        self.role = None          # (key id, secret, token, seconds): what the services below give
        self.bytes_s = None       # how fast bodies are taken; None: as they come
        self.lock = threading.RLock()
        handler = type("H", (Handler,), {"store": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # clients may go away
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def misbehave(self, match, how, times=1):
        """match: a method, or a piece of the query: "PUT", "partNumber=2", "POST uploadId". "stale_list" answers a
        listing with what was there when this was called."""
        self.before = dict(self.objects)
        self.faults.append([match.split(), how, times])

    def fault_for(self, method, target):
        with self.lock:
            for fault in self.faults:
                words, how, times = fault
                if all(w == method or w in target for w in words):
                    fault[2] -= 1
                    if times == 1:
                        self.faults.remove(fault)
                    return how
        return None

    def count(self, *words):
        return sum(all(w == m or w in t for w in words) for m, t in self.log)

    # --- who asks ---

    def check(self, method, path, query, headers, body):
        auth = headers.get("authorization", "")
        if auth.startswith("Bearer "):
            if auth[7:] not in self.bearers:
                raise Refused(401, "AuthenticationRequired")
            return GOOGLE
        words = GOOGLE if auth.startswith("GOOG4") else AWS
        if not auth.startswith(words["algorithm"] + " "):
            raise Refused(403, "AccessDenied", "no signature")
        fields = dict(f.strip().split("=", 1) for f in auth.split(" ", 1)[1].split(","))
        key_id, scope = fields["Credential"].split("/", 1)
        stamp = headers[words["x"] + "-date"]
        now = time.time() + self.clock_ahead_s
        if abs(now - time.mktime(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) + time.timezone) > 900:
            raise Refused(403, "RequestTimeTooSkewed")
        day, region, rest = scope.split("/", 2)
        if words is AWS and region != self.region:
            raise Refused(400, "AuthorizationHeaderMalformed", "wrong region",
                          [("x-amz-bucket-region", self.region)], f"<Region>{self.region}</Region>")
        if day != stamp[:8] or rest != words["end"] or key_id not in self.keys:
            raise Refused(403, "InvalidAccessKeyId")
        names = fields["SignedHeaders"].split(";")
        must = {"host", words["x"] + "-date", words["x"] + "-content-sha256"}
        must |= {h for h in headers if h.startswith("x-")}
        if not must <= set(names) or names != sorted(names):
            raise Refused(403, "AccessDenied", f"not signed: {must - set(names)}")
        payload = headers[words["x"] + "-content-sha256"]
        pairs = sorted((urllib.parse.quote(k, safe="-._~"), urllib.parse.quote(v, safe="-._~"))
                       for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
        canonical = "\n".join([method, urllib.parse.quote(urllib.parse.unquote(path), safe="-._~/"),
                               "&".join(f"{k}={v}" for k, v in pairs),
                               "".join(f"{n}:{headers[n].strip()}\n" for n in names),
                               ";".join(names), payload])
        to_sign = "\n".join([words["algorithm"], stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        if sign(words, self.keys[key_id], scope, to_sign) != fields["Signature"]:
            raise Refused(403, "SignatureDoesNotMatch")
        if hashlib.sha256(body).hexdigest() != payload:
            raise Refused(400, "XAmzContentSHA256Mismatch")
        if key_id in self.tokens and headers.get("x-amz-security-token") != self.tokens[key_id]:
            raise Refused(400, "ExpiredToken", "The provided token has expired.")
        return words

    def check_sum(self, headers, body, needed):
        said = headers.get("x-amz-checksum-crc32c") or headers.get("x-goog-hash", "").removeprefix("crc32c=")
        if needed and not said:
            raise Refused(400, "InvalidRequest", "no checksum")
        if said and said != crc32c(body):
            raise Refused(400, "BadDigest")

    # --- services that give credentials, on the same port ---

    def service(self, method, path, headers, body):
        """The body of an answer, None where it is no question to such a service."""
        key_id, secret, token, life_s = self.role or (None,) * 4
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + (life_s or 0)))
        keys = f'{{"AccessKeyId":"{key_id}","SecretAccessKey":"{secret}","Token":"{token}","Expiration":"{until}"}}'
        near = "/latest/meta-data/iam/security-credentials/"
        if (method, path) == ("PUT", "/latest/api/token"):
            return b"imds-token" if headers.get("x-aws-ec2-metadata-token-ttl-seconds") else b"wrong"
        if path.startswith(near):
            return (keys if path != near else "role").encode() if headers.get("x-aws-ec2-metadata-token") == "imds-token" else b"wrong"
        if path == "/container":
            return keys.encode() if headers.get("authorization") == "pod-token" else b"wrong"
        if path.startswith("/computeMetadata/") and headers.get("metadata-flavor") == "Google":
            return f'{{"access_token":"{token}","expires_in":{life_s},"token_type":"Bearer"}}'.encode()
        if (method, path) == ("POST", "/") and b"WebIdentityToken=web-token" in body:
            return (f"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key_id}"
                    f"</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>"
                    f"<Expiration>{until}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                    "</AssumeRoleWithWebIdentityResponse>").encode()
        return None

    # --- what is asked ---

    def answer(self, method, key, q, headers, body, words, how):
        if "lifecycle" in q:
            return self.on_lifecycle(method, headers, body)
        if method == "GET" and not key:
            return self.list_uploads(q) if "uploads" in q else self.list(q, self.before if how == "stale_list" else self.objects)
        if "uploads" in q or "uploadId" in q:
            return self.multipart(method, key, q, headers, body)
        if "tagging" in q:
            self.check_sum(headers, body, True)
            self.tags[key] = {t.findtext("Key"): t.findtext("Value") for t in ElementTree.fromstring(body).iter("Tag")}
            return 200, [], b""
        if "restore" in q:
            self.classes[key] = self.classes[key] + " restoring"
            return 202, [], b""
        if method == "PUT":
            self.check_sum(headers, body, True)
            absent = headers.get("if-none-match") == "*" or headers.get("x-goog-if-generation-match") == "0"
            if absent and key in self.objects and not self.ignores_conditions:
                raise Refused(412, "PreconditionFailed")
            self.objects[key] = body
            self.classes[key] = headers.get(words["x"] + "-storage-class", "")
            return 200, [("ETag", '"%s"' % hashlib.md5(body).hexdigest())], b""
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, [], b""
        return self.get(key, headers)

    def get(self, key, headers):
        if key not in self.objects:
            raise Refused(404, "NoSuchKey")
        body, extra = self.objects[key], []
        kind = self.classes.get(key, "")
        if kind:
            extra.append(("x-amz-storage-class", kind.split()[0]))
        if kind.endswith("restoring"):
            extra.append(("x-amz-restore", 'ongoing-request="true"'))
        if "range" in headers:
            first, last = map(int, headers["range"].removeprefix("bytes=").split("-"))
            return 206, extra, body[first:last + 1]
        return 200, extra, body

    def list(self, q, objects):
        prefix, delimiter = q.get("prefix", ""), q.get("delimiter", "")
        names = collections.OrderedDict()
        for key in sorted(objects):
            if key.startswith(prefix):
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                names[key if cut < 0 else key[:cut + 1]] = cut < 0
        names = [n for n in names if n > q.get("continuation-token", "")]
        shown, more = names[:self.page], len(names) > self.page
        escape = lambda s: s.replace("&", "&amp;").replace("<", "&lt;")
        xml = "".join(
            f"<Contents><Key>{escape(n)}</Key><Size>{len(objects[n])}</Size>"
            f"<StorageClass>{self.classes.get(n) or 'STANDARD'}</StorageClass></Contents>" if n in objects
            else f"<CommonPrefixes><Prefix>{escape(n)}</Prefix></CommonPrefixes>" for n in shown)
        if more:
            xml += f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>"
        return 200, [], (f'<?xml version="1.0"?><ListBucketResult xmlns="x"><IsTruncated>{str(more).lower()}'
                         f"</IsTruncated>{xml}</ListBucketResult>").encode()

    def list_uploads(self, q):
        xml = "".join(f"<Upload><Key>{u['key']}</Key><UploadId>{i}</UploadId></Upload>"
                      for i, u in self.uploads.items() if u["key"].startswith(q.get("prefix", "")))
        return 200, [], f"<ListMultipartUploadsResult>{xml}</ListMultipartUploadsResult>".encode()

    def multipart(self, method, key, q, headers, body):
        if "uploads" in q:
            name = f"upload+{len(self.log)}/="
            self.uploads[name] = {"key": key, "parts": {}, "class": headers.get("x-amz-storage-class", "")}
            return 200, [], f"<R><UploadId>{name}</UploadId></R>".encode()
        upload = self.uploads.get(q["uploadId"])
        if not upload or upload["key"] != key:
            raise Refused(404, "NoSuchUpload")
        if method == "PUT":
            self.check_sum(headers, body, True)
            upload["parts"][int(q["partNumber"])] = body
            return 200, [("ETag", '"%s"' % hashlib.md5(body).hexdigest())], b""
        if method == "DELETE":
            del self.uploads[q["uploadId"]]
            return 204, [], b""
        if method == "GET":
            xml = "".join(f"<Part><PartNumber>{n}</PartNumber><Size>{len(p)}</Size><ETag>\"{hashlib.md5(p).hexdigest()}\""
                          f"</ETag><ChecksumCRC32C>{crc32c(p)}</ChecksumCRC32C></Part>"
                          for n, p in sorted(upload["parts"].items()))
            return 200, [], f"<ListPartsResult><IsTruncated>false</IsTruncated>{xml}</ListPartsResult>".encode()
        whole = b""
        for i, part in enumerate(ElementTree.fromstring(body).iter("Part")):
            data = upload["parts"][int(part.findtext("PartNumber"))]
            if int(part.findtext("PartNumber")) != i + 1 or part.findtext("ChecksumCRC32C") != crc32c(data) or \
                    part.findtext("ETag") != '"%s"' % hashlib.md5(data).hexdigest():
                raise Refused(400, "InvalidPart")
            whole += data
        self.objects[key], self.classes[key] = whole, upload["class"]
        del self.uploads[q["uploadId"]]
        return 200, [], b"<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"

    def on_lifecycle(self, method, headers, body):
        if method == "PUT":
            self.check_sum(headers, body, True)
            self.lifecycle = body
        if self.lifecycle is None:
            raise Refused(404, "NoSuchLifecycleConfiguration")
        return 200, [], self.lifecycle if method == "GET" else b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return formatdate(time.time() + self.store.clock_ahead_s, usegmt=True)

    def handle_any(self):
        store = self.store
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if store.bytes_s:
            time.sleep(len(body) / store.bytes_s)
        headers = {k.lower(): v for k, v in self.headers.items()}
        path, _, query = self.path.partition("?")
        store.log.append((self.command, self.path))
        given = store.service(self.command, path, headers, body)
        if given is not None:
            return self.reply(200, [], given, None)
        how = store.fault_for(self.command, self.path)
        try:
            if how == "hang":
                time.sleep(HANG_S)
            if how in ("torn", "hang"):
                raise Torn
            if how and how[0] in "345":
                status, _, code = how.partition(" ")
                raise Refused(int(status), code or "InternalError")
            q = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            host, name = headers["host"].split(":")[0], urllib.parse.unquote(path)
            key = name[1:] if host.startswith(BUCKET + ".") else name[1:].partition("/")[2]
            if not host.startswith(BUCKET + ".") and name[1:].partition("/")[0] != BUCKET:
                raise Refused(404, "NoSuchBucket")
            with store.lock:
                words = store.check(self.command, path, query, headers, body)
                status, extra, data = store.answer(self.command, key, q, headers, body, words, how)
            if how == "torn_after":
                raise Torn
            if how == "error_in_200":
                data = b'<?xml version="1.0"?>\n  <Error><Code>InternalError</Code><Message>try again</Message></Error>'
            if how == "wrong_bytes" and data:
                data = data[:len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1:]
            self.reply(status, extra, data, how)
        except Refused as e:
            xml = f"<Error><Code>{e.code}</Code><Message>{e.message}</Message>{e.extra}</Error>"
            self.reply(e.status, e.headers, xml.encode(), how)
        except Torn:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def reply(self, status, headers, data, how):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data[:len(data) // 2] if how == "torn_body" else data)
        if how == "torn_body":
            raise Torn

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any
