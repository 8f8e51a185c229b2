"""The conformance kit as tests of one backend: `pytest --pyargs ocannl.testing --ocannl-backend=NAME`."""

from ocannl.testing import kit


class TestDeclaration(kit.Declaration):
    pass


class TestClaims(kit.Claims):
    pass


class TestMemory(kit.Memory):
    pass


class TestQueues(kit.Queues):
    pass


class TestLinking(kit.Linking):
    pass


class TestBlobs(kit.Blobs):
    pass


class TestLoops(kit.Loops):
    pass


class TestLayouts(kit.Layouts):
    pass


class TestOperations(kit.Operations):
    pass


class TestCasts(kit.Casts):
    pass


class TestPrograms(kit.Programs):
    pass


class TestTransfers(kit.Transfers):
    pass


class TestConcurrency(kit.Concurrency):
    pass
