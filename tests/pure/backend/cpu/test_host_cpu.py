from ocannl.backend.cpu.host_cpu import reported_cpu
from ocannl.ir.cpu import Cpu


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
