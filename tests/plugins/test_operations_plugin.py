"""Operations that other packages bring: found without importing them, loaded by name, broken without harm."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import numpy as np
import pytest

import ocannl as oc
from ocannl.cli import ops
from ocannl.lang.declare.catalogue import OperationRow, catalogue, installed_rows
from ocannl.lang.declare.text_generators import generator

GOOD = """
    import ocannl as oc
    from ocannl import declare

    @oc.defop(namespace={namespace!r}, samples=[declare.sample(declare.Draw())])
    def cube(x):
        def forward(v, v1):      v["=:"] = v1 * v1 * v1
        def gradient(g, v1, g1): g1 += 3 * g * v1 * v1
        return forward, gradient

    @declare.hookimpl
    def ocannl_operations():
        return [cube]
"""


class Packages:
    """A folder of installed packages; `ops` has not been asked for anything yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def add(self, name: str, text: str, dist: str = "", entry: str = "", group: str = "operations") -> str:
        self.count += 1
        module = f"operations_{abs(hash(self.folder)):x}_{self.count}"
        (self.folder / f"{module}.py").write_text(dedent(text))
        dist = dist or f"test-{name}"
        info = self.folder / f"{dist.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ocannl.{group}]\n{name} = {module}{entry}\n")
        return module


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    monkeypatch.syspath_prepend(tmp_path)
    for name in [n for n in vars(oc.ops) if not n.startswith("_") and n != "annotations"]:
        monkeypatch.delattr(oc.ops, name)
    return Packages(tmp_path)


def test_package_operations_load_lazily(packages: Packages) -> None:
    module = packages.add("cube", GOOD.format(namespace=""))
    assert dir(oc.ops) == ["cube"]
    assert module not in sys.modules
    np.testing.assert_allclose(oc.ops.cube(oc.tensor([1.0, 2.0])).numpy(), [1, 8])
    assert module in sys.modules
    assert oc.ops.cube is oc.ops.cube
    oc.testing.gradcheck(oc.ops.cube, [1.0, 2.0])


def test_operations_of_a_package_may_have_a_namespace(packages: Packages) -> None:
    packages.add("powers", GOOD.format(namespace="powers"))
    assert isinstance(oc.ops.powers, SimpleNamespace)
    assert oc.ops.powers.cube.declaration.title == "powers.cube"
    np.testing.assert_allclose(oc.ops.powers.cube(2.0).numpy(), 8)


USED = """
    import ocannl as oc
    from ocannl import declare

    @declare.configuration()
    class Window:
        factor: float = 2.0

    inner = declare.Part(settings={"window": declare.Setting(Window, Window())}, doc="Dropped.")
    outer = declare.Part(parts=(inner.keep(doc=False),))

    @oc.defop(parts=[outer])
    def scaled(x, *, window):
        def forward(v, v1):    v["=:"] = v1 * window.factor
        def gradient(g, g1):   g1 += g * window.factor
        return forward, gradient

    @declare.hookimpl
    def ocannl_operations():
        return [scaled]
"""


def test_parts_and_configurations_of_a_package_are_used(packages: Packages) -> None:
    packages.add("scaled", USED)
    np.testing.assert_allclose(oc.ops.scaled(3.0).numpy(), 6.0)


BROKEN = {
    "import": ("raise RuntimeError('no luck')", "failed with RuntimeError: no luck"),
    "exit": ("raise SystemExit(0)", "failed with SystemExit: 0"),
    "hook": ("x = 1", "implements no hook `ocannl_operations`"),
    "other": (GOOD.format(namespace="elsewhere"), "it declares `elsewhere.cube` instead of `cube`"),
    "nothing": (GOOD.format(namespace="").replace("[cube]", "[]"), "it declares nothing instead of `cube`"),
    "function": (
        GOOD.format(namespace="").replace("[cube]", "[len]"),
        "its hook `ocannl_operations` gives <built-in function len>, which `oc.defop` has not declared",
    ),
    "slot": (
        GOOD.format(namespace="").replace("(v, v1)", "(v, v2)"),
        "`v2` is not a slot of `forward` in `powers.cube`",
    ),
    "gradient": (
        GOOD.format(namespace="").replace("(g, v1, g1): g1 += 3 * g * v1 * v1", "(g, v1): pass"),
        "the gradient of `powers.cube` adds nothing to that of `x`: take the slot `g1`",
    ),
    "rules": (
        GOOD.format(namespace="").replace("forward, gradient", "forward"),
        "the declaration of `powers.cube` must return `forward, gradient`, not <function",
    ),
    "default": (
        GOOD.format(namespace="").replace("cube(x)", "cube(x, *, by: int = 2.5)"),
        "`powers.cube`: by=2.5 is not int",
    ),
    "part": (
        GOOD.format(namespace="") + "    shared = declare.Part(doc='Shared.')\n",
        "its module declares `shared`, which no operation uses; remove what is not needed",
    ),
    "configuration": (
        GOOD.format(namespace="") + "    @declare.configuration()\n    class Window:\n        size: int = 1\n",
        "its module declares `Window`, which no operation uses; remove what is not needed",
    ),
    "twice": (
        GOOD.format(namespace="").replace("[cube]", "[cube, cube]"),
        "it declares `powers.cube` more than once; a name has one declaration",
    ),
    "argument": (GOOD.format(namespace="").replace("operations():", "operations(colour):"), "colour"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_package_is_isolated(packages: Packages, kind: str) -> None:
    text, message = BROKEN[kind]
    packages.add("cube", text.replace("powers.", ""))
    packages.add("powers", GOOD.format(namespace="powers"))
    assert dir(oc.ops) == ["cube", "powers"]
    oc.ops.powers.cube(1.0)
    with pytest.raises(oc.PluginError, match=re.escape(message.replace("powers.", ""))) as caught:
        _ = oc.ops.cube
    assert str(caught.value).startswith("operations `cube` of test-cube 1.0 are broken: ")
    assert str(caught.value).endswith("repair it or run: pip uninstall test-cube")


def test_call_without_matching_condition_raises(packages: Packages) -> None:
    text = GOOD.format(namespace="powers").replace("samples=", "where=[declare.rank('x') == 1], samples=")
    packages.add("powers", text.replace("Draw()", "Draw(dims=(2,))"))
    assert oc.testing.check_operation(oc.ops.powers.cube) == 1
    matrix = oc.tensor(np.ones((2, 2)), label="matrix")
    with pytest.raises(oc.ShapeError, match=r"^`powers.cube` needs rank\(x\) == 1\n  x    matrix: 2,2 float64"):
        oc.ops.powers.cube(matrix)


def test_name_clash_of_packages_names_both(packages: Packages) -> None:
    for dist in ("one", "other"):
        packages.add("cube", GOOD.format(namespace=""), dist=dist)
    with pytest.raises(oc.PluginError, match="^operations `cube` are provided by one 1.0 and other 1.0; uninstall one"):
        _ = oc.ops.cube


def test_unknown_name_raises_attribute_error(packages: Packages) -> None:
    assert not hasattr(oc.ops, "cube")
    packages.add("cube", GOOD.format(namespace=""))
    with pytest.raises(AttributeError, match="^no installed package brings operations `cubes`; did you mean `cube`?"):
        _ = oc.ops.cubes


# --- in the table of operations --------------------------------------------------------------------------------------


@pytest.fixture
def good_and_broken(packages: Packages) -> Packages:
    packages.add("cube", "raise RuntimeError('no luck')")
    packages.add("powers", GOOD.format(namespace="powers"))
    packages.add("square", GOOD.format(namespace="").replace("cube", "square"))
    return packages


def test_package_operations_are_listed_and_broken_packages_reported(good_and_broken: Packages) -> None:
    broken, *rows = installed_rows()
    assert "no luck" in str(broken)
    assert [row.call for row in rows if isinstance(row, OperationRow)] == ["oc.ops.powers.cube", "oc.ops.square"]
    for row in rows:
        assert isinstance(row, OperationRow)
        assert str(row.signature) == "(x: object, *, label: str | None = None) -> ocannl.lang.core.tensor.Tensor"
        assert oc.testing.check_operation(row) == 1


def test_operations_are_listed_with_problems(good_and_broken: Packages, capsys: pytest.CaptureFixture[str]) -> None:
    ops.command(["oc.POW", "ops.powers", "ops.Square", "TAN[hH]"])
    stdout, stderr = capsys.readouterr()
    assert stdout.splitlines() == [
        "operation\tabout",
        "oc.pow(x, y, /, *, label: str | None = None)\tThe first to the power of the second.",
        "oc.tanh(x, /, *, label: str | None = None)\tThe hyperbolic tangent.",
        "oc.ops.powers.cube(x, *, label: str | None = None)\t",
        "oc.ops.square(x, *, label: str | None = None)\t",
    ]
    assert stderr.startswith("PluginError: operations `cube` of test-cube 1.0 are broken: ")
    ops.command(["powers"], generate="reference")
    stdout, _ = capsys.readouterr()
    assert ">>> oc.ops.powers.cube(x).numpy().round(3)\narray(" in stdout


def test_a_folder_has_a_file_for_each_namespace(good_and_broken: Packages, tmp_path: Path) -> None:
    folder = tmp_path / "operations"
    ops.command(generate="json", output=folder)
    names = ["ocannl.fft.json", "ocannl.json", "ocannl.linalg.json", "powers.json", "square.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    described = json.loads((folder / "ocannl.fft.json").read_text(encoding="utf-8"))["operations"]
    assert {operation["namespace"] for operation in described} == {"fft"}
    (cube,) = json.loads((folder / "powers.json").read_text(encoding="utf-8"))["operations"]
    assert (cube["namespace"], cube["call"]) == ("powers", "oc.ops.powers.cube")
    assert cube["names"] == dict.fromkeys(("numpy", "torch", "jax", "onnx"), "")
    ops.command(generate="functions", output=folder)
    assert [path.name for path in folder.glob("*.pyi")] == ["ocannl.pyi"], "the stubs of the language"


def test_an_operation_without_samples_is_not_checked(packages: Packages) -> None:
    packages.add("cube", GOOD.format(namespace="").replace(", samples=[declare.sample(declare.Draw())]", ""))
    with pytest.raises(oc.CodeError, match=r"^`cube` has no samples to be tried on: declare samples=\["):
        oc.testing.check_operation(oc.ops.cube)


def test_wrong_gradient_of_a_package_is_detected(packages: Packages) -> None:
    packages.add("cube", GOOD.format(namespace="").replace("3 * g", "2 * g"))
    with pytest.raises(oc.testing.GradientMismatch):
        oc.testing.check_operation(oc.ops.cube)


def test_operation_without_gradient_is_reported(packages: Packages) -> None:
    text = GOOD.format(namespace="").replace("forward, gradient", "forward, None")
    packages.add("cube", text)
    with pytest.raises(oc.CodeError, match=r"^`cube` has a gradient on none of its samples, and its text does not say"):
        oc.testing.check_operation(oc.ops.cube)
    packages.add("power", text.replace("cube", "power").replace("samples=", "doc='Grad: none.', samples="))
    assert oc.testing.check_operation(oc.ops.power) == 0


# --- generators ------------------------------------------------------------------------------------------------------


def test_a_package_adds_a_generator(packages: Packages) -> None:
    text = "def names(rows): return ' '.join(row.name for row in rows)"
    packages.add("names", text, entry=":names", group="generators")
    assert "tanh" in generator("names")(catalogue()).split()


@pytest.mark.parametrize(
    ("text", "entry", "message"),
    [
        ("raise RuntimeError('no luck')", "", "cannot be imported: RuntimeError: no luck"),
        ("", ":names", "cannot be imported: AttributeError"),
        ("names = 3", ":names", "is 3, not a function from rows to text"),
    ],
)
def test_broken_generator_is_reported(packages: Packages, text: str, entry: str, message: str) -> None:
    packages.add("names", text, entry=entry, group="generators")
    with pytest.raises(oc.PluginError, match="^generator `names` of test-names 1.0 " + re.escape(message)):
        generator("names")
    with pytest.raises(oc.PluginError, match="^unknown generator `name`; there are .*, reference, names$"):
        generator("name")
    assert generator("reference")
