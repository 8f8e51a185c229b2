"""What a type checker sees of the public names: programs of users, under the strictest rules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("mypy")

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "packages" / "ocannl-core" / "src"

GOOD = """
    from typing import Any, Literal

    import numpy as np

    import ocannl as oc
    from ocannl import declare as d
    from ocannl import train


    @oc.op
    def layer(x: oc.Tensor, *, hidden: int) -> oc.Tensor:
        w = oc.param()
        b = oc.param(0.0, o=[hidden])
        return oc.relu(w @ x + b)


    @oc.op()
    def network(x: oc.Tensor) -> oc.Tensor:
        return (oc.param("w", oc.normal()) @ x).softmax()


    @oc.defop(inputs={"x": "float"}, where=[d.value("slope") >= 0], samples=[d.sample(d.Draw(avoid=(0.0,)))])
    def leaky(x: oc.Tensor, *, slope: float = 0.01, side: Literal["left", "right"] = "left") -> Any:
        def forward(v: Any, v1: Any) -> None:
            v["=:"] = oc.where(v1 > 0, v1, slope * v1)

        def gradient(g: Any, v1: Any, g1: Any) -> None:
            g1 += oc.where(v1 > 0, g, slope * g)

        return forward, gradient


    @oc.cd
    def step(p: oc.Tensor, *, rate: float) -> None:
        momentum = oc.node("momentum")
        momentum[...] = 0.9 * momentum + p.grad
        p -= rate * momentum


    images: oc.Tensor = oc.tensor(np.ones((2, 8, 8, 3)), batch_axes=1, label="images")
    kernel = oc.param("kernel", output=[3, 3, 3, 4], dtype=oc.float64)
    made: oc.Tensor = oc.conv2d(images, kernel, stride=(2, 2), padding="same")
    pooled = oc.max_pool2d(made, 2).relu().clip(0.0, 6.0)
    hot = oc.one_hot(np.array([1, 0]), 3, dtype=oc.bfloat16).astype(oc.float32)
    total: oc.Tensor = oc.einsum("b|h,w,c => b|c", pooled, reduce="max").sum() + 2 * oc.sqrt(4.0) - hot.mean()
    h = oc.Dim("h")
    scaled = oc.softmax(images, "...|h,w,c => ...|h", h=h) / oc.sqrt(h)
    probability = oc.where(scaled > 0.5, 1.0, 0.0)
    custom: oc.Tensor = leaky(total, slope=0.5)
    brought: oc.Tensor = oc.ops.cube(custom)
    spaced: oc.Tensor = oc.ops.powers.cube(custom)
    block = layer(hidden=16)
    y: oc.Tensor = block(images)
    loss: oc.Tensor = oc.cross_entropy(y, np.array([0, 1])).mean()
    update = oc.seq(train.grad_update(loss), *(step(p, rate=0.1) for p in loss.params.values()))
    ctx = oc.Context("numpy")
    ctx.init(loss)
    routine: oc.Routine = ctx.compile(update)
    with oc.cd("merge") as merge, oc.comment("gradients"):
        kernel["=:+"] = 0.5 * kernel
    with oc.no_grad(), oc.use_backend("numpy"):
        array: np.ndarray[Any, Any] = total.numpy(ctx)
        several: dict[str, np.ndarray[Any, Any]] = oc.evaluate({"loss": loss}, {images: array})
    try:
        oc.testing.gradcheck(oc.relu, [1.0, 2.0])
        oc.testing.check_operation(leaky)
    except (oc.ShapeError, oc.CodeError) as wrong:
        print(wrong, oc.show_shapes)
"""

BAD = {
    "oc.relu()": "Too few arguments",
    "oc.relu(x, 1)": "Too many positional arguments",
    "oc.conv2d(x, x, strid=2)": 'Unexpected keyword argument "strid"',
    "oc.conv2d(x, x, stride='a')": 'Argument "stride"',
    "oc.stack([x], axis='rows')": 'Argument "axis"',
    "oc.nothing(x)": 'Module has no attribute "nothing"',
    "oc.testing.nothing": 'Module has no attribute "nothing"',
    "x.softmaxx()": '"Tensor" has no attribute "softmaxx"',
    "x.sum(3)": 'Argument 1 to "sum"',
    "n: int = oc.exp(x)": "Incompatible types in assignment",
    "m: str = x.numpy()": "Incompatible types in assignment",
    "oc.param(outputs=[2])": 'Unexpected keyword argument "outputs"',
    "oc.sum(x)": 'Module has no attribute "sum"',
}


def checked(program: str, folder: Path) -> str:
    (folder / "program.py").write_text(dedent(program))
    options = ["--strict", "--config-file=", "--no-error-summary", "--follow-imports=silent"]
    command = [sys.executable, "-m", "mypy", *options, f"--cache-dir={ROOT / '.mypy_cache' / 'users'}", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.slow
def test_a_program_that_uses_everything_passes(tmp_path: Path) -> None:
    assert checked(GOOD, tmp_path) == ""


def test_mistakes_are_seen(tmp_path: Path) -> None:
    lines = ["import ocannl as oc", 'x = oc.tensor([1.0], label="x")', *BAD]
    messages = checked("\n".join(lines) + "\n", tmp_path).splitlines()
    for number, (line, message) in enumerate(BAD.items(), 3):
        about = [text for text in messages if text.startswith(f"program.py:{number}: error")]
        assert any(message in text for text in about), (line, about)
