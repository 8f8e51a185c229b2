"""Pages of the explorer: their data, their errors, and their behavior in Chromium."""

from __future__ import annotations

import base64
import gzip
import json
import linecache
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accessibility import FEWER_LINES, PACKAGES, VIOLATIONS, axe_source
from browser import BROWSER, REPORT, report_of

import ocannl as oc
from ocannl import train
from ocannl.ir.assign import Origin

pytest.importorskip("ocannl_explorer")
from ocannl_explorer.generated_code import CodeOrigins, line_origins

BACKENDS = [row.name for row in oc.backends() if row.usable and row.name in ("llvm", "c", "numpy")]


@cache
def training_step(backend: str) -> Any:
    x, t = oc.placeholder("x", b=[32], o=[100]), oc.placeholder("t", b=[32], o=[10])
    hidden = oc.relu(oc.param("w1", o=[64]) @ x)
    loss = ((oc.param("w2", o=[10]) @ hidden - t) ** 2).mean().with_label("loss")
    ctx = oc.Context(backend)
    ctx.init(loss)
    ctx[x], ctx[t] = np.ones((32, 100), "float32"), np.zeros((32, 10), "float32")
    return ctx.compile(oc.seq(train.grad_update(loss), train.sgd(loss, 0.1)), name="step")


def write_profiled(folder: Path) -> Path:
    step = training_step(BACKENDS[0])
    page: Path = step.explore(folder / "step.html", profile=step.profile(1))
    return page


def data_of(page: Path) -> dict[str, Any]:
    packed = re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))
    assert packed is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    for stage in data["stages"]:
        for key, column in (("lines", 0), ("origins", 1)):
            stage[key] = [number for part in stage["parts"] for number in data["parts"][part][column]]
    return data


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_columns_lead_to_the_source(backend: str, tmp_path: Path) -> None:
    step = training_step(backend)
    page = step.explore(tmp_path / "pages" / "step.html", profile=step.profile(2))
    data = data_of(page)
    origins = data["origins"]
    (name, lines) = data["files"][0]
    assert name == Path(__file__).name and len(data["files"]) == 1
    assert "Pages of the explorer" in lines[0] and len(lines) == len(Path(__file__).read_text().splitlines())
    stages = data["stages"]
    assert [stage["name"] for stage in stages] == list(step.stages())
    for stage, text in zip(stages, step.stages().values(), strict=True):
        assert "".join(f"{data['texts'][n]}\n" for n in stage["lines"]) == text
        assert all(origins[n][2] == 0 for n in stage["origins"])
    shown = {origins[n][3] for n in stages[-1]["origins"]}
    for row in data["profile"]["rows"]:
        assert row["origins"] and {origins[n][3] for n in row["origins"]} <= shown
    assert {row["label"] for row in data["tensors"]} >= {"x", "t", "w1", "w2", "loss"}
    (weight,) = [row for row in data["tensors"] if row["label"] == "w1"]
    assert weight["shape"] == "100->64" and "output axis 1 of x is given" in weight["reasons"]
    source, *machine_code = data["generated"]
    linked = {origins[n][3] for group in source["sets"] for n in group}
    final = zip(stages[-1]["lines"], stages[-1]["origins"], strict=True)
    assert linked >= {origins[n][3] for line, n in final if " : " not in data["texts"][line]}
    assert linked <= shown
    assert len(source["lines"]) == len(step.source().splitlines())
    assert [text["name"] for text in machine_code] == (["assembly"] if backend in ("llvm", "c") else [])
    for text in machine_code:
        assert {origins[n][3] for group in text["sets"] for n in group} == linked
        assert text["lines"][0] and all(text["lines"][n].endswith(":") for n in text["headings"])
        assert len(text["lines"]) == len(text["origins"]) > 100


def test_statements_lead_to_those_they_are_part_of(tmp_path: Path) -> None:
    x = oc.placeholder("x", o=[4])
    hidden = oc.exp(x).with_label("hidden")
    result = (hidden * 2).with_label("result")
    routine = oc.Context("numpy").compile(result.forward, name="step")
    data = data_of(routine.explore(tmp_path / "step.html"))
    labels = [origin[0] for origin in data["origins"]]
    assert not data["stages"][0]["merged"]
    assert data["stages"][-1]["merged"] == [[labels.index("hidden"), [labels.index("result")]]]
    assert labels.index("hidden") not in data["stages"][-1]["origins"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_costs_and_candidates(backend: str, tmp_path: Path) -> None:
    a, b = oc.placeholder("a", o=[64, 128]), oc.placeholder("b", o=[128, 96])
    ctx = oc.Context(backend, threads=1)
    ctx[a], ctx[b] = np.ones((64, 128), "float32"), np.ones((128, 96), "float32")
    y = oc.einsum("mk; kn => mn", a, b)
    routine = ctx.compile(y.forward, name="product")
    data = data_of(routine.explore(tmp_path / "product.html", profile=routine.profile(2)))
    rows = data["profile"]["rows"]
    assert sum(row["flops"] for row in rows) >= 2 * 64 * 128 * 96
    limits, capabilities = data["limits"], ctx.backend.capabilities
    if backend == "numpy":
        assert limits is None and not data["searches"]
        return
    assert limits["gflops"] == capabilities.vector_bytes / 2 * capabilities.cpu.fmas_per_cycle * (
        capabilities.cpu.wide_megahertz / 1000
    )
    assert list(limits["bandwidths"]) == ["L1", "L2", "last-level cache", "memory"]
    (search,) = data["searches"]
    assert search["names"] == ["y"] and search["chosen"] == 0
    assert len(search["candidates"]) == len(set(search["candidates"])) > 3
    assert {data["origins"][n][0] for n in search["origins"]} == {"y"} and search["us"] == []


@pytest.mark.skipif("llvm" not in BACKENDS, reason="the NumPy backend compares no plans")
def test_equal_nests_share_their_candidates(tmp_path: Path) -> None:
    ctx = oc.Context("llvm", threads=1)
    x = layer = oc.placeholder("x", b=[64], o=[96])
    for n in range(4):
        layer = oc.tanh(oc.param(f"w{n}", o=[96]) @ layer).with_label(f"layer{n}")
    ctx.init(layer)
    ctx[x] = np.ones((64, 96), "float32")
    data = data_of(ctx.compile(layer.forward, name="layers").explore(tmp_path / "layers.html"))
    assert all(search["origins"] for search in data["searches"])
    equal = [search for search in data["searches"] if len(search["names"]) > 1]
    linked = [{data["origins"][n][0] for n in search["origins"]} for search in equal]
    assert any({"layer1", "layer2"} <= labels for labels in linked)


@pytest.mark.skipif("llvm" not in BACKENDS, reason="other backends take long to compile candidates")
def test_times_of_candidates(tmp_path: Path) -> None:
    a, b = oc.placeholder("a", o=[61, 127]), oc.placeholder("b", o=[127, 95])  # no other test measures this product
    ctx = oc.Context("llvm", threads=1)
    ctx[a], ctx[b] = np.ones((61, 127), "float32"), np.ones((127, 95), "float32")
    y = oc.einsum("mk; kn => mn", a, b)
    with oc.settings(autotune=600):
        routine = ctx.compile(y.forward, name="product")
    (search,) = data_of(routine.explore(tmp_path / "product.html"))["searches"]
    times = search["us"]
    assert len(times) == len(search["candidates"]) and all(time is None or time > 0 for time in times)
    assert times[search["chosen"]] <= times[0]


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    text = training_step("numpy").explore(tmp_path / "step.html").read_text(encoding="utf-8")
    markup = text.replace("http://www.w3.org/2000/svg", "")  # the name of a namespace
    assert not re.search(r"https?://|\ssrc=|@import|url\(|<link", markup)
    assert "default-src 'none'" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    hostile = "</script><img src=x>"
    ctx = oc.Context("numpy")
    x = oc.placeholder(hostile, o=[3])
    routine = ctx.compile((x * 2).with_label("<b>").forward, name="step")
    text = routine.explore(tmp_path / "step.html").read_text(encoding="utf-8")
    assert hostile not in text and text.count("</script>") == 2
    assert hostile in {row["label"] for row in data_of(tmp_path / "step.html")["tensors"]}


def test_errors(tmp_path: Path) -> None:
    step = training_step("numpy")
    with pytest.raises(oc.ArgumentError, match=r"a routine is explored, the result of `ctx.compile\(code\)`, not 3"):
        oc.explore(3, tmp_path / "a.html")
    with pytest.raises(oc.ArgumentError, match="a path is a string or `pathlib.Path`, not 3"):
        step.explore(3)
    with pytest.raises(oc.ArgumentError, match=r"`profile` is a result of `routine.profile\(\)`, not 3"):
        step.explore(tmp_path / "a.html", profile=3)
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "a.html", tmp_path / "\0"):
        with pytest.raises(oc.ArgumentError, match="cannot be written"):
            step.explore(path)
    x = oc.placeholder("x", o=[3])
    twin = oc.Context("c" if "c" in BACKENDS else "llvm").compile((x * 2).forward, name="step")
    with pytest.raises(oc.ArgumentError, match="measured `step` on numpy, not on"):
        twin.explore(tmp_path / "a.html", profile=step.profile(1))
    other = step.context.compile((x * 2).forward, name="other")
    with pytest.raises(oc.ArgumentError, match="measured the routine `step`, not `other`"):
        other.explore(tmp_path / "a.html", profile=step.profile(1))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_routines_with_host_calls(backend: str, tmp_path: Path) -> None:
    a = oc.placeholder("a", o=[4, 4])
    ctx = oc.Context(backend)
    ctx[a] = np.eye(4, dtype="float32")
    total = (oc.linalg.inv(a * 2) + 1).sum()
    routine = ctx.compile(total.forward, name="solve")
    data = data_of(routine.explore(tmp_path / "solve.html", profile=routine.profile(1)))
    (row,) = [row for row in data["profile"]["rows"] if row["name"].startswith("host")]
    generated = data["generated"][0]
    (called,) = [n for n, line in enumerate(generated["lines"]) if "=: host" in re.sub("<[^>]*>", "", line)]
    assert row["origins"] == generated["sets"][generated["origins"][called]]
    (origin,) = (data["origins"][n] for n in row["origins"])
    assert "oc.linalg.inv" in Path(__file__).read_text().splitlines()[origin[3] - 1]
    assert all(data["origins"][n][2] == 0 for stage in data["stages"] for n in stage["origins"])


def test_functions_begin_with_their_comments() -> None:
    first, second = (Origin("y", "net.py:1"),), (Origin("z", "net.py:2"),)
    functions = {"step.1": first, "step.2": second, "step_2.1": second}
    lines = {
        "; proc step": (), "": (), "; y": first, "define void @ocannl.step.1(ptr %y) {": first, "; title": first,
        "  ret void": first, "}": first, "define i32 @ocannl.step_2(ptr %addresses) {": (), "  ret i32 0": (),
        "declare float @sqrt()": (), "/* z */": second, "static void step_2(": second, "    float *z)": second,
        "{": second, "int ocannl_step_2(void *const addresses[])": (), "static void step_2_1(float *y)": second,
    }  # fmt: skip
    assert list(line_origins(list(lines), functions, {"step": [], "step_2": []})) == list(lines.values())
    assert list(line_origins(["define void @f() {", "; end"], {}, {})) == [(), ()]
    lines = {
        "# y": first, "@triton.jit": first, "def step_y(y):": first, "    pass": first, "# helper": (),
        "def helper(y):": (), "    return y": (), "def step_2_z(z):": second, "    return 1": second,
        "z =: host inv(y)": (), "": (),
    }  # fmt: skip
    assert list(line_origins(list(lines), {}, {"step": [first], "step_2": [second]})) == list(lines.values())
    lines = {"define void @ocannl.step.1() {": first, "  br label %loop": first, "loop:": first, "  ret void": first}
    assert list(line_origins(list(lines), functions, {"step": []})) == list(lines.values())


def test_kernels_of_triton() -> None:
    module = pytest.importorskip("ocannl_backend_triton.emit_module")
    step = training_step("numpy")
    proc = step.program.rebuild()
    lines = module.generate_module(proc).source.splitlines()
    groups = CodeOrigins([proc], {}).of_lines(lines)
    heads = [n for n, line in enumerate(lines) if line.startswith("def step_")]
    assert len(heads) > 4 and len({groups[n] for n in heads}) > 2
    for n in heads:
        assert groups[n] and groups[n - 2 : n + 2] == [groups[n]] * 4  # with the label, the decorator and the body
        assert lines[n - 1] == "@triton.jit" and lines[n - 2][2:] in {origin.label for origin in groups[n]}


def test_sources_of_cells(tmp_path: Path) -> None:
    code = "y = (oc.placeholder('x', o=[3]) * 2).with_label('y')\nstep = oc.Context('numpy').compile(y.forward)\n"
    for name, lines in (("<cell 1>", code.splitlines(keepends=True)), ("<cell 2>", []), ("<" + 300 * "c" + ">", [])):
        if lines:
            linecache.cache[name] = len(code), None, lines, name
        cell = {"oc": oc}
        exec(compile(code, name, "exec"), cell)
        data = data_of(cell["step"].explore(tmp_path / "step.html"))  # type: ignore[attr-defined]
        assert [file for file, _ in data["files"]] == [name] and len(data["files"][0][1]) == len(lines)
    del linecache.cache["<cell 1>"]


def test_files_of_the_same_name(tmp_path: Path) -> None:
    value = oc.placeholder("x", o=[3])
    for folder in ("encoder", "decoder"):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "layers.py"
        file.write_text(f"import ocannl as oc\ndef layer(x):\n    return oc.tanh(x * oc.param('{folder}_w'))\n")
        module = {"__name__": folder}
        exec(compile(file.read_text(), str(file), "exec"), module)
        value = module["layer"](value)  # type: ignore[operator]
    step = oc.Context("numpy").compile(value.forward, name="step")
    data = data_of(step.explore(tmp_path / "step.html"))
    names = [name for name, _ in data["files"] if name.endswith("layers.py")]
    assert len(names) == len(set(names)) == 2
    for label in ("encoder_w", "decoder_w"):
        (row,) = [row for row in data["tensors"] if row["label"] == label]
        _, _, file_number, line = data["origins"][row["origin"]]
        assert label in data["files"][file_number][1][line - 1]


def test_command(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from ocannl_explorer.command import command

    (tmp_path / "script.py").write_text(
        "import ocannl as oc\n"
        "def make():\n"
        "    y = (oc.tensor([1.0, 2.0], label='x') * 2).with_label('y')\n"
        "    return oc.Context('numpy').compile(y.forward, name='double')\n"
        "def number():\n"
        "    return 3\n"
        "def scaled(factor):\n"
        "    return factor\n"
        "def multiple():\n"
        "    y = (oc.tensor([1.0, 2.0], label='x') * oc.symbol('n', 1, 3)).with_label('y')\n"
        "    return oc.Context('numpy').compile(y.forward)\n"
    )
    arguments = [Path(sys.executable).with_name("ocannl"), "explore", "script.py:make", "--profile", "2"]
    result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"double\.html  \d+ bytes\n", result.stdout)
    assert data_of(tmp_path / "double.html")["profile"]["calls"] == 2
    for name, problem in {
        "number": "must return a routine",
        "scaled": "script.py:scaled is called without arguments: missing a required arg",
        "multiple": r"call it in the script, or write routine.profile\(2, n=1\) in Python",
    }.items():
        with pytest.raises(oc.ArgumentError, match=problem):
            command(f"{tmp_path / 'script.py'}:{name}", calls=2)


CHECKS = """\
<script>
const report = (content) => document.body.append(
  Object.assign(document.createElement("pre"), { id: "report", textContent: JSON.stringify(content) }));
const marked = (id) => linesOf(id).querySelectorAll(".marked").length;
window.addEventListener("error", (event) => report({ error: event.message }));
(async () => {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 5));
  const summary = { lines: {}, clicks: [], columns: [] };
  for (const id of ["source", "tensors", "program", "generated", "costs"])
    summary.lines[id] = linesOf(id).children.length;
  summary.blocks = linesOf("tensors").querySelectorAll(".heading").length;
  for (const line of linesOf("source").querySelectorAll(".line:not(.idle)")) {
    line.click();
    summary.clicks.push(["source", "tensors", "program", "generated"].map(marked));
  }
  const last = [...linesOf("source").querySelectorAll(".line:not(.idle)")].at(-1);
  last.click();
  summary.visible = [...$("tabs").children].map((button, n) => {
    button.click();
    const list = document.querySelectorAll(".lines")[n];
    const area = list.getBoundingClientRect(), lines = [...list.querySelectorAll(".marked")];
    return !lines.length || lines.some((line) => {
      const { top, bottom } = line.getBoundingClientRect();
      return top >= area.top - 1 && bottom <= area.bottom + 1;
    });
  });
  const program = linesOf("program");
  program.focus();
  for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowUp"])
    program.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  summary.active = document.getElementById(program.getAttribute("aria-activedescendant")).textContent;
  summary.status = $("selected").textContent;
  const heading = linesOf("tensors").querySelector(".heading"), [member] = heading.members;
  linesOf("tensors").dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
  const shown = () => linesOf("tensors").querySelectorAll(".line:not([hidden])").length;
  summary.folds = [shown()];
  for (const key of ["ArrowLeft", "ArrowRight"]) {
    linesOf("tensors").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    summary.folds.push(shown(), heading.ariaExpanded);
  }
  $("tensors").querySelector(".folded").click();
  linesOf("source").querySelector(".line:not(.idle)").click();
  summary.closed = [shown(), linesOf("tensors").querySelectorAll(".heading.marked").length];
  $("tensors").querySelector(".folded").click();
  summary.dots = document.querySelectorAll("#charts circle").length;
  document.querySelector("#charts circle")?.dispatchEvent(new MouseEvent("click"));
  summary.from_dot = ["source", "tensors", "program", "generated", "costs"].map(marked);
  summary.plans = $("plans").textContent;
  $("changes").checked = true;
  for (let n = 0; n < $("stage").options.length; n++) {
    $("stage").value = n;
    $("stage").dispatchEvent(new Event("change"));
    const text = (selector) => [...program.querySelectorAll(selector)].map((line) => line.textContent);
    summary.columns.push([text(".line:not(.removed)"), text(".line:not(.added)")]);
  }
  summary.texts = [...$("text").options].map((option, n) => {
    $("text").value = n;
    $("text").dispatchEvent(new Event("change"));
    const list = linesOf("generated"), functions = list.querySelectorAll(".heading").length;
    [...list.querySelectorAll(".line:not(.idle)")].at(-1)?.click();
    return [option.textContent, list.children.length, functions, marked("source")];
  });
  summary.overflow = document.documentElement.scrollWidth - window.innerWidth;
  report(summary);
})();
</script>
"""


def in_browser(page: Path, folder: Path, width: int) -> dict[str, Any]:
    assert BROWSER is not None
    tested = folder / "tested.html"
    tested.write_text(page.read_text(encoding="utf-8") + CHECKS, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    options += [f"--window-size={width},800", "--virtual-time-budget=20000", "--dump-dom"]
    result = subprocess.run([BROWSER, *options, f"file://{tested}"], capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="report">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match is not None, result.stdout[-2000:] + result.stderr[-2000:]
    report: dict[str, Any] = json.loads(match[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return report


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1600, 500])  # headless Chromium has no narrower window
def test_the_page_in_a_browser(width: int, tmp_path: Path) -> None:
    page = write_profiled(tmp_path)
    report = in_browser(page, tmp_path, width)
    assert "error" not in report
    data = data_of(page)
    assert report["lines"] == {
        "source": len(data["files"][0][1]), "tensors": len(data["tensors"]) + report["blocks"],
        "program": len(data["stages"][-1]["lines"]), "generated": len(data["generated"][0]["lines"]),
        "costs": len(data["profile"]["rows"]),
    }  # fmt: skip
    assert len(report["clicks"]) >= 4
    for source, tensors, program, generated in report["clicks"]:
        assert source == 1 and program >= 1 and max(tensors, generated) >= 1
    assert report["visible"] == [True] * 5  # the selection, in each column
    assert report["active"].strip() and "test_explorer.py" in report["status"]
    for n, (after, before) in enumerate(report["columns"]):
        stages = data["stages"]
        assert after == [data["texts"][line] for line in stages[n]["lines"]]
        assert before == [data["texts"][line] for line in stages[max(0, n - 1)]["lines"]]
    for text, (name, lines, functions, marked) in zip(data["generated"], report["texts"], strict=True):
        assert (name, lines) == (text["name"], len(text["lines"])) and marked >= 1
        assert functions == len(text["headings"])
    assert report["overflow"] <= 0
    lines = report["lines"]["tensors"]
    closed = report["folds"][1]
    assert report["blocks"] > 2 and closed < lines
    assert report["folds"] == [lines, closed, "false", lines, "true"]
    assert report["closed"][0] == report["blocks"] and report["closed"][1] >= 1
    if BACKENDS[0] != "numpy":
        assert report["dots"] == sum(row["flops"] > 0 < row["us"] for row in data["profile"]["rows"])
        assert min(report["from_dot"]) >= 1 and report["plans"]


CHECK_RULES = """
(async () => {
  while (!document.body.dataset.ready) await new Promise((done) => setTimeout(done, 5));
  linesOf("source").querySelector(".line:not(.idle)").click();
  $("changes").click();
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  FEWER_LINES
  report({ isDark, ...await ruleResults(document) });
})();
""".replace("FEWER_LINES", FEWER_LINES)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.skipif(axe_source() is None, reason=f"axe-core is in none of the packages {', '.join(PACKAGES)}")
@pytest.mark.parametrize(("width", "is_dark"), [(1600, True), (500, False)])
def test_the_page_is_accessible(width: int, is_dark: bool, tmp_path: Path) -> None:
    page = write_profiled(tmp_path / "pages")
    text = page.read_text(encoding="utf-8").replace("default-src 'none'", "default-src 'none'; connect-src 'self'")
    scripts = "".join(f"<script>{script}</script>" for script in (axe_source(), REPORT + VIOLATIONS + CHECK_RULES))
    page.write_text(text + scripts, encoding="utf-8")
    report = report_of("step.html", page.parent, tmp_path / "profile", width=width, is_dark=is_dark)
    assert report["violations"] == [] and report["isDark"] is is_dark and report["passes"] > 15
