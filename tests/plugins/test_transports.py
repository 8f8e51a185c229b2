"""Discovery and validation of transports, and the transport of a single process."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import ocannl as oc
from ocannl.base.entry_points import EntryPoint
from ocannl.transport import API_VERSION, TransportInfo, hookimpl, registry
from ocannl.transport.registry import connect, installed_transports
from ocannl.transport.single_process import SingleProcess


@pytest.fixture
def install(monkeypatch):
    """Installs a transport `odd`, whose module has these members."""
    entries = []
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)

    def add(distribution="dist-a", **members):
        name = f"odd_{len(entries)}"
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        entries.append(EntryPoint("ocannl.transports", "odd", name, distribution, "1.5"))

    return add


def hook(**changes):
    """A hook that returns a correct descriptor, but for these fields."""
    values = {"name": "odd", "api_version": API_VERSION, "description": "", "probe": lambda: None}
    info = TransportInfo(**{**values, "connect": SingleProcess, **changes})
    return hookimpl(lambda api_version: info)


def failing(error):
    def call():
        raise error

    return call


def test_a_correct_transport_connects(install):
    install(ocannl_transport=hook())
    assert [transport.name for transport in installed_transports()] == ["odd", "single"]
    assert connect("odd").size == 1


BROKEN = "transport `odd` of dist-a 1.5 is broken: "


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ({}, oc.TransportImportError, BROKEN + "`odd_0` implements no hook `ocannl_transport`"),
        ({"ocannl_transport": hook(name="even")}, oc.TransportImportError, BROKEN + "it calls itself `even`"),
        ({"ocannl_transport": hook(probe=3)}, oc.TransportImportError, BROKEN + "its description has probe = 3"),
        (
            {"ocannl_transport": hookimpl(lambda api_version: 7)},
            oc.TransportImportError,
            BROKEN + "its hook `ocannl_transport` gives int, not TransportInfo",
        ),
        (
            {"ocannl_transport": hook(connect=failing(SystemExit(2)))},
            oc.TransportImportError,
            BROKEN + "connecting failed with SystemExit: 2; repair it or run: pip uninstall dist-a",
        ),
        (
            {"ocannl_transport": hook(connect=lambda: SimpleNamespace(name="odd", rank=0))},
            oc.TransportImportError,
            BROKEN + "its `connect` gives an object without `size`",
        ),
        (
            {"ocannl_transport": hook(api_version=API_VERSION + 1)},
            oc.TransportApiMismatch,
            f"is built for version {API_VERSION + 1} of the plugin interface, ocannl-core for version",
        ),
        (
            {"ocannl_transport": hook(probe=lambda: "no network")},
            oc.TransportUnavailable,
            "transport `odd` of dist-a 1.5 does not work here: no network",
        ),
        (
            {"ocannl_transport": hook(connect=failing(oc.TransportUnavailable("no library")))},
            oc.TransportUnavailable,
            "transport `odd` of dist-a 1.5 does not work here: no library",
        ),
    ],
)
def test_faults_name_the_distribution(install, members, error, message):
    install(**members)
    with pytest.raises(error) as raised:
        oc.World("odd")
    assert message in str(raised.value)


def test_two_distributions_with_one_name(install):
    install("dist-a", ocannl_transport=hook())
    install("dist-b", ocannl_transport=hook())
    with pytest.raises(oc.DuplicateTransport, match=r"`odd` is provided by dist-a 1.5 and dist-b 1.5; uninstall one"):
        oc.World("odd")


def test_names_without_a_distribution(install):
    with pytest.raises(oc.TransportNotInstalled, match=r"`mpi` is not installed; run: pip install ocannl-t"):
        oc.World("mpi")
    with pytest.raises(oc.UnknownTransport, match=r"there is no transport 'singel'; did you mean `single`\? installed"):
        oc.World("singel")


def test_a_world_of_one_process():
    world = oc.World()
    assert (world.rank, world.size, len(world)) == (0, 1, 1)
    world.barrier()
    assert world.gather(b"abc") == [b"abc"]
    world.agree("the text", "a")
    with world.first_alone():
        pass
    with pytest.raises(oc.CodeError, match=r"world\[0\] is this process"):
        world[0]
    world.close()


def test_a_transfer_needs_a_context_of_this_process():
    world, x = oc.World(), oc.placeholder("x", o=[2])
    for source, target in ((world, world), (oc.Context("numpy"), world)):
        with pytest.raises(oc.CodeError, match=r"`(src|dst)` is a Context or a Process, not"):
            oc.transfer(x, source, target)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_accumulated_gradients_are_averaged(accumulate):
    from ocannl import train

    w, x = oc.param("w", init=[1.0, 2.0]), oc.placeholder("x", o=[2])
    loss = (w * x).sum()
    contexts = [oc.Context("numpy", device=n) for n in range(2)]
    step = train.DataParallel(contexts, loss, train.sgd(loss, 1.0), accumulate=accumulate)
    for scale in (1.0, 3.0):
        step({x: [scale, 0]}, {x: [0, scale]})
    total = 4.0 if accumulate == 1 else 2.0
    np.testing.assert_array_equal(contexts[1][w], [1.0 - total / 2, 2.0 - total / 2])
