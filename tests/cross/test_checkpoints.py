"""Checkpoints: what is saved and loaded, on every backend, and what happens to files when something fails."""

from __future__ import annotations

import copy
import errno
import json
import os
import pickle
import random
import resource
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ocannl as oc
from ocannl import train
from ocannl.checkpoint import block_writer

BACKENDS = [row.name for row in oc.backends() if row.usable and row.name != "example"]
KILLS = int(os.environ.get("OCANNL_TEST_SAVE_KILLS", "200"))
MUTATIONS = int(os.environ.get("OCANNL_TEST_MUTATIONS", "300"))
X = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")


@pytest.fixture
def ctx() -> oc.Context:
    return oc.Context("numpy")


def values(ctx: oc.Context, leaves: Any) -> dict[str, Any]:
    return {path: ctx[t] for path, t in leaves.items()}


def assert_equal(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert got.keys() == want.keys()
    for path in want:
        np.testing.assert_array_equal(got[path], want[path], err_msg=path)


# --- what is saved ----------------------------------------------------------------------------------------------------


@oc.op
def model(x: oc.Tensor) -> oc.Tensor:
    mean = oc.state("mean", 0.0)
    h = oc.dropout(oc.param("w", o=[5]) @ x, 0.5) + 0.1 * oc.normal()
    mean[...] = 0.9 * mean + 0.1 * h.mean("...|c => c")
    return oc.param("out", o=[2]) @ oc.relu(h - mean) + oc.uniform(key="shared", o=[2])


UPDATES = {
    "sgd": lambda loss: train.sgd(loss, train.cosine_decay(0.1, 10, warmup=2), momentum=0.9, nesterov=True),
    "adam": lambda loss: train.adamw(loss, 0.01),
}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("name", BACKENDS)
def test_resumed_training_equals_uninterrupted_training(tmp_path: Path, name: str, update: str) -> None:
    def build() -> tuple[oc.Context, dict[str, oc.Tensor], Any]:
        net = model(label="net")
        loss = (net(oc.tensor(X, batch_axes=1)) ** 2).mean()
        ctx = oc.Context(name)
        scale = train.LossScale(interval=3)
        routine = ctx.compile(scale.step(loss, UPDATES[update](loss)))
        return ctx, {**net.params, **net.states}, (routine, loss)

    ctx, leaves, (step, loss) = build()
    ctx.init(loss)
    for n in range(7):
        if n == 4:
            oc.save(tmp_path / "a.safetensors", ctx, step, step=n, data={"epoch": 1, "order": [2, 0, 1]})
        step()
    want = values(ctx, leaves)

    with oc.settings(seed=7):  # the streams that were saved continue
        ctx, leaves, (step, _) = build()
        loaded = oc.load(tmp_path / "a.safetensors", ctx, step)
    assert (loaded.step, loaded.data, loaded.seed) == (4, {"epoch": 1, "order": [2, 0, 1]}, 42)
    assert loaded.versions["backend"] == name and not loaded.differences
    for _ in range(3):
        step()
    assert_equal(values(ctx, leaves), want)


def test_a_loop_of_training_is_resumed_with_all_that_it_remembers(tmp_path: Path) -> None:
    """Shuffled and prefetched batches, dropout, loss scaling, accumulation, a schedule, averaged parameters."""

    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        return oc.param("v", o=[2]) @ oc.dropout(oc.relu(oc.param("w", o=[8]) @ x), 0.3)

    def build() -> tuple[Any, ...]:
        rows = np.random.default_rng(0).normal(size=(22, 3)).astype("f4")
        data = train.batches({"x": rows}, 4, shuffle=5, prefetch=2, partial="drop")
        loss = (net(data["x"], label="net") ** 2).mean()
        ctx, scale, averages = oc.Context("numpy"), train.LossScale(interval=3), train.EMA(loss, 0.9)
        rate = train.cosine_decay(0.01, 20, warmup=2)
        update = oc.seq(train.clip_grad_norm(loss, 1.0), train.adamw(loss, rate), averages.update)
        accumulated = train.accumulate(loss, update, 2)
        return ctx, lambda epochs: train.fit(ctx, loss, accumulated, data, epochs=epochs, scale=scale), data

    ctx, fit, data = build()
    fitted = fit(2)
    oc.save(tmp_path / "a", ctx, fitted, data=data)
    want = fit(2)
    ctx, fit, data = build()
    fitted = fit(1)  # what was computed before is overwritten
    oc.load(tmp_path / "a", ctx, fitted, data=data)
    assert list(fit(2).losses) == list(want.losses)


def test_every_type_and_size_comes_back(tmp_path: Path, ctx: oc.Context) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "types"
    sizes: dict[str, Any] = {"batch": [2], "input": [], "output": [3]}
    names = "float32 float64 float16 bfloat16 float8_e5m2 float8_e4m3fn bool int8 int16 int32 int64 uint8 uint16 uint32"
    kinds = [name for name in names.split() if hasattr(oc, name)]
    leaves = {name: oc.placeholder(name, dtype=name, **sizes) for name in kinds}
    for name, t in leaves.items():
        ctx[t] = (rng.integers(0, 2, (2, 3)) if name == "bool" else rng.integers(0, 9, (2, 3))).astype(t.dtype.numpy)
    leaves |= {"sc\u00e4lar.\u2713": oc.param("a", 2.5, o=[]), "e.m.p.t.y": oc.placeholder("b", output=[0, 3])}
    ctx.init([leaves["sc\u00e4lar.\u2713"]][0])
    ctx[leaves["e.m.p.t.y"]] = np.zeros((0, 3), "f4")
    want = values(ctx, leaves)
    oc.save(path, ctx, leaves)
    assert set(load_file(path)) == set(want)
    second = oc.Context("numpy")
    oc.load(path, second, leaves)
    assert_equal(values(second, leaves), want)


def test_blocks_tensors_and_mappings_find_each_other(tmp_path: Path) -> None:
    @oc.op
    def layer(x: oc.Tensor, *, width: int) -> oc.Tensor:
        return oc.param("w", o=[width]) @ x + oc.param("b", 0.0, o=[width])

    @oc.op
    def net(x: oc.Tensor) -> oc.Tensor:
        return layer(layer(x, width=4), width=2)

    first, second = net(label="first"), net(label="second")
    x = oc.tensor(X, batch_axes=1)
    y, _ = first(x), second(x)
    ctx = oc.Context("numpy")
    ctx.init(y)
    want = values(ctx, first.params)
    pairs = [(first, second), (first, y), (y, second), (y.params, first), ({"a": first}, {"a": second})]
    for saved, target in pairs:
        oc.save(tmp_path / "a", ctx, saved)
        other = oc.Context("numpy")
        assert not oc.load(tmp_path / "a", other, target).differences
        assert_equal(values(other, (first if target in (y, first) else second).params), want)


def test_differences_are_listed_and_nothing_is_loaded(tmp_path: Path, ctx: oc.Context) -> None:
    a, b, c, d = (oc.param(n, 1.0, o=[2]) for n in "abcd")
    ctx.init(a + b + c + d)
    oc.save(tmp_path / "a", ctx, {"a": a, "b": b, "c": c, "d": d})
    wide, narrow = oc.param("b", 5.0, o=[3]), oc.param("c", 5.0, o=[2], dtype=oc.float16)
    target = {"a": (fresh := oc.param("a", 5.0, o=[2])), "b": wide, "c": narrow, "e": oc.param("e", 5.0, o=[1])}
    second = oc.Context("numpy")
    second.init(target)
    with pytest.raises(oc.CheckpointError) as caught:
        oc.load(tmp_path / "a", second, target)
    lines = [
        "other sizes: `b` has (3,), the file (2,)",
        "other type: `c` is float16, in the file float32",
        "missing in the file: `e`, (1,) float32",
        "only in the file: `d`, (2,) float32",
    ]
    assert all(f"\n  {line}" in str(caught.value) for line in lines), str(caught.value)
    np.testing.assert_array_equal(second[fresh], [5, 5])
    assert list(oc.load(tmp_path / "a", second, target, strict=False).differences) == lines
    assert second[fresh].tolist() == [1, 1] and second[wide].tolist() == [5, 5, 5]


def test_two_nodes_of_one_name_are_refused(tmp_path: Path, ctx: oc.Context) -> None:
    y = oc.param("w", 1.0, o=[2]) + oc.param("w", 2.0, o=[2])
    ctx.init(y)
    with pytest.raises(oc.CheckpointError, match="two nodes are called `w`, made in test_checkpoints"):
        oc.save(tmp_path / "a", ctx, y)
    assert not os.listdir(tmp_path)
    with pytest.raises(oc.CheckpointError, match="`__metadata__`, which files of safetensors use otherwise"):
        oc.save(tmp_path / "a", ctx, {"__metadata__": oc.param("w", 1.0, o=[])})
    with pytest.raises(oc.CheckpointError, match="nothing to save"):
        oc.save(tmp_path / "a", ctx, {})
    with pytest.raises(oc.UninitializedError, match="run ctx.init"):
        oc.save(tmp_path / "a", oc.Context("numpy"), {"w": oc.param("w", 1.0, o=[])})


def test_the_position_in_data_is_saved_and_set(tmp_path: Path, ctx: oc.Context) -> None:
    def batches() -> train.Batches:
        return train.batches({"x": X}, 2, shuffle=3)

    w, data = oc.param("w", 1.0, o=[2]), batches()
    ctx.init({"w": w})
    first = next(iter(data))
    oc.save(tmp_path / "a", ctx, w, data=data)
    want, target = list(data), batches()
    assert first and oc.load(tmp_path / "a", ctx, w, data=target).data == target.position
    got = list(target)
    assert len(got) == len(want) == 1
    np.testing.assert_array_equal(*(next(iter(feeds[0].values())) for feeds in (got, want)))
    for bad in (object(), {1: {2, 3}}):
        with pytest.raises(oc.ArgumentError, match="`data`"):
            oc.save(tmp_path / "a", ctx, w, data=bad)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(ctx: oc.Context) -> oc.Tensor:
    w = oc.param("w", np.arange(50_000, dtype="f4"))
    ctx.init({"w": w})
    return w


@pytest.mark.parametrize("folder", ["disk", "memory"])
@pytest.mark.parametrize("cells", [0, 1, 700, 300_000, 2_300_001])
def test_files_are_those_of_the_library(tmp_path: Path, ctx: oc.Context, folder: str, cells: int) -> None:
    if folder == "memory" and not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no file system in memory")
    with tempfile.TemporaryDirectory(dir=tmp_path if folder == "disk" else "/dev/shm") as name:
        path, rng = Path(name) / "a", np.random.default_rng(cells)
        arrays = {"b.\u2713": rng.normal(size=(cells, 1)).astype("f4"), "a": np.arange(3, dtype="f4")}
        leaves = {key: oc.placeholder(key, output=list(a.shape)) for key, a in arrays.items()}
        for key, t in leaves.items():
            ctx[t] = arrays[key]
        oc.save(path, ctx, leaves)
        content = path.read_bytes()
    save_file(arrays, tmp_path / "library")
    (seen, data), (want, expected) = map(parts_of, (content, (tmp_path / "library").read_bytes()))
    assert seen.pop("__metadata__") and seen == want and data == expected and list(seen) == ["a", "b.\u2713"]


def parts_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a file of safetensors."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def test_file_systems_with_other_blocks_are_written_by_way_of_the_cache(
    tmp_path: Path, ctx: oc.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a part of a block is written, the next write of a file without a cache fails."""
    failures = []

    class Partial(block_writer.FileIO):
        def write(self, data: Any) -> int:
            if failures or self.mode != "wb":
                return super().write(data)
            failures.append(super().write(data[:8192]))
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(block_writer, "FileIO", Partial)
    w = oc.param("w", np.arange(700_000, dtype="f4"))
    ctx.init({"w": w})
    oc.save(tmp_path / "a", ctx, w)
    np.testing.assert_array_equal(load_file(tmp_path / "a")["w"], ctx[w])
    assert failures


def test_the_last_versions_are_kept_and_a_relative_link_leads_to_the_latest(
    tmp_path: Path, ctx: oc.Context, small: oc.Tensor
) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for n in range(5):
        oc.save(folder / "m.safetensors", ctx, small, step=10 * n, keep=2)
    want = ["m-00000030.safetensors", "m-00000040.safetensors", "m.safetensors"]
    assert sorted(os.listdir(folder)) == want and os.readlink(folder / "m.safetensors") == want[1]
    oc.save(folder / "m.safetensors", ctx, small, keep=3)  # without a step, the next number
    moved = folder.rename(tmp_path / "moved")
    assert "m-00000041.safetensors" in os.listdir(moved)
    assert oc.load(moved / "m.safetensors", ctx, small).step is None
    assert oc.load(moved / want[0], ctx, small).step == 30
    oc.save(moved / "m.safetensors", ctx, small, step=1)  # the link stays a pointer
    assert sorted(os.listdir(moved)) == ["m-00000001.safetensors", "m.safetensors"]


def test_links_are_followed_and_permissions_kept(tmp_path: Path, ctx: oc.Context, small: oc.Tensor) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far" / "m.safetensors")
    before = os.umask(0o027)
    try:
        oc.save(tmp_path / "near", ctx, small)
    finally:
        os.umask(before)
    assert (tmp_path / "near").is_symlink() and os.listdir(tmp_path / "far") == ["m.safetensors"]
    assert stat.S_IMODE(os.stat(tmp_path / "near").st_mode) == 0o640
    os.chmod(tmp_path / "near", 0o600)
    oc.save(tmp_path / "near", ctx, small)
    assert stat.S_IMODE(os.stat(tmp_path / "near").st_mode) == 0o600
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for use in (oc.save, oc.load):
        with pytest.raises(oc.CheckpointError):
            use(tmp_path / "loop", ctx, small)


@pytest.mark.parametrize("count", [50_000, 1_000_000])  # of cells: the larger file is written past the cache
def test_what_cannot_be_written_leaves_the_old_file_whole(
    tmp_path: Path, ctx: oc.Context, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the byte code of a module would be truncated
    path = tmp_path / "a.safetensors"
    small = oc.param("w", np.arange(count, dtype="f4"))
    ctx.init({"w": small})
    oc.save(path, ctx, small, step=1)
    old = path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (1000, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))  # as a full disk
        try:
            with pytest.raises(oc.CheckpointError, match="cannot be written, and is as it was before"):
                oc.save(path, ctx, small, step=2)
            saving = oc.save(path, ctx, small, step=2, background=True)
            assert saving is not None
            with pytest.raises(oc.CheckpointError, match="cannot be written"):
                saving.wait()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert path.read_bytes() == old and os.listdir(tmp_path) == [path.name]
    for target in (tmp_path / "none" / "a", path / "a", Path("/proc/self/a"), tmp_path):
        with pytest.raises(oc.CheckpointError):
            oc.save(target, ctx, small)
    assert oc.load(path, ctx, small).step == 1


def test_files_of_other_programs_are_neither_loaded_nor_overwritten(
    tmp_path: Path, ctx: oc.Context, small: oc.Tensor
) -> None:
    save_file({"w": np.zeros(50_000, "f4")}, tmp_path / "foreign")
    (tmp_path / "text").write_text("print('hello')")
    (tmp_path / "zeros").write_bytes(bytes(100))
    (tmp_path / "huge").write_bytes(b"\xff" * 8 + b"{}")
    np.savez(tmp_path / "archive.npz", w=np.zeros(3))
    os.mkfifo(tmp_path / "fifo")
    for name in os.listdir(tmp_path):
        before = None if name == "fifo" else (tmp_path / name).read_bytes()
        for use in (oc.save, oc.load):
            with pytest.raises(oc.CheckpointError, match=name):
                use(tmp_path / name, ctx, small)
        assert before is None or (tmp_path / name).read_bytes() == before
    with pytest.raises(oc.CheckpointError, match="oc.load_weights reads files of other programs"):
        oc.load(tmp_path / "foreign", ctx, small)
    (tmp_path / "empty").touch()
    oc.save(tmp_path / "empty", ctx, small)
    with pytest.raises(oc.CheckpointError, match="No such file"):
        oc.load(tmp_path / "none", ctx, small)


def mutated(content: bytes, rng: random.Random) -> bytes:
    data, size = bytearray(content), len(content)
    header = range(8, 8 + int.from_bytes(content[:8], "little"))
    match rng.randrange(6):
        case 0:
            for _ in range(rng.choice([1, 2, 8])):
                data[rng.randrange(size)] = rng.randrange(256)
        case 1:
            del data[rng.randrange(size) :]
        case 2:
            data += rng.randbytes(rng.randrange(1, 50))
        case 3:
            start, end = sorted((rng.randrange(size), rng.randrange(size)))
            del data[start:end]
        case 4:
            data[rng.randrange(8)] = rng.randrange(256)
        case _:
            digits = [n for n in header if chr(data[n]).isdigit()]
            for _ in range(rng.choice([1, 3])):
                data[rng.choice(digits)] = rng.choice(b'0123456789-e."[]{}')
    return bytes(data)


@pytest.mark.parametrize("count", [3, 700_000])
def test_headers_with_the_same_meaning_are_damaged_as_well(tmp_path: Path, ctx: oc.Context, count: int) -> None:
    leaves = {"\u00e9": oc.param("w", np.arange(count, dtype="f4"))}
    ctx.init(leaves)
    oc.save(tmp_path / "a", ctx, leaves)
    content = (tmp_path / "a").read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    for before, after in [(b"\\u00e9", b"\\u00E9"), (b"}} ", b"}}\n"), (b"} ", b" }")]:
        (tmp_path / "b").write_bytes(content[:end].replace(before, after) + content[end:])
        if before in content[:end]:  # a header may need no spaces at its end
            with pytest.raises(oc.CheckpointError, match="is not as oc.save writes it"):
                oc.load(tmp_path / "b", ctx, leaves)
    assert oc.load(tmp_path / "a", ctx, leaves).step is None


def test_mutated_files_raise_nothing_but_checkpoint_errors(tmp_path: Path, ctx: oc.Context) -> None:
    leaves = {"w": oc.param("w", np.arange(6.0).reshape(2, 3)), "s": oc.param("s", 1.0, o=[], dtype=oc.bfloat16)}
    ctx.init(leaves)
    want = values(ctx, leaves)
    oc.save(tmp_path / "a", ctx, leaves, step=3, data=[1, 2])
    content, rng, memory = (tmp_path / "a").read_bytes(), random.Random(0), resource.getrusage(resource.RUSAGE_SELF)
    for number in range(MUTATIONS):
        (tmp_path / "b").write_bytes(mutated(content, rng))
        if (tmp_path / "b").read_bytes() == content:
            continue
        with pytest.raises(oc.CheckpointError):
            oc.load(tmp_path / "b", ctx, leaves, strict=bool(number % 2))
    assert_equal(values(ctx, leaves), want)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory.ru_maxrss < 50_000  # kilobytes


KILLED = """
import os, random, signal, sys, time
import numpy as np
import ocannl as oc
folder, kills = sys.argv[1], int(sys.argv[2])
path, rng, sizes = os.path.join(folder, "m.safetensors"), random.Random(int(sys.argv[3])), (200, 100_000)
ctx = oc.Context("numpy")
leaves = {f"w{n}": oc.param(f"w{n}", 0.0, o=[size]) for n, size in enumerate(sizes)}
ctx.init(leaves)
def save(step, keep):
    for p in leaves.values():
        ctx[p] = float(step)
    oc.save(path, ctx, leaves, step=step, data=step, keep=keep)
saved, moments = 0, 0
save(0, 1)
began = time.perf_counter()
save(0, 1)
seconds = time.perf_counter() - began
for number in range(kills):
    keep = 1 + number % 2
    child = os.fork()
    if not child:
        step = saved
        while True:
            step += 1
            save(step, keep)
    time.sleep(rng.random() * 2 * seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    loaded = oc.load(path, ctx, leaves)
    assert loaded.step == loaded.data >= saved, (loaded, saved)
    for p in leaves.values():
        assert (ctx[p] == loaded.step).all()
    moments += any(name.endswith(".tmp") for name in os.listdir(folder))
    saved, began = loaded.step + 1, time.perf_counter()
    save(saved, keep)
    seconds = time.perf_counter() - began
    left = [name for name in os.listdir(folder) if not name.startswith("m")]
    assert not left and len(os.listdir(folder)) <= 3, os.listdir(folder)
print(saved, moments)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(KILLS), str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60 + KILLS)
    assert not ended.returncode, f"seed {seed}: {ended.stderr}"
    saved, moments = map(int, ended.stdout.split())
    assert saved >= KILLS and moments > KILLS // 20, f"seed {seed}: {moments} kills were within a save"


def test_saving_in_the_background_takes_the_values_of_the_call(tmp_path: Path, ctx: oc.Context) -> None:
    w = oc.param("w", 0.0, o=[1000])
    ctx.init({"w": w})
    for n in range(5):
        ctx[w] = float(n)
        saving = oc.save(tmp_path / "a", ctx, w, step=n, background=True)
        assert saving is not None
    ctx[w] = -1.0
    saving.wait()
    assert saving.is_done and oc.load(tmp_path / "a", ctx, w).step == 4 and (ctx[w] == 4).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c, w: oc.save("a", c, w, keep=0), "`keep` is the number of files"),
        (lambda c, w: oc.save("a", c, w, step=-1), "`step` is the number of steps"),
        (lambda c, w: oc.save("a\0b", c, w), "is not a path"),
        (lambda c, w: oc.save("a", w, c), "takes a context after the path"),
        (lambda c, w: oc.save("a", c, 3), "a tensor, a block, a routine, or a mapping"),
        (lambda c, w: oc.save("a", c, {3: w}), "have names, not 3"),
        (lambda c, w: oc.load("a", c, w, data=[1]), "an object with a `position`"),
    ],
)
def test_errors_of_arguments(ctx: oc.Context, call: Any, message: str) -> None:
    with pytest.raises(oc.CodeError, match=message):
        call(ctx, oc.param("w", 1.0, o=[]))


# --- weights of other programs ----------------------------------------------------------------------------------------


@oc.op
def dense(x: oc.Tensor, *, width: int) -> oc.Tensor:
    return oc.param("w", o=[width]) @ x + oc.param("b", 0.0, o=[width])


@oc.op
def mlp(x: oc.Tensor) -> oc.Tensor:
    return dense(oc.relu(dense(x, width=8)), width=2)


def built() -> tuple[Any, oc.Tensor]:
    net = mlp(label="net")
    return net, net(oc.tensor(X, batch_axes=1))


def weights() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    sizes = {"dense.w": (8, 3), "dense.b": (8,), "dense_2.w": (2, 8), "dense_2.b": (2,)}
    return {path: rng.normal(size=size).astype("f4") for path, size in sizes.items()}


def want_result(w: dict[str, Any]) -> Any:
    return np.maximum(X @ w["dense.w"].T + w["dense.b"], 0) @ w["dense_2.w"].T + w["dense_2.b"]


def test_weights_of_torch(tmp_path: Path, ctx: oc.Context) -> None:
    torch = pytest.importorskip("torch")
    peer = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(torch.bfloat16)
    from safetensors.torch import save_file as save_torch

    save_torch(peer.state_dict(), tmp_path / "a.safetensors")
    net, y = built()
    names = {"dense.w": "0.weight", "dense.b": "0.bias", "dense_2.w": "2.weight", "dense_2.b": "2.bias"}
    assert oc.load_weights(tmp_path / "a.safetensors", net, names=names) == ()
    want = peer.float()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(oc.evaluate(y, ctx=ctx), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transpose", [True, ["dense.w", "dense_2.w"], {"dense.w": (1, 0), "dense_2.w": (1, 0)}])
def test_weights_with_the_axes_of_flax_and_keras(tmp_path: Path, ctx: oc.Context, transpose: Any) -> None:
    arrays = weights()
    stored = {f"params/{path.replace('.w', '/kernel').replace('.b', '/bias')}": a.T for path, a in arrays.items()}
    save_file({name: np.ascontiguousarray(a) for name, a in stored.items()}, tmp_path / "a")
    np.savez_compressed(tmp_path / "b.npz", **stored)
    for file in ("a", "b.npz"):
        net, y = built()
        names = lambda path: f"params.{path.replace('.w', '.kernel').replace('.b', '.bias')}"  # noqa: E731
        oc.load_weights(tmp_path / file, net, names=names, transpose=transpose)
        np.testing.assert_allclose(oc.evaluate(y, ctx=ctx), want_result(arrays), rtol=1e-5, atol=1e-6)


def test_weights_that_differ_are_listed(tmp_path: Path, ctx: oc.Context) -> None:
    arrays = weights()
    stored = {**arrays, "dense.w": arrays["dense.w"].T.copy(), "dense_2.b": np.int32([1, 2]), "more": np.zeros(3)}
    del stored["dense.b"]
    np.savez(tmp_path / "a.npz", **stored)
    net, y = built()
    ctx.init(y)
    before = values(ctx, net.params)
    with pytest.raises(oc.CheckpointError) as caught:
        oc.load_weights(tmp_path / "a.npz", net, ctx=ctx)
    lines = {
        "other sizes: `dense.w` has (8, 3), 'dense.w' (3, 8)", "missing in the file: 'dense.b', for `dense.b`",
        "other type: `dense_2.b` is float32, 'dense_2.b' is int32", "only in the file: 'more', (3,) float64",
    }  # fmt: skip
    assert all(f"\n  {line}" in str(caught.value) for line in lines), str(caught.value)
    assert_equal(values(ctx, net.params), before)
    assert set(oc.load_weights(tmp_path / "a.npz", net, ctx=ctx, strict=False)) == lines
    np.testing.assert_array_equal(ctx[net.params["dense_2.w"]], arrays["dense_2.w"])
    for names, transpose, text in [
        ({"nothing": "a"}, False, "mentions the parameter 'nothing', and none is called so"),
        ({"w": "a"}, False, "several are called so: dense.w, dense_2.w"),
        (3, False, "`names` maps paths"),
        (None, "dense.w", "`transpose` is True"),
        (None, {"dense.w": (0, 0)}, "orders the axes of `dense.w`"),
    ]:
        with pytest.raises(oc.ArgumentError, match=text):
            oc.load_weights(tmp_path / "a.npz", net, names=names, transpose=transpose)  # type: ignore[arg-type]


def test_pickles_are_not_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.zeros(3)}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(b"\x80\x04\x95" + bytes(50))
    objects: Any = np.array([print, 3], dtype=object)
    np.savez(tmp_path / "c.npz", w=objects)
    net, _ = built()
    for name, text in [("a.pt", "is a pickle"), ("b.pt", "is no file of safetensors"), ("c.npz", "'w', .* object")]:
        with pytest.raises(oc.CheckpointError, match=text):
            oc.load_weights(tmp_path / name, net)


def test_mutated_archives_raise_nothing_but_checkpoint_errors(tmp_path: Path) -> None:
    arrays, rng = weights(), random.Random(1)
    for save, name in ((np.savez, "a.npz"), (np.savez_compressed, "b.npz")):
        save(tmp_path / name, **arrays)
        content = bytearray((tmp_path / name).read_bytes())
        net, _ = built()
        for _ in range(MUTATIONS // 6):
            data = bytearray(content)
            for _ in range(rng.choice([1, 3, 20])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            (tmp_path / "m.npz").write_bytes(data)
            with suppress(oc.CheckpointError):
                oc.load_weights(tmp_path / "m.npz", net)


def test_blocks_and_tensors_say_how_they_are_saved() -> None:
    net, y = built()
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(oc.CodeError, match=r"oc.save\(path, ctx, block\)"):
            call(net)
    with pytest.raises(oc.CodeError, match=r"oc.save\(path, ctx, t\)"):
        pickle.dumps(y)
