"""build/s3_call for the tests: one call of our S3 client, in an environment of its own."""
import os, socket, subprocess, sys, time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALL = os.path.join(TOP, "build", "s3_call")
if not os.path.exists(CALL):
    print("no build/s3_call yet")
    sys.exit(77)


def call(*args, rc=0, to="s3://bucket/runs", said=None, **env):
    """Its stdout; `env` beside PATH is all that it sees, None takes a variable away."""
    base = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", "no_proxy": "*",
            "S3_LIMIT_S": "20"}
    base.update(env)
    done = subprocess.run([CALL, to, *args], env={k: v for k, v in base.items() if v is not None},
                          capture_output=True, timeout=60)
    if said is not None:
        said.append(done.stderr)
    assert done.returncode == rc, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(300):
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not listen")
