"""The manual: every public name, setting and command occurs in it, whatever it mentions exists, and every link leads
somewhere."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import ocannl as oc
from ocannl import nn, show, train
from ocannl.base import errors
from ocannl.base.config import SETTINGS
from ocannl.lang.core.symbols import Symbol
from ocannl.lang.record.code import Code

typer = pytest.importorskip("typer")

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(DOCS.glob("*.md"))
READMES = [README, *sorted(ROOT.glob("packages/*/README.md"))]

FENCE = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
DIRECTIVE_OPTION = re.compile(r"^:([\w-]+): *(.*)\n", re.MULTILINE)
INLINE_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*(?![\w.>-])")

INTERNAL = {  # members without an underscore that other modules of the package use
    oc.Tensor: "accesses active_operands application as_operand block_results counted effects emit gradient_code"
    " gradient_step handle initial is_named literal node origin path provenance rename_if_unnamed repeated_step scope"
    " state_access stream typing value_code value_step weights zero_gradient",
    oc.Context: "bind compile_comp get host_array is_initialized prepare_run readable record_run refuse_closed"
    " require_array set upload_contents",
    oc.Block: "arguments asks_mode build_lock draw_count members members_by_mode path path_of stream",
    oc.Dim: "cell name",
    Code: "items keep_reasons",
    Symbol: "kind",
    train.Batches: "check_partial create_placeholders counted pads rewound",
    train.EarlyStopping: "checkpoint_parts",
    train.Fitted: "checkpoint_parts",
    train.LossScale: "parts",
    oc.Routine: "check_symbols",
    oc.World: "exchange gatherer next_pair_tag next_tag require_open run signal slot wait",
    train.ReduceOnPlateau: "checkpoint_parts",
}
PUBLIC_CLASSES = (
    *INTERNAL, oc.Graph, oc.GraphNode, train.Checkpoints, train.DataParallel, train.EMA, train.EpochResult,
    train.Metric, oc.World,
)  # fmt: skip
EXTERNAL_OPTIONS = {  # of pip, pytest and Slurm
    "--find-links", "--pyargs", "--nodes", "--ntasks-per-node", "--cpus-per-task",
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what the pages say


def included(text: str) -> str:
    """Returns a page with the text of its `include` and `literalinclude` directives, and of its substitutions."""

    def replace(fence: re.Match[str]) -> str:
        _, info, body = fence.groups()
        directive = re.fullmatch(r"\{(literalinclude|include)\} (\S+)", info.strip())
        return fence[0] if directive is None else excerpt(DOCS / directive[2], dict(DIRECTIVE_OPTION.findall(body)))

    text = FENCE.sub(replace, text)
    substitutions = runpy.run_path(str(DOCS / "conf.py"))["myst_substitutions"] if "{{" in text else {}
    return re.sub(r"\{\{ (\w+) \}\}", lambda name: substitutions[name[1]], text)


def excerpt(path: Path, options: dict[str, str]) -> str:
    """Returns the part of a file that a directive includes, as code if the directive is `literalinclude`."""
    text = path.read_text(encoding="utf-8")
    if "start-at" in options:
        text = text[text.index(options["start-at"].strip("'")) :]
    if "end-before" in options:
        text = text[: text.index(options["end-before"].strip("'"))]
    return f"```text\n{text}\n```" if "language" in options else text


def code_in(text: str) -> Iterator[str]:
    """Yields the code of a page: its blocks, and its inline code."""
    for fence in FENCE.finditer(text):
        yield fence[3]
    for span in INLINE_CODE.finditer(FENCE.sub("", text)):
        yield span[2]


@cache
def code_of(path: Path) -> tuple[str, ...]:
    return tuple(code_in(included(path.read_text(encoding="utf-8"))))


@cache
def code_of_all_pages() -> str:
    return "\n".join(code for page in PAGES for code in code_of(page))


def undocumented(patterns: dict[str, str]) -> list[str]:
    text = code_of_all_pages()
    return [name for name, pattern in patterns.items() if not re.search(pattern, text)]


def word(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def member(name: str) -> str:
    return rf"\.{name}\b"


# ------------------------------------------------------------------------------------------------- public is on a page


@pytest.mark.parametrize(("prefix", "module"), [("oc", oc), ("nn", nn), ("train", train), ("show", show)])
def test_names_of_modules_are_documented(prefix: str, module: ModuleType) -> None:
    def pattern(name: str) -> str:
        return rf"\b{prefix}\.{name}\b" if is_function(getattr(module, name)) else word(name)

    assert undocumented({name: pattern(name) for name in module.__all__}) == []


def is_function(value: object) -> bool:
    """Whether a name is called with its prefix in user code; types, data types and errors also occur without."""
    return callable(value) and not isinstance(value, type | type(oc.float32))


@pytest.mark.parametrize("kind", PUBLIC_CLASSES, ids=lambda kind: kind.__name__)
def test_members_of_classes_are_documented(kind: type) -> None:
    operations = set(oc.__all__) if kind is not oc.Context else set()
    public = {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}
    internal = set(INTERNAL.get(kind, "").split())
    inherited = set(dir(Mapping)) if issubclass(kind, Mapping) else set()
    documented = public - internal - operations - inherited
    assert undocumented({name: member(name) for name in sorted(documented)}) == []


@pytest.mark.parametrize("kind", INTERNAL, ids=lambda kind: kind.__name__)
def test_internal_members_exist(kind: type) -> None:
    assert [name for name in INTERNAL[kind].split() if not hasattr(kind, name)] == []


def test_errors_are_documented() -> None:
    names = [name for name, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__]
    assert len(names) > 20
    assert undocumented({name: word(name) for name in names}) == []


def test_settings_are_documented() -> None:
    text = "\n".join(code_of(DOCS / "configuration.md"))
    assert [s.name for s in SETTINGS if not re.search(word(s.name), text) or s.variable not in text] == []


def test_tasks_are_documented() -> None:
    tasks = runpy.run_path(str(ROOT / "dev.py"))["TASKS"]
    assert undocumented({task: rf"dev\.py {task}\b" for task in tasks}) == []


def commands() -> dict[str, set[str]]:
    """Returns the commands of the command line with their options."""
    from ocannl.cli.app import build

    found: dict[str, set[str]] = {}

    def walk(command: object, name: str) -> None:
        options = {option for p in command.params for option in p.opts if option.startswith("--")}  # type: ignore[attr-defined]
        children = getattr(command, "commands", {})
        found[name] = options
        for child in children:
            walk(children[child], f"{name} {child}")

    walk(typer.main.get_command(build()), "ocannl")
    return found


def test_commands_and_their_options_are_documented() -> None:
    text = "\n".join(code_of(DOCS / "command-line.md"))
    for command, options in commands().items():
        assert re.search(word(command), text), command
        assert sorted(options - {option for option in options if re.search(word(option), text)}) == [], command


# ------------------------------------------------------------------------------------------------ what is said exists


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_on_pages_exist(page: Path) -> None:
    text = "\n".join(code_of(page))
    modules = {"oc": oc, "nn": nn, "train": train, "show": show}
    names = {(m, n) for m, n in re.findall(r"(?<![\w./\"-])(oc|nn|train|show)\.(\w+)", text) if n not in ("py", "NAME")}
    assert sorted(f"{m}.{n}" for m, n in names if not hasattr(modules[m], n)) == []


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_options_on_pages_exist(page: Path) -> None:
    wrong = []
    for line in (line for code in code_of(page) for line in code.splitlines()):
        wrong += [f"{option}: {line}" for option in OPTION.findall(line) if option not in options_for(line)]
    assert wrong == []


def options_for(line: str) -> set[str]:
    """Returns the options that a line may contain: those of the command in it, or else all options."""
    script = re.search(r"(?:benchmarks|examples)/\w+\.py", line)
    if script is not None:
        return quoted_options([ROOT / script[0], *ROOT.glob("benchmarks/compare/*.py")])
    command = re.search(r"\bocannl((?: [a-z]+)*)(?= |$)", line)
    if command is not None:
        words = command[0].split()
        options_of_commands = commands()
        while len(words) > 1 and " ".join(words) not in options_of_commands:
            words.pop()
        return options_of_commands[" ".join(words)] | ({"--help", "--version"} if len(words) == 1 else {"--help"})
    return all_options()


@cache
def all_options() -> set[str]:
    sources = [ROOT / "dev.py", ROOT / "tests" / "conftest.py", *ROOT.glob("benchmarks/**/*.py")]
    sources += [*ROOT.glob("changes/*.py"), *ROOT.glob("packages/*/src/**/*.py")]
    return set().union(*commands().values(), quoted_options(sources), EXTERNAL_OPTIONS, {"--help"})


def quoted_options(paths: Iterable[Path]) -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in paths if path.exists())
    return {option for text in texts for option in re.findall(r"[\"'`](--[a-z][\w-]*)[\"'` =]", text)}


def settings_of_distributions() -> set[str]:
    tables = (tomllib.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("packages/*/pyproject.toml"))
    groups = (table["project"].get("entry-points", {}).get("ocannl.settings", {}) for table in tables)
    return {name for group in groups for name in group}


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_settings_on_pages_exist(page: Path) -> None:
    text = "\n".join(code_of(page))
    calls = re.findall(r"oc\.settings\(([^)]*)\)", text)
    used = {name for call in calls for name in re.findall(r"(\w+)=", call)}
    settings = {s.name for s in SETTINGS} | settings_of_distributions()
    assert sorted(used - settings) == []
    variables = {name for name in re.findall(r"OCANNL_[A-Z_]+\b", text) if not name.endswith("_")}
    assert sorted(variables - {f"OCANNL_{name.upper()}" for name in settings} - test_variables()) == []


@cache
def test_variables() -> set[str]:
    """Returns the variables of the environment that tests read."""
    texts = [path.read_text(encoding="utf-8") for path in [*ROOT.glob("tests/**/*.py"), ROOT / "noxfile.py"]]
    return {name for text in texts for name in re.findall(r"OCANNL_[A-Z_]+\b", text)} | {
        f"OCANNL_TEST_{name}" for name in re.findall(r"\"([A-Z]+)\": \"", texts[-1])
    }


test_variables.__test__ = False  # type: ignore[attr-defined]


# --------------------------------------------------------------------------------------------------------------- links


def anchors(path: Path) -> set[str]:
    """Returns the anchors of the headings of a page, as GitHub and MyST form them."""
    text = path.read_text(encoding="utf-8")
    headings = HEADING.findall(FENCE.sub("", included(text) if path.suffix == ".md" else text))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = INLINE_CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    dead = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert dead == []


def test_every_page_is_in_the_index() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    links = {target.partition("#")[0] for target in LINK.findall(text)}
    tree = "".join(fence[3] for fence in FENCE.finditer(text) if fence[2].startswith("{toctree}"))
    names = {page.stem for page in PAGES} - {"index"}
    assert names == {Path(link).stem for link in links if link.endswith(".md") and "/" not in link}
    assert names == {line for line in tree.splitlines() if line and not line.startswith(":")}


# -------------------------------------------------------------------------------------------------------------- README


def test_examples_of_the_readme(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(DOCS)
    failed = importlib.import_module("run_examples").run(README)
    assert failed == 0, capsys.readouterr().out


def test_picture_of_the_readme_shows_the_newest_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    summary = importlib.import_module("summary")
    newest = max(summary.RESULTS.glob("????-??-??.json"))
    results = json.loads(newest.read_text(encoding="utf-8"))
    readme = README.read_text(encoding="utf-8")
    assert f"benchmarks/results/{newest.stem}-summary.svg" in readme
    for version in summary.versions(results).values():
        assert version.split()[-1].partition("+")[0] in readme, version
    picture = newest.with_name(f"{newest.stem}-summary.svg").read_text(encoding="utf-8")
    assert all(line in picture for line in summary.caption(results).splitlines())
    for panel in summary.ratios(results).values():
        for name, ratios in panel.items():
            assert f">{name}</text>" in picture
            assert all(f">{ratio:.1f}</text>" in picture for ratio in ratios)


def test_distributions_are_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    names = {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}
    assert names == set(re.findall(r"^\| `(ocannl-[\w-]+)`", text, re.MULTILINE))
