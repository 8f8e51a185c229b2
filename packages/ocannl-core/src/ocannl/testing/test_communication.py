"""The kit of transports: `mpiexec -n 2 python -m pytest --pyargs ocannl.testing --ocannl-transport=NAME`."""

from ocannl.testing import kit


class TestCommunication(kit.Communication):
    pass
