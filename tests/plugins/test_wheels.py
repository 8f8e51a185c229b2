"""Real wheels of good and bad plugins, installed by pip in random orders, each time into a fresh environment."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this environment has no pip")

LIAR = """
from dataclasses import replace
from ocannl.backend.reference.backend import ReferenceBackend
from ocannl.ir.loops import Apply, Const, Store
from ocannl.ir.ops import BY_NAME
from ocannl.ir.walk import rewrite_body

class Liar(ReferenceBackend):
    {claims}

    def compile(self, procs):
        return super().compile([replace(p, body=rewrite_body(p.body, lie)) for p in procs])

def lie(node):
    {lie}
    return node
"""


@dataclass(frozen=True)
class Plugin:
    """What `oc.backends()` says of it, None when it is usable, and what the doctor says."""

    name: str
    text: str
    listed: str | None
    examined: str
    entry: str = ""  # what the metadata names instead of the module


ABORT, SLEEP = "__import__('os').abort()", "__import__('time').sleep(1000)"
WORKS = "works: "
SEEDS = range(3)
ALWAYS = "good", "other", "aborting", "slow"
SAMPLED_KINDS = 6  # additional kinds per environment, limited by the time of a test
TWINS = "provided by test-twin-a 1.0 and test-twin-b 1.0"


def plugins(source):
    """Of every kind, by distribution."""

    def liar(name, lie="", claims="pass"):
        return source(name, before=LIAR.format(lie=lie, claims=claims), load="Liar", priority=1)

    return {
        "good": Plugin("fine", source("fine", priority=90), None, WORKS),
        "other": Plugin("other", source("other"), None, WORKS),
        "unimportable": Plugin(
            "broken", "import no_such_module", "No module named 'no_such_module'", "No module named"
        ),
        "old": Plugin("old", source("old", api=0), "pip install --upgrade test-old", "is built for version 0"),
        "new": Plugin("new", source("new", api=2), "pip install --upgrade ocannl-core", "is built for version 2"),
        "hookless": Plugin("hookless", "x = 1", "implements no hook", "implements no hook"),
        "modest": Plugin("modest", source("modest", probe="'no such device'"), "no such device", "no such device"),
        "liar": Plugin(
            "liar",
            liar(
                "liar", "if isinstance(node, Apply) and node.op.name == 'exp': return Apply(BY_NAME['exp2'], node.args)"
            ),
            None,
            "operation `exp` is incorrect: ",
        ),
        "rounder": Plugin(
            "rounder",
            liar(
                "rounder",
                "if isinstance(node, Store) and node.ref.buf.precision.name == 'bfloat16':"
                " return replace(node, value=Const(1.0, node.ref.buf.precision))",
            ),
            None,
            "precision `bfloat16` is incorrect: 1 instead of 4",
        ),
        "boaster": Plugin(
            "boaster",
            liar(
                "boaster",
                claims="capabilities = replace(ReferenceBackend.capabilities, precisions=frozenset({'real'}))",
            ),
            None,
            "it claims the precision `real`, which does not exist",
        ),
        "aborting": Plugin("aborting", source("aborting", probe=ABORT), "crashed with SIGABRT", "crashed with SIGABRT"),
        "stillborn": Plugin("stillborn", "import os; os.abort()", "crashed with SIGABRT", "crashed with SIGABRT"),
        "vanishing": Plugin(
            "vanishing", source("vanishing", probe="__import__('os')._exit(0)"), "ended with status 0", "status 0"
        ),
        "late": Plugin("late", source("late", load=f"lambda: {ABORT}"), "crashed with SIGABRT", "crashed with SIGABRT"),
        "slow": Plugin(
            "slow", source("slow", probe=SLEEP), "did not respond within 5 seconds", "did not respond within 3 seconds"
        ),
        "twin-a": Plugin("twin", source("twin"), TWINS, TWINS),
        "twin-b": Plugin("twin", source("twin"), TWINS, TWINS),
        "imposter": Plugin("numpy", source("numpy"), "belongs to ocannl-core", "belongs to ocannl-core"),
        "leaving": Plugin("leaving", "raise SystemExit(0)", "failed with SystemExit: 0", "failed with SystemExit: 0"),
        "interrupting": Plugin(
            "interrupting",
            source("interrupting", inside="raise KeyboardInterrupt"),
            "KeyboardInterrupt",
            "KeyboardInterrupt",
        ),
        "misplaced": Plugin("nowhere", "", "is broken", "is broken", entry="not a module!"),
    }


@dataclass(frozen=True)
class Environment:
    """A virtual environment that finds what this one finds, and what is installed in it."""

    folder: Path

    def start(self, *arguments):
        path = os.pathsep.join(p for p in sys.path if p)
        variables = {k: v for k, v in os.environ.items() if not k.startswith("OCANNL_")}
        variables |= {"PYTHONPATH": path, "OCANNL_CACHE_DIR": str(self.folder / "cache")}
        command = [str(self.folder / ("Scripts" if os.name == "nt" else "bin") / "python"), *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *arguments):
        child = self.start(*arguments)
        stdout, complaint = child.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, child.returncode, stdout, complaint)

    def pip(self, *commands):
        """Several commands in one process, in order."""
        code = "import json, sys; from pip._internal.cli.main import main\n"
        code += "sys.exit(max(main(c) for c in json.loads(sys.argv[1])))"
        done = self.run("-c", code, json.dumps(commands))
        assert done.returncode == 0, done.stderr

    def install(self, *wheels):
        options = ["-qq", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
        self.pip(*(["install", *options, str(wheel)] for wheel in wheels))

    def uninstall(self, *distributions):
        self.pip(["uninstall", "-qq", "--yes", "--disable-pip-version-check", *distributions])


@pytest.fixture(scope="module")
def table(source):
    return plugins(source)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory, table, wheel):
    folder = tmp_path_factory.mktemp("wheels")
    return {dist: wheel(folder, p.name, p.text, dist=f"test-{dist}", entry=p.entry) for dist, p in table.items()}


def sample(table, seed):
    """Distributions in the order in which they are installed."""
    random, remaining_kinds = Random(seed), sorted(set(table) - {*ALWAYS, "twin-b"})
    numbers = range(seed * SAMPLED_KINDS, (seed + 1) * SAMPLED_KINDS)
    chosen = [*ALWAYS, *(remaining_kinds[n % len(remaining_kinds)] for n in numbers)]
    return random.sample(chosen, len(chosen)) + ["twin-b"] * ("twin-a" in chosen)


@pytest.fixture(scope="module")
def environments(tmp_path_factory, table, wheels):
    """An environment for each seed."""
    built = {}

    def environment(seed):
        if seed not in built:
            folder = tmp_path_factory.mktemp("environment")
            venv.EnvBuilder(with_pip=False).create(folder)
            built[seed] = Environment(folder)
            order = sample(table, seed)
            print(f"seed {seed}: {', '.join(order)}")
            built[seed].install(*(wheels[dist] for dist in order))
        return built[seed]

    return environment


def test_all_kinds_are_installed(table):
    assert {dist for seed in SEEDS for dist in sample(table, seed)} == set(table)


LIST = """
import json, ocannl as oc
from dataclasses import asdict
from ocannl.backend import plugin_check
plugin_check.TIMEOUT_SECONDS = 5.0
rows, best = oc.backends(), oc.Context()
found = (oc.tensor([1.0, 2.0, 3.0]) * 2).numpy(oc.Context("other"))
print(json.dumps([[asdict(row) for row in rows], found.tolist()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_list_is_correct_and_good_plugins_work(environments, table, seed):
    done = environments(seed).run("-c", LIST)
    assert done.returncode == 0, done.stderr
    rows, product = json.loads(done.stdout.splitlines()[-1])
    assert product == [2.0, 4.0, 6.0]
    rows_ = {row["distribution"].removeprefix("test-"): row for row in rows}
    assert rows_["ocannl-core"]["usable"]
    assert rows_.keys() >= set(sample(table, seed))
    for dist in sample(table, seed):
        row, plugin = rows_[dist], table[dist]
        assert row["name"] == plugin.name
        assert row["usable"] == (plugin.listed is None), row
        assert (plugin.listed or "") in (row["reason"] or ""), row
    for dist in ("aborting", "slow"):
        assert f"repair it or run: pip uninstall test-{dist}" in done.stderr


def timed(environment, *arguments):
    start = time.monotonic()
    done = environment.run(*arguments)
    return time.monotonic() - start, done


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_doctor_is_correct_within_the_time_limit(environments, table, seed):
    idle, _ = timed(environments(seed), "-m", "ocannl.cli", "doctor", "--help")
    seconds, done = timed(environments(seed), "-m", "ocannl.cli", "doctor", "--limit", "3")
    lines = [line.split("\t") for line in done.stdout.splitlines()[1:] if line.count("\t") == 2]  # not the processor
    for plugin in (table[dist] for dist in sample(table, seed)):
        verdicts = [(verdict, message) for name, verdict, message in lines if name == plugin.name]
        wanted = "PASS" if plugin.examined == WORKS else "FAIL"
        assert any(verdict == wanted and plugin.examined in message for verdict, message in verdicts), verdicts
    assert [verdict for name, verdict, message in lines if name == "numpy" and WORKS in message] == ["PASS"]
    assert done.returncode == 1 and not done.stderr
    assert done.stdout.startswith("time limit: 3 seconds for each backend")
    assert seconds < 3 + max(2, 4 * idle)  # the limit, and what it has to do: more where others are at work


USE = """
import sys
import ocannl as oc
ctx = oc.Context("fine")
a = oc.tensor([1.0, 2.0])
print((a + 1).numpy(ctx).tolist(), flush=True)
sys.stdin.readline()
print((a * 3).numpy(ctx).tolist(), (a * 5).numpy(oc.Context("fine")).tolist(), [r.name for r in oc.backends()])
try:
    oc.Context("other")
except oc.UnknownBackend:
    print("gone")
"""
WATCH = """
import sys, threading
import ocannl as oc
stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set())).start()
state = ""
while not stopped.is_set():
    rows = {row.name: row.usable for row in oc.backends()}
    assert rows["numpy"], rows
    assert oc.Context().backend.name
    if state != (state := str(rows.get("fine"))):
        print(state, flush=True)
"""


def await_line(process, wanted):
    """Reads lines until this one; the process prints every state that it observes."""
    for line in process.stdout:
        if line.strip() == wanted:
            return
    raise AssertionError(f"the process has ended without printing {wanted}: {process.stderr.read()}")


@pytest.mark.slow
def test_uninstalled_while_running(tmp_path, wheels):
    """One process has it loaded, and another asks for what there is again and again."""
    environment_ = Environment(tmp_path)
    venv.EnvBuilder(with_pip=False).create(tmp_path)
    good = wheels["good"], wheels["other"]
    environment_.install(*good)
    user, watcher = environment_.start("-c", USE), environment_.start("-c", WATCH)
    assert user.stdout.readline() == "[2.0, 3.0]\n"
    await_line(watcher, "True")
    for _ in range(3):
        environment_.uninstall("test-good", "test-other")
        await_line(watcher, "None")
        environment_.install(*good)
        await_line(watcher, "True")
    environment_.uninstall("test-good", "test-other")
    stdout, wrong = user.communicate("\n", timeout=60)
    first, second = stdout.splitlines()
    assert first.startswith("[3.0, 6.0] [5.0, 10.0] [") and "numpy" in first and "fine" not in first
    assert second == "gone" and user.returncode == 0 and not wrong
    await_line(watcher, "None")
    _, wrong = watcher.communicate("\n", timeout=60)
    assert watcher.returncode == 0, wrong
