"""Attention: multi-head, causal or not, within a sequence and across two, with shared keys, and linear."""

from __future__ import annotations

from .builder import Builder
from .program import Value

WHERE = "oc.where", "torch.where"


def attention(net: Builder, x: Value) -> Value | None:
    """Queries of `x`; keys and values of `x`, or of another sequence."""
    if x.form != "sequence":
        return None
    beside = [v for v in net.values if v.form == "sequence" and v.batch == x.batch and v.name != x.name]
    memory = net.choices.pick(beside) if beside and net.choices.chance(30) else x
    heads, size = net.choices.pick((1, 2, 4, 3, 8)), net.choices.pick((4, 8, 16, 32, 5, 64, 1))
    shared = heads > 1 and net.choices.chance(15)
    q = heads_of(net, x, heads, size)
    k = heads_of(net, memory, 1 if shared else heads, size)
    v = heads_of(net, memory, 1 if shared else heads, size)
    if net.choices.chance(12) and not shared:
        return linear(net, x, q, k, v)
    rows = net.rows(x)
    key_head, torch_code = ("0", "0") if shared else ("n", "n")
    count, length = x.dims[0], memory.dims[0]
    work, dims = x.batch[0] * count * length * heads * size, (heads, count, length)
    spec = f"{rows}|q, n, e; {rows}|k, {key_head}, e => {rows}|n, q, k"
    torch_code = f"torch.einsum('bqne,bke->bnqk', {q.name}, {k.name}[:, :, 0])"
    torch_code = torch_code if shared else f"torch.einsum('bqne,bkne->bnqk', {q.name}, {k.name})"
    scores = net.let("s", f'oc.einsum("{spec}", {q.name}, {k.name})', torch_code, "scores", dims, work=work, like=x)
    scores = masked(net, scaled(net, scores, size), x.name == memory.name)
    shares = probabilities(net, scores, rows)
    spec = f"{rows}|n, q, k; {rows}|k, {key_head}, e => {rows}|q, n, e"
    torch_code = f"torch.einsum('bnqk,bke->bqne', {shares.name}, {v.name}[:, :, 0])"
    torch_code = torch_code if shared else f"torch.einsum('bnqk,bkne->bqne', {shares.name}, {v.name})"
    text = f'oc.einsum("{spec}", {shares.name}, {v.name})'
    return joined(net, x, net.let("o", text, torch_code, "heads", (count, heads, size), work=work, like=x))


def heads_of(net: Builder, x: Value, heads: int, size: int) -> Value:
    """`...| t, head, feature`: by a parameter of three axes, or by one of two and a split."""
    rows, work, dims = net.rows(x), x.cells * heads * size, (x.dims[0], heads, size)
    if net.choices.chance(60):
        w = net.parameter("w", [x.channels, heads, size], scale=x.channels**-0.5, role="heads")
        text = f'oc.einsum("{rows}|t, c; c, n, e => {rows}|t, n, e", {x.name}, {w})'
        torch_code = f"torch.einsum('btc,cne->btne', {x.name}, {w})"
        return net.let("q", text, torch_code, "heads", dims, work=work, like=x)
    w = net.parameter("w", [heads * size, x.channels], scale=x.channels**-0.5, role="w")
    text = f'oc.einsum("{rows}|t, c; o, c => {rows}|t, o", {x.name}, {w})'
    flat = net.let("q", text, f"{x.name} @ {w}.T", "sequence", (x.dims[0], heads * size), work=work, like=x)
    text = f'oc.einsum("{rows}|t, (n e) => {rows}|t, n, e", {flat.name}, n={heads})'
    return net.let("q", text, f"{flat.name}.unflatten(-1, ({heads}, {size}))", "heads", dims, like=x)


def scaled(net: Builder, scores: Value, size: int) -> Value:
    choice = net.choices.integer(3)
    if choice == 0:
        text = torch_code = f"{scores.name} * {size**-0.5:.6f}"
    elif choice == 1:
        text = torch_code = f"{scores.name} / {size**0.5:.6f}"
    else:  # scores that stay below a limit
        text, torch_code = f"5.0 * oc.tanh({scores.name} / 5.0)", f"5.0 * torch.tanh({scores.name} / 5.0)"
    s = net.let("s", text, torch_code, "scores", scores.dims, batch=scores.batch)
    if not net.choices.chance(20):
        return s
    dims = scores.dims if net.choices.chance(50) else (1, *scores.dims[1:])
    b = net.parameter("b", dims, scale=0.3)
    return net.let("s", f"{s.name} + {b}", f"{s.name} + {b}", "scores", s.dims, batch=s.batch)


def masked(net: Builder, scores: Value, same: bool) -> Value:
    """What comes later is not seen; or what lies far away; or what data hides."""
    _, queries, keys = scores.dims
    kinds = (("all", 4), ("causal", 5), ("far", 2), ("data", 1)) if same else (("all", 4), ("data", 1))
    choice = net.choices.weighted(kinds)
    if choice == "all":
        return scores
    at = f'oc.einsum("q => q, 0", oc.iota({queries}))', f"torch.arange({queries})[:, None]"
    key = f"oc.iota({keys})", f"torch.arange({keys})"
    if choice == "data":
        seen = net.data("seen", (scores.batch[0], keys), 1, scale=1.0)
        shown = f'oc.einsum("...|k => ...|0, 0, k", {seen} > -0.8)', f"({seen} > -0.8)[:, None, None]"
    elif choice == "causal":
        shown = f"{key[0]} <= {at[0]}", f"{key[1]} <= {at[1]}"
    else:
        near = max(1, net.size(keys))
        shown = f"oc.abs({key[0]} - {at[0]}) < {near}", f"({key[1]} - {at[1]}).abs() < {near}"
    hidden = net.choices.pick((-1e9, -1e4, -30.0))
    text, torch_code = (f"{where}({test}, {scores.name}, {hidden})" for where, test in zip(WHERE, shown, strict=True))
    return net.let("s", text, torch_code, "scores", scores.dims, batch=scores.batch)


def probabilities(net: Builder, scores: Value, rows: str) -> Value:
    """Softmax over keys: by the function, or from its parts."""
    name, spec = scores.name, f"{rows}|n, q, k => {rows}|n, q, 0"
    text = f'oc.softmax({name}, "{spec}")'
    if net.choices.chance(25):
        largest = f'oc.stop_gradient({name}.max("{spec}"))'
        e = net.let("e", f"oc.exp({name} - {largest})", f"torch.exp({name} - {name}.detach().amax(-1, keepdim=True))",
                    "scores", scores.dims, batch=scores.batch)  # fmt: skip
        text = f'{e.name} / {e.name}.sum("{spec}")'
    return net.let("p", text, f"{name}.softmax(-1)", "scores", scores.dims, batch=scores.batch)


def joined(net: Builder, x: Value, heads: Value) -> Value:
    """Heads become channels: by a parameter, or by a merge."""
    count, size = heads.dims[1:]
    rows, work = net.rows(x), heads.cells * x.channels
    if net.choices.chance(70):
        w = net.parameter("w", [count, size, x.channels], scale=(count * size) ** -0.5)
        text = f'oc.einsum("{rows}|t, n, e; n, e, c => {rows}|t, c", {heads.name}, {w})'
        torch_code = f"torch.einsum('btne,nec->btc', {heads.name}, {w})"
        return net.let("h", text, torch_code, "sequence", (heads.dims[0], x.channels), work=work, like=x)
    text = f'oc.einsum("{rows}|t, n, e => {rows}|t, (n e)", {heads.name})'
    return net.let("h", text, f"{heads.name}.flatten(-2)", "sequence", (heads.dims[0], count * size), like=x)


def linear(net: Builder, x: Value, q: Value, k: Value, v: Value) -> Value:
    """Keys and values are mixed before queries are."""
    rows, (_, heads, size) = net.rows(x), q.dims
    text, torch_code = f"oc.softmax({q.name}, \"{rows}|t, n, e => {rows}|t, n, 0\")", f"{q.name}.softmax(-1)"
    queries = net.let("q", text, torch_code, "heads", q.dims, like=x)
    spec = f"{rows}|k, n, e; {rows}|k, n, f => {rows}|n, e, f"
    torch_code = f"torch.einsum('bkne,bknf->bnef', {k.name}, {v.name})"
    text = f'oc.einsum("{spec}", {k.name}, {v.name}) / {k.dims[0]}'
    mixed = net.let("p", text, f"{torch_code} / {k.dims[0]}", "mixed", (heads, size, size), work=k.cells * size, like=x)
    spec = f"{rows}|t, n, e; {rows}|n, e, f => {rows}|t, n, f"
    text = f'oc.einsum("{spec}", {queries.name}, {mixed.name})'
    torch_code = f"torch.einsum('btne,bnef->btnf', {queries.name}, {mixed.name})"
    return joined(net, x, net.let("o", text, torch_code, "heads", q.dims, work=q.cells * size, like=x))
