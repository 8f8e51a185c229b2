"""Tests of ocannl-onnx, which are skipped where the package onnx is not installed."""

import pytest

collect_ignore_glob = []
try:
    import onnx  # noqa: F401
except ImportError:
    collect_ignore_glob.append("test_*.py")


@pytest.fixture(params=["numpy", "llvm", "c"])
def backend(request):
    """A usable backend by name."""
    import ocannl as oc

    if request.param not in {row.name for row in oc.backends() if row.usable}:
        pytest.skip(f"the backend {request.param} is not usable")
    with oc.use_backend(request.param):
        yield request.param
