"""Progress: told to whoever watches, and to nobody else."""

import sys

import pytest

from ocannl.train.progress import progress


@pytest.mark.parametrize("show", [None, False])
def test_it_is_silent_when_nobody_watches(capfd, show):
    with progress(2, 3, show) as tell:
        tell(1, {"loss": 0.5})
    assert capfd.readouterr() == ("", "")


def test_it_is_silent_without_standard_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with progress(1, 1) as tell:
        tell(1, {})


def test_it_needs_no_rich_where_nobody_watches(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(1, 1) as tell:
        tell(1, {})


def test_epochs_figures_and_the_end_are_shown(capfd):
    pytest.importorskip("rich")
    with progress(2, 3, show=True) as tell:
        for done in range(1, 7):
            tell(done, {"loss": 1 / done, "accuracy": 0.5})
    said = capfd.readouterr().out
    assert "epoch 2/2" in said
    assert "loss 0.1667  accuracy 0.5000" in said


def test_steps_are_counted_when_nobody_knows_how_many_there_are(capfd):
    pytest.importorskip("rich")
    with progress(1, None, show=True) as tell:
        tell(7, {"loss": 0.25})
    assert "step 7" in capfd.readouterr().out


def test_an_error_inside_ends_the_bar_and_is_not_swallowed(capfd):
    pytest.importorskip("rich")
    with pytest.raises(ZeroDivisionError), progress(1, 2, show=True):
        raise ZeroDivisionError
