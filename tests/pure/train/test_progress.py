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


def test_a_notebook_has_one_display(monkeypatch):
    shown = []

    class Display:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Display()

    shell = type("Shell", (), {"kernel": None})()
    module = type("display", (), {"display": staticmethod(display)})
    ipython = type("IPython", (), {"get_ipython": staticmethod(lambda: shell), "display": module})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with progress(2, 3) as report:
        report(1, {"loss": 0.5})
        report(6, {"loss": 0.25, "confusion": [[1, 2]]})
    assert shown[0] == "epoch 1/2" and len(shown) == 2
    assert shown[1].startswith("epoch 2/2  loss 0.2500  ") and shown[1].endswith(" steps/s  0 s left")
    with progress(2, 3, show=False) as report:
        report(6, {})
    assert len(shown) == 2
