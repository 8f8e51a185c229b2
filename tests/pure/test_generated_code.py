"""The comparison of generated code: names may differ, instructions may not."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from generated_code import difference, without_names

TEXT = """\
; x
define void @ocannl.step.1(ptr noalias %x, ptr noalias %"two words") nounwind {
  br label %loop.2
loop.2:
  %v.3 = load float, ptr %x
  %v.4 = call float @llvm.exp.f32(float %v.3)
  store float %v.4, ptr %"two words"
  br label %loop.2
}
"""


@pytest.mark.parametrize(("old", "new"), [
    ("%v.3", "%row"), ("loop.2", "next"), ("ocannl.step.1", "other"), ('"two words"', "y"), ("; x", "; of rows"),
    ("; x\n", ""),
])  # fmt: skip
def test_names_and_comments_may_differ(old: str, new: str) -> None:
    assert not difference(without_names(TEXT), without_names(TEXT.replace(old, new)))


@pytest.mark.parametrize(("old", "new"), [
    ("llvm.exp", "llvm.log"), ("float %v.3", "float %v.4"), ("load float", "load double"), (" nounwind", ""),
    ("  br label %loop.2\n}", "  ret void\n}"), ("}\n", "}\n}\n"),
])  # fmt: skip
def test_instructions_may_not(old: str, new: str) -> None:
    assert difference(without_names(TEXT), without_names(TEXT.replace(old, new))).startswith("line ")
