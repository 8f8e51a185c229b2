"""Code: several programs in one compilation, repeated linking, serialization and restoring."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ocannl.backend.api import CompiledCode
from ocannl.base.errors import CompileError
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.loops import AccessMode, Apply, Const, IndexValue, Store, Update, loop
from ocannl.ir.ops import ADD, MUL
from ocannl.testing.kit.backend_tests import Area
from ocannl.testing.kit.cases import A, Case, case, cell, load, pool, sym
from ocannl.testing.kit.harness import Bench, call
from ocannl.testing.kit.layouts import through_arena
from ocannl.testing.kit.statements import cases


def scaled(bench: Bench, name: str, factor: int) -> Case:
    """`y[i] = factor * x[i] + n`."""
    p = bench.number
    a = np.arange(6).astype(p.numpy)
    x, y, i = pool("x", a, AccessMode.IN), pool("y", a, AccessMode.OUT), sym("i", 6)
    n = Sym("n", 0, 99, SymKind.STATIC)
    value = Apply(ADD, (Apply(MUL, (load(x, i), Const(factor, p))), IndexValue(A(n), p)))
    body = (loop(i, (Store(cell(y, i), value),)),)
    want = (a, (factor * a + 7).astype(p.numpy))
    return case(name, [(x, a), (y, np.zeros_like(a))], body, syms=(n,), values=(7,), want=want)


class Linking(Area):
    """Code is relocatable: compiled once, linked any number of times."""

    def test_several_programs_in_one_compile(self, bench: Bench) -> None:
        programs = [scaled(bench, f"scaled_{n}", n) for n in range(1, 9)]
        code = bench.backend.compile([example.proc for example in programs])
        for example in reversed(programs):
            bench.check(example, code=code)

    def test_programs_of_one_name_in_several_compiles(self, bench: Bench) -> None:
        programs = [scaled(bench, "scaled", n) for n in range(1, 4)]
        codes = [bench.backend.compile([example.proc]) for example in programs]
        for example, code in zip(programs, codes, strict=True):
            bench.check(example, code=code)

    def test_no_programs(self, bench: Bench) -> None:
        assert isinstance(bench.backend.compile([]).source, str)

    def test_one_code_in_several_places(self, bench: Bench) -> None:
        """Entries linked to different memory are independent, including their symbols."""
        example = scaled(bench, "scaled", 3)
        code = bench.code(example.proc)
        x, y = example.inputs
        with (
            bench.placed(example.proc, (x, y)) as first_arrays,
            bench.placed(example.proc, (x + 1, y)) as second_arrays,
        ):
            first, second = (bench.link(code, example.proc, placed) for placed in (first_arrays, second_arrays))
            for n in (5, 9):
                call(bench.queue, first, n)
                call(bench.queue, second, n + 10)
                assert first_arrays.read()[1].tolist() == (3 * x + n).tolist()
                assert second_arrays.read()[1].tolist() == (3 * x + 3 + n + 10).tolist()

    def test_one_place_for_several_codes(self, bench: Bench) -> None:
        p = bench.number
        start = np.ones(3, p.numpy)
        y, i = pool("y", start), sym("i", 3)
        bodies = {n: (loop(i, (Update(cell(y, i), ADD, Const(n, p)),)),) for n in (1, 10)}
        programs = [case(f"add_{n}", [(y, start)], body) for n, body in bodies.items()]
        with bench.placed(programs[0].proc, (start,)) as placed:
            for example in programs:
                call(bench.queue, bench.link(bench.code(example.proc), example.proc, placed))
            assert placed.read()[0].tolist() == [12] * 3

    def test_code_for_another_device(self, bench: Bench) -> None:
        _, device = bench.two()
        example = scaled(bench, "scaled", 2)
        code = bench.code(example.proc)
        bench.check(example, code=code)
        bench.check(example, code=code, queue=device.queue(threaded=False))

    def test_an_arena_of_its_own(self, bench: Bench) -> None:
        step = max(bench.backend.capabilities.alignment_bytes, 64)
        example = through_arena((0, step), bench.number, 6 * step)
        code = bench.code(example.proc)
        for _ in range(3):
            bench.check(example, code=code)

    def test_an_entry_holds_what_it_needs(self, bench: Bench) -> None:
        example = scaled(bench, "scaled", 2)
        placed = bench.allocate(example.proc, example.inputs)
        entry = bench.link(bench.backend.compile([example.proc]), example.proc, placed)
        gc.collect()
        for _ in range(3):
            call(bench.queue, entry, 7)
        assert placed.read()[1].tolist() == example.expected()[1].tolist()
        placed.free()

    def test_code_comes_out_the_same_again(self, bench: Bench) -> None:
        programs = list(cases(bench.number).values())[-8:]
        first, second = (bench.backend.compile([example.proc for example in programs]) for _ in range(2))
        assert first.source and first.source == second.source
        assert "0x7f" not in first.source.lower(), "the text holds an address"

    def test_a_program_is_in_the_text(self, bench: Bench) -> None:
        assert "marked_place" in bench.backend.compile([scaled(bench, "marked_place", 2).proc]).source


class Blobs(Area):
    """Serialized code is restored; truncated or damaged bytes are refused."""

    def kept(self, bench: Bench, *programs: Case) -> bytes:
        blob = bench.backend.compile([example.proc for example in programs]).blob
        if blob is None:
            pytest.skip("the backend keeps no code")
        assert isinstance(blob, bytes)
        return blob

    def restored(self, bench: Bench, blob: bytes) -> CompiledCode:
        code = bench.backend.restore(blob)
        assert isinstance(code.source, str)
        return code

    def test_code_comes_back_from_its_bytes(self, bench: Bench) -> None:
        programs = [scaled(bench, f"scaled_{n}", n) for n in (2, 5)]
        programs.append(through_arena((0, 512), bench.number, 2048))
        blob = self.kept(bench, *programs)
        for _ in range(2):
            code = self.restored(bench, blob)
            for example in programs:
                bench.check(example, code=code)
        assert code.source == bench.backend.compile([example.proc for example in programs]).source
        assert self.restored(bench, code.blob or b"").source == code.source

    def test_programs_of_one_name_stay_apart(self, bench: Bench) -> None:
        programs = [scaled(bench, "scaled", n) for n in (2, 5)]
        codes = [self.restored(bench, self.kept(bench, example)) for example in programs]
        for example, code in zip(programs, codes, strict=True):
            bench.check(example, code=code)

    @pytest.mark.parametrize("blob", [b"", b"\0", b"{}", b"ocannl", b"\x7fELF" + bytes(100), bytes(range(256)) * 9])
    def test_what_never_was_code_is_refused(self, bench: Bench, blob: bytes) -> None:
        with pytest.raises(CompileError):
            bench.backend.restore(blob)

    @pytest.mark.parametrize("part", [0.0, 0.02, 0.1, 0.3, 0.5, 0.8, 0.99])
    def test_a_part_of_code_is_refused(self, bench: Bench, part: float) -> None:
        blob = self.kept(bench, scaled(bench, "scaled", 2))
        with pytest.raises(CompileError):
            bench.backend.restore(blob[: int(part * len(blob))])

    @pytest.mark.parametrize("seed", range(12))
    def test_damaged_code_is_refused(self, bench: Bench, seed: int) -> None:
        """A byte is changed, removed or inserted."""
        blob = bytearray(self.kept(bench, scaled(bench, "scaled", 2)))
        random = np.random.default_rng(seed)
        position = int(random.integers(len(blob)))
        match seed % 3:
            case 0: blob[position] ^= int(random.integers(1, 256))
            case 1: del blob[position]
            case _: blob.insert(position, blob[position] ^ 1)
        with pytest.raises(CompileError):
            bench.backend.restore(bytes(blob))

    def test_more_than_the_code_is_refused(self, bench: Bench) -> None:
        blob = self.kept(bench, scaled(bench, "scaled", 2))
        with pytest.raises(CompileError):
            bench.backend.restore(blob + b"x")
