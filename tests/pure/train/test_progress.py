"""The progress bar, which is shown on terminals only."""

import sys

import pytest

from ocannl.train.progress import progress


@pytest.mark.parametrize("show", [None, False])
def test_silent_without_a_terminal(capfd, show):
    with progress(2, 3, show) as report:
        report(1, {"loss": 0.5})
    assert capfd.readouterr() == ("", "")


def test_silent_without_standard_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with progress(1, 1) as report:
        report(1, {})


def test_rich_is_not_required_without_a_terminal(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(1, 1) as report:
        report(1, {})


def test_epochs_and_metrics_are_shown(capfd):
    pytest.importorskip("rich")
    with progress(2, 3, show=True) as report:
        for done in range(1, 7):
            report(done, {"loss": 1 / done, "accuracy": 0.5})
    output = capfd.readouterr().out
    assert "epoch 2/2" in output
    assert "loss 0.1667  accuracy 0.5000" in output


def test_steps_are_counted_when_their_number_is_unknown(capfd):
    pytest.importorskip("rich")
    with progress(1, None, show=True) as report:
        report(7, {"loss": 0.25})
    assert "step 7" in capfd.readouterr().out


def test_an_error_inside_ends_the_bar_and_is_not_swallowed(capfd):
    pytest.importorskip("rich")
    with pytest.raises(ZeroDivisionError), progress(1, 2, show=True):
        raise ZeroDivisionError
