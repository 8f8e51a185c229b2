"""ocannl on its LLVM backend."""

IMPORT = "import ocannl"
# ---
from compare.adapter import adapter  # noqa: E402 - what is above is read without it

version, build = adapter("llvm")
