"""Bad plugins: 70 with one fault each, and any number that combine faults at random, as wheels or installed files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from zipfile import ZipFile

OS, SYS = "__import__('os')", "__import__('sys')"
WRITE = "(lambda os: [os.write(int(f), b'garbage 1 2\\n{}\\n') for f in os.listdir('/proc/self/fd')"
WRITE += " if int(f) > 2 and os.path.exists(f'/proc/self/fd/{f}')])"

ACTIONS = {  # expressions that a plugin evaluates when it is imported, asked, probed or loaded
    "abort": f"{OS}.abort()",
    "exit-0": f"{OS}._exit(0)",
    "exit-42": f"{OS}._exit(42)",
    "claim": f"[print('works: 99 operations', flush=True), {OS}._exit(0)]",
    "leave": "exit()",
    "raise": "next(iter(()))",
    "divide": "1 / 0",
    "interrupt": "_raise(KeyboardInterrupt)",
    "base": "_raise(BaseException('odd'))",
    "unprintable": "_raise(Unprintable())",
    "colour": r"_raise(ValueError('\x1b[31mred\x07\u202e\n\r done'))",
    "unavailable": "_raise(BackendUnavailable('no such device'))",
    "segmentation": "__import__('ctypes').string_at(0)",
    "kill": f"{OS}.kill({OS}.getpid(), 9)",
    "kill-parent": f"{OS}.kill({OS}.getppid(), 9)",
    "close": f"{OS}.closerange(0, 4096)",
    "sleep": "__import__('time').sleep(1000)",
    "spin": "[None for _ in iter(int, 1)]",
}
HARMLESS = {  # what must not reach the process of the user: it imports the chosen plugin only
    "noise": "print('noise ' * 9999)",
    "thread": "__import__('threading').Thread(target=__import__('time').sleep, args=(1000,)).start()",
    "patch": "__import__('json').__dict__.update(dumps=None, loads=None)",
    "environment": f"{OS}.environ.clear()",
    "streams": f"[setattr({SYS}, 'stdout', None), setattr({SYS}, 'stderr', None)]",
    "at-exit": f"__import__('atexit').register({OS}.abort)",
    "grandchild": f"__import__('subprocess').Popen([{SYS}.executable, '-c', 'import time; time.sleep(20)'])",
    "garbage": f"{WRITE}({OS})",
    "folder": f"{OS}.chdir('/')",
    "nested": "__import__('ocannl').backends()",
}
STAGES = ("before", "inside", "probe", "load")
MEMBERS = {  # nonsense that a loaded backend returns
    "no-backend": {"load": "lambda: None"},
    "text": {"load": "lambda: 'a backend'"},
    "version": {"members": "version = None"},
    "devices": {"members": "device_count = lambda self: None"},
    "no-devices": {"members": "device_count = lambda self: 0"},
}
DESCRIPTIONS = {
    "api-old": {"api": "0"},
    "api-new": {"api": "2"},
    "api-text": {"api": "'1'"},
    "api-truth": {"api": "True"},
    "api-huge": {"api": "10**5000"},
    "priority-text": {"priority": "'high'"},
    "priority-huge": {"priority": "10**5000"},
    "probe-true": {"probe": "True"},
    "probe-number": {"probe": "0"},
    "probe-colour": {"probe": r"'\x1b[31m no\n device\u202e'"},
    "renamed": {"own_name": "'another'"},
}
TEXTS = {
    "empty": "",
    "syntax": "def f(:",
    "missing-module": "import no_such_module",
    "null": "x = '\0'",
    "hook-returns-text": "from ocannl.backend import hookimpl\n@hookimpl\ndef ocannl_backend(): return 'text'",
    "hook-arguments": "from ocannl.backend import hookimpl\n@hookimpl\ndef ocannl_backend(a, b, c): pass",
}
TEMPLATE = """
from ocannl.backend import BackendInfo, BackendUnavailable, hookimpl
from ocannl.backend.reference.backend import ReferenceBackend

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def _raise(error):
    raise error

{before}

class Backend(ReferenceBackend):
    {members}

def probe():
    return {probe}

@hookimpl
def ocannl_backend():
    {inside}
    return BackendInfo(
        name={own_name}, api_version={api}, description="d", priority={priority}, probe=probe, load={load}{more}
    )
"""


@dataclass(frozen=True)
class BadPlugin:
    """A distribution, the name of its backend, and the text of its module."""

    dist: str
    name: str
    text: str
    is_harmless: bool = False

    @property
    def module(self) -> str:
        return f"{self.dist.replace('-', '_')}_module"


def module_text(name: str, **details: str) -> str:
    defaults = {
        "before": "", "inside": "pass", "probe": "None", "load": "Backend", "members": "pass", "api": "1",
        "priority": "99", "own_name": repr(name), "more": "",
    }  # fmt: skip
    return TEMPLATE.format(**defaults | details)


def _detail(stage: str, action: str) -> dict[str, str]:
    if stage == "probe":
        return {"probe": f"[{action}, None][1]"}
    if stage == "load":
        return {"load": f"lambda: [{action}, Backend()][1]"}
    return {stage: action}


def single_faults() -> list[BadPlugin]:
    """70 plugins with one fault each; faults of actions go round the stages."""
    plugins = []

    def add(fault: str, text: str, name: str = "", is_harmless: bool = False) -> None:
        plugins.append(BadPlugin(f"bad-{fault}", name or f"bad-{fault}", text, is_harmless))

    for table in (ACTIONS, HARMLESS):
        for number, (fault, action) in enumerate(table.items()):
            for stage in (STAGES[number % 4], STAGES[(number + 2) % 4])[: 2 if number % 4 < 2 else 1]:
                name, priority = f"bad-{fault}-{stage}", "10" if table is HARMLESS else "99"
                text = module_text(name, priority=priority, **_detail(stage, action))
                add(f"{fault}-{stage}", text, name, table is HARMLESS)
    for fault, details in {**MEMBERS, **DESCRIPTIONS}.items():
        add(fault, module_text(f"bad-{fault}", **details))
    for fault, text in TEXTS.items():
        add(fault, text)
    add("reference", module_text("numpy"), "numpy")
    add("imposter", module_text("llvm"), "llvm")
    add("twin-a", module_text("twin"), "twin")
    add("twin-b", module_text("twin"), "twin")
    return plugins


def combined_faults(count: int, seed: int) -> list[BadPlugin]:
    """Plugins with two or three faults in different stages."""
    random, plugins = Random(seed), []
    for number in range(count):
        name, details = f"mixed-{number}", dict[str, str]()
        for stage in random.sample(STAGES, random.randint(1, 2)):
            details |= _detail(stage, random.choice([*ACTIONS.values(), *HARMLESS.values()]))
        details = random.choice([*MEMBERS.values(), *DESCRIPTIONS.values(), {}]) | details
        plugins.append(BadPlugin(name, name, module_text(name, **{"priority": "10"} | details)))
    return plugins


def install(wheels: list[Path], folder: Path) -> None:
    """Installs wheels as an installer does, without its checks."""
    (folder / "__pycache__").mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with ZipFile(wheel) as archive:
            archive.extractall(folder)
