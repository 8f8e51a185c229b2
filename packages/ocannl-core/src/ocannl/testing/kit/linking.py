"""Code: several programs at once, bound to memory any number of times, kept as bytes and made again."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from ocannl.backend.api import CompiledCode
from ocannl.base.errors import CompileError
from ocannl.ir.affine import Sym, SymKind
from ocannl.ir.loops import AccessMode, Apply, Const, IndexValue, Store, Update, loop
from ocannl.ir.ops import ADD, MUL
from ocannl.testing.kit.area import Area
from ocannl.testing.kit.bench import Bench, call
from ocannl.testing.kit.cases import A, Case, case, cell, load, pool, sym
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
        made = [scaled(bench, f"scaled_{n}", n) for n in range(1, 9)]
        code = bench.backend.compile([one.proc for one in made])
        for one in reversed(made):
            bench.check(one, code=code)

    def test_programs_of_one_name_in_several_compiles(self, bench: Bench) -> None:
        made = [scaled(bench, "scaled", n) for n in range(1, 4)]
        codes = [bench.backend.compile([one.proc]) for one in made]
        for one, code in zip(made, codes, strict=True):
            bench.check(one, code=code)

    def test_no_programs(self, bench: Bench) -> None:
        assert isinstance(bench.backend.compile([]).source, str)

    def test_one_code_in_several_places(self, bench: Bench) -> None:
        """Calls of one place say nothing of the other, symbols included."""
        one = scaled(bench, "scaled", 3)
        code = bench.code(one.proc)
        x, y = one.given
        with bench.placed(one.proc, (x, y)) as here, bench.placed(one.proc, (x + 1, y)) as there:
            first, second = (bench.link(code, one.proc, placed) for placed in (here, there))
            for n in (5, 9):
                call(bench.queue, first, n)
                call(bench.queue, second, n + 10)
                assert here.read()[1].tolist() == (3 * x + n).tolist()
                assert there.read()[1].tolist() == (3 * x + 3 + n + 10).tolist()

    def test_one_place_for_several_codes(self, bench: Bench) -> None:
        p = bench.number
        start = np.ones(3, p.numpy)
        y, i = pool("y", start), sym("i", 3)
        made = [case(f"add_{n}", [(y, start)], (loop(i, (Update(cell(y, i), ADD, Const(n, p)),)),)) for n in (1, 10)]
        with bench.placed(made[0].proc, (start,)) as placed:
            for one in made:
                call(bench.queue, bench.link(bench.code(one.proc), one.proc, placed))
            assert placed.read()[0].tolist() == [12] * 3

    def test_code_for_another_device(self, bench: Bench) -> None:
        _, other = bench.two()
        one = scaled(bench, "scaled", 2)
        code = bench.code(one.proc)
        bench.check(one, code=code)
        bench.check(one, code=code, queue=other.queue(threaded=False))

    def test_an_arena_of_its_own(self, bench: Bench) -> None:
        step = max(bench.backend.capabilities.alignment_bytes, 64)
        one = through_arena((0, step), bench.number, 6 * step)
        code = bench.code(one.proc)
        for _ in range(3):
            bench.check(one, code=code)

    def test_an_entry_holds_what_it_needs(self, bench: Bench) -> None:
        one = scaled(bench, "scaled", 2)
        placed = bench.place(one.proc, one.given)
        entry = bench.link(bench.backend.compile([one.proc]), one.proc, placed)
        gc.collect()
        for _ in range(3):
            call(bench.queue, entry, 7)
        assert placed.read()[1].tolist() == one.wanted()[1].tolist()
        placed.free()

    def test_code_comes_out_the_same_again(self, bench: Bench) -> None:
        made = list(cases(bench.number).values())[-8:]
        first, second = (bench.backend.compile([one.proc for one in made]) for _ in range(2))
        assert first.source and first.source == second.source
        assert "0x7f" not in first.source.lower(), "the text holds an address"

    def test_a_program_is_in_the_text(self, bench: Bench) -> None:
        assert "marked_place" in bench.backend.compile([scaled(bench, "marked_place", 2).proc]).source


class Blobs(Area):
    """Code that can be kept comes back from its bytes; bytes that are not whole are refused."""

    def kept(self, bench: Bench, *made: Case) -> bytes:
        blob = bench.backend.compile([one.proc for one in made]).blob
        if blob is None:
            pytest.skip("the backend keeps no code")
        assert isinstance(blob, bytes)
        return blob

    def restored(self, bench: Bench, blob: bytes) -> CompiledCode:
        code = bench.backend.restore(blob)
        assert isinstance(code.source, str)
        return code

    def test_code_comes_back_from_its_bytes(self, bench: Bench) -> None:
        made = [scaled(bench, f"scaled_{n}", n) for n in (2, 5)]
        made.append(through_arena((0, 512), bench.number, 2048))
        blob = self.kept(bench, *made)
        for _ in range(2):
            code = self.restored(bench, blob)
            for one in made:
                bench.check(one, code=code)
        assert code.source == bench.backend.compile([one.proc for one in made]).source
        assert self.restored(bench, code.blob or b"").source == code.source

    def test_programs_of_one_name_stay_apart(self, bench: Bench) -> None:
        made = [scaled(bench, "scaled", n) for n in (2, 5)]
        codes = [self.restored(bench, self.kept(bench, one)) for one in made]
        for one, code in zip(made, codes, strict=True):
            bench.check(one, code=code)

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
        """Nothing that could be damaged is run: a byte changed, removed, or put in."""
        blob = bytearray(self.kept(bench, scaled(bench, "scaled", 2)))
        random = np.random.default_rng(seed)
        place = int(random.integers(len(blob)))
        match seed % 3:
            case 0: blob[place] ^= int(random.integers(1, 256))
            case 1: del blob[place]
            case _: blob.insert(place, blob[place] ^ 1)
        with pytest.raises(CompileError):
            bench.backend.restore(bytes(blob))

    def test_more_than_the_code_is_refused(self, bench: Bench) -> None:
        blob = self.kept(bench, scaled(bench, "scaled", 2))
        with pytest.raises(CompileError):
            bench.backend.restore(blob + b"x")
