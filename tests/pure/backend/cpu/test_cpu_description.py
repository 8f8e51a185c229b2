"""Descriptions of the processor: from the system, from a file, from the cache, and measured."""

import json
from dataclasses import asdict, replace

import pytest

from ocannl.backend.cpu import cpu_description, cpu_probe
from ocannl.backend.cpu.cpu_description import described_cpu, host_cpu, reported_cpu
from ocannl.base.config import settings
from ocannl.base.errors import CompileError, ConfigError
from ocannl.ir.cpu import Cpu

MEASURED = replace(Cpu(), megahertz=4500)


@pytest.fixture
def measurements(monkeypatch, tmp_path):
    """The number of measurements; each takes place as if in a new process."""
    calls = []

    def measure_cpu(compile, lanes, reported):
        calls.append(lanes)
        return MEASURED

    monkeypatch.delenv("OCANNL_CPU", raising=False)
    monkeypatch.setattr(cpu_probe, "measure_cpu", measure_cpu)
    monkeypatch.setattr(cpu_description, "_measured", {})
    with settings(cache_dir=str(tmp_path)):
        yield calls


def in_a_new_process():
    cpu_description._measured.clear()
    return host_cpu(lambda procs: None, 16)


def test_a_processor_is_measured_once(measurements, tmp_path):
    assert described_cpu() is None
    assert in_a_new_process() == in_a_new_process() == described_cpu() == MEASURED
    assert host_cpu(lambda procs: None, 16) is host_cpu(lambda procs: None, 16)
    assert measurements == [16]
    assert len(list((tmp_path / "cpu").glob("*/*"))) == 1


def test_a_processor_is_measured_in_each_process_without_a_cache(measurements):
    with settings(cache=False):
        assert in_a_new_process() == in_a_new_process() == MEASURED
    assert measurements == [16, 16]


def test_a_damaged_description_is_measured_anew(measurements, tmp_path, caplog):
    in_a_new_process()
    (record,) = (tmp_path / "cpu").glob("*/*")
    record.write_bytes(record.read_bytes()[:-5])
    assert in_a_new_process() == MEASURED
    assert "damaged" in caplog.text and len(measurements) == 2


def test_a_description_of_another_form_is_measured_anew(measurements, caplog):
    records = cpu_description.open_cache("cpu")
    records.store(cpu_description.identification(), cpu_description.Record({"cpu": {"l1": 3}}, b""))
    assert in_a_new_process() == MEASURED
    assert "is measured anew: expected l1, l2" in caplog.text


def test_a_processor_that_cannot_be_measured_is_described_by_the_system(measurements, monkeypatch, caplog):
    def measure_cpu(compile, lanes, reported):
        raise CompileError("there is no compiler")

    monkeypatch.setattr(cpu_probe, "measure_cpu", measure_cpu)
    assert in_a_new_process() == reported_cpu()
    assert "could not be measured: there is no compiler" in caplog.text


def test_a_description_from_a_file(measurements, tmp_path):
    file = tmp_path / "cpu.json"
    with settings(cpu=str(file)):
        for cpu in (replace(Cpu(), megahertz=1000), replace(Cpu(), megahertz=20000)):
            file.write_text(json.dumps(asdict(cpu)), encoding="ascii")
            assert in_a_new_process() == described_cpu() == cpu
    assert not measurements


@pytest.mark.parametrize(("text", "message"), [
    (None, "cannot be read: No such file"),
    ("{", "does not describe a processor: .*; `ocannl doctor --save-cpu FILE` writes a description"),
    ("[" * 100_000, "does not describe a processor"),
    ("\xff", "does not describe a processor"),
    ('{"l1": 1}', "does not describe a processor: expected l1, l2"),
])  # fmt: skip
def test_files_without_a_description_are_refused(tmp_path, text, message):
    file = tmp_path / "cpu.json"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    with settings(cpu=str(file)), pytest.raises(ConfigError, match=message):
        described_cpu()


def test_caches_from_sysfs(tmp_path):
    entries = [("1", "Data", "48K", "12"), ("1", "Instruction", "64K", "8"), ("2", "Unified", "512K", "8"),
            ("3", "Unified", "8192K", "16")]  # fmt: skip
    for n, texts in enumerate(entries):
        folder = tmp_path / f"index{n}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size", "ways_of_associativity"), texts, strict=True):
            (folder / name).write_text(text + "\n", encoding="ascii")
    cpu = reported_cpu(tmp_path)
    caches = [(cache.size_bytes, cache.associativity) for cache in (cpu.l1, cpu.l2, cpu.l3)]
    assert caches == [(48 << 10, 12), (512 << 10, 8), (8 << 20, 16)]


def test_default_caches_without_valid_sysfs(tmp_path):
    assert reported_cpu(tmp_path) == Cpu()
    folder = tmp_path / "index0"
    folder.mkdir()
    for name in ("level", "type", "size", "ways_of_associativity"):
        (folder / name).write_text("many", encoding="ascii")
    assert reported_cpu.__wrapped__(tmp_path) == Cpu()
