"""The program `frugal`: where it is, and a command of it whose events are read as they come."""
import json
import os
import shutil
import subprocess
import sys
import sysconfig


class Error(RuntimeError):
    """What the program said on stderr before it gave up; `code` is its exit code (2: usage, 3: the world, 1: the answer is no)."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


def program():
    """Path of the program: $FRUGAL, or the one that was installed with this module, or the first on PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.environ.get("FRUGAL"), sysconfig.get_path("scripts")]
    if hasattr(sysconfig, "get_preferred_scheme"):
        places.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    places += [os.path.dirname(sys.executable), os.path.join(here, "..", "bin")]  # the last: pip install --target
    for place in places:
        if not place:
            continue
        path = place if os.path.isfile(place) else os.path.join(place, "frugal")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    found = shutil.which("frugal")
    if not found:
        raise FileNotFoundError("the program frugal was not found: install the wheel or the package, or set FRUGAL to its path")
    return found


def words(settings, flags):
    """Keyword arguments as the program takes them: --flag-name VALUE; a dict of settings as KEY=VALUE."""
    out = [f"{key}={text(value)}" for key, value in (settings or {}).items()]
    for name, value in flags.items():
        if value is None or value is False:
            continue
        out.append("--" + name.replace("_", "-"))
        if value is not True:
            out.append(text(value))
    return out


def text(value):
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(one) for one in value) + "]"
    return str(value)


class Run:
    """A command of frugal that runs with --json. Iterating gives its events as dicts, as docs/formats/json_events.md has
    them, until it ends; `done` is the last event of that name. Raises Error where the program fails."""

    def __init__(self, command, *arguments, settings=None, **flags):
        line = [program(), command, *map(str, arguments), *words(settings, flags), "--json"]
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.done = None
        self.code = None

    def __iter__(self):
        import threading

        said = []
        reader = threading.Thread(target=lambda: said.extend(self.process.stderr), daemon=True)
        reader.start()
        failed = None
        for line in self.process.stdout:
            event = json.loads(line)
            if event.get("event") == "error":
                failed = event["text"]
                continue
            if event.get("event") == "done":
                self.done = event
            yield event
        self.code = self.process.wait()
        reader.join()
        if self.code and (failed or self.code != 4):  # 4: it was asked to stop
            raise Error(failed or b"".join(said).decode(errors="replace").strip(), self.code)

    def stop(self):
        """Asks it to save and end, as a spot notice or Ctrl-C would."""
        self.process.terminate()

    def wait(self):
        """Runs to the end; returns the event `done`, or None for a command that has none."""
        for _ in self:
            pass
        return self.done


def events(command, *arguments, settings=None, **flags):
    """for event in frugal.events("train", "run.yaml", settings={"train.steps": 100}): ..."""
    return iter(Run(command, *arguments, settings=settings, **flags))


def version():
    return next(iter(events("version")))["version"]
