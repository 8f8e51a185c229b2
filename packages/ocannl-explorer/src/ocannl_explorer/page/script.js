"use strict";

const $ = (id) => document.getElementById(id);
const linesOf = (id) => $(id).querySelector(".lines");

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/* Lines common to two sequences, as pairs of positions: a patience diff. */
function commonLines(a, b) {
  const pairs = [];
  const visit = (a0, a1, b0, b1) => {
    while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) pairs.push([a0++, b0++]);
    const end = [];
    while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) end.push([--a1, --b1]);
    const anchors = longestChain(uniquePairs(a, a0, a1, b, b0, b1));
    for (const [m, n] of anchors) {
      if (m < a0 || n < b0) continue;
      visit(a0, m, b0, n);
      pairs.push([m, n]);
      [a0, b0] = [m + 1, n + 1];
    }
    if (anchors.length && a0 < a1 && b0 < b1) visit(a0, a1, b0, b1);
    pairs.push(...end.reverse());
  };
  visit(0, a.length, 0, b.length);
  return pairs;
}

function uniquePairs(a, a0, a1, b, b0, b1) {
  const counts = new Map();
  const entry = (key) => counts.get(key) ?? (counts.set(key, [0, 0, 0, 0]), counts.get(key));
  for (let n = a0; n < a1; n++) { const e = entry(a[n]); e[0]++; e[1] = n; }
  for (let n = b0; n < b1; n++) { const e = entry(b[n]); e[2]++; e[3] = n; }
  return [...counts.values()].filter((e) => e[0] === 1 && e[2] === 1).map((e) => [e[1], e[3]]);
}

/* The longest subsequence of pairs, sorted by their first member, whose second members increase. */
function longestChain(pairs) {
  const ends = [], previous = [];
  pairs.forEach(([, position], index) => {
    let low = 0, high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < position) low = middle + 1; else high = middle;
    }
    previous[index] = low ? ends[low - 1] : -1;
    ends[low] = index;
  });
  const chain = [];
  for (let index = ends.at(-1) ?? -1; index >= 0; index = previous[index]) chain.push(pairs[index]);
  return chain.reverse();
}

class Page {
  constructor(data) {
    this.data = data;
    this.elements = data.origins.map(() => []); // of each origin, in the columns shown
    this.marked = [];
    this.selection = new Set();
    this.originsOfLine = new Map(); // "file:line" -> origins
    data.origins.forEach(([, , file, line], n) => {
      const key = `${file}:${line}`;
      this.originsOfLine.set(key, [...(this.originsOfLine.get(key) ?? []), n]);
    });
  }

  /* A line of a column. `origins` are those it leads to; a line without any cannot be selected. */
  line(column, content, origins, { asHtml = false, classes = "" } = {}) {
    const element = document.createElement("div");
    element.className = `line ${classes} ${origins.length ? "" : "idle"}`;
    element.role = "option";
    element.id = `${column}-${this.counts[column]++}`;
    element.ariaSelected = "false";
    if (asHtml) element.innerHTML = content || " "; else element.textContent = content || " ";
    if (!element.textContent.trim()) element.ariaLabel = "blank line";
    element.origins = origins;
    for (const origin of origins) this.elements[origin].push(element);
    return element;
  }

  fill(column, elements) {
    const list = linesOf(column);
    for (const origin of this.elements.keys())
      this.elements[origin] = this.elements[origin].filter((e) => e.parentNode !== list);
    list.replaceChildren(...elements);
    list.removeAttribute("aria-activedescendant");
    this.mark();
  }

  counts = { source: 0, tensors: 0, program: 0, generated: 0, costs: 0 };

  showSource(file) {
    const [, lines] = this.data.files[file] ?? ["", []];
    const elements = lines.map((text, n) => {
      const origins = this.originsOfLine.get(`${file}:${n + 1}`) ?? [];
      return this.line("source", `<span class="count">${n + 1}</span>${text}`, origins, { asHtml: true });
    });
    this.fill("source", elements);
  }

  showTensors() {
    const width = (key) => Math.max(...this.data.tensors.map((t) => t[key].length), 1);
    const widths = ["label", "shape", "precision"].map((key) => [key, width(key)]);
    const elements = this.data.tensors.map((t) => {
      const text = widths.map(([key, w]) => t[key].padEnd(w)).join("  ");
      const element = this.line("tensors", `${text}  ${t.placement} (${t.pass})`, [t.origin]);
      element.reasons = t.reasons || `${t.label}   ${t.shape}`;
      return element;
    });
    this.fill("tensors", elements);
  }

  showStage(index) {
    const { stages, texts } = this.data;
    const stage = stages[index], before = index ? stages[index - 1] : null;
    const isDiff = $("changes").checked && before;
    const common = isDiff ? commonLines(before.lines, stage.lines) : [];
    const elements = [];
    const add = (n, classes) =>
      elements.push(this.line("program", texts[stage.lines[n]], [stage.origins[n]], { classes }));
    let a = 0, b = 0;
    for (const [m, n] of [...common, [before?.lines.length ?? 0, stage.lines.length]]) {
      for (; isDiff && a < m; a++) {
        const removed = this.line("program", texts[before.lines[a]], [], { classes: "removed" });
        elements.push(removed);
      }
      for (; b < n; b++) add(b, isDiff ? "added" : "");
      if (n < stage.lines.length) { add(n, isDiff ? "same" : ""); a = m + 1; b = n + 1; }
    }
    this.fill("program", elements);
  }

  showGenerated() {
    const { lines, origins, sets } = this.data.generated;
    const options = { asHtml: true };
    this.fill("generated", lines.map((text, n) => this.line("generated", text, sets[origins[n]], options)));
  }

  showCosts() {
    const { profile, arena } = this.data;
    const rows = profile?.rows ?? [];
    const total = rows.reduce((sum, row) => sum + row.us, 0) || 1;
    const elements = rows.map((row) => {
      const rate = row.us ? `${((row.read + row.written) / row.us / 1e3).toFixed(1)} GB/s` : "";
      const text = `${row.us.toFixed(1).padStart(9)} us ${((100 * row.us) / total).toFixed(1).padStart(5)} %  `
        + `${row.name}  ${row.heading}  ${rate}`;
      const element = this.line("costs", text, row.origins, { classes: "bar" });
      element.style.setProperty("--share", `${(100 * row.us) / total}%`);
      return element;
    });
    if (!profile) elements.push(this.line("costs", "not profiled: routine.explore(path, profile=routine.profile())", []));
    this.fill("costs", elements);
    for (const region of arena) $("arenas").append(...this.arena(region));
  }

  /* Blocks of an arena: time runs to the right, addresses run down. */
  arena({ program, bytes, statements, blocks }) {
    const title = document.createElement("h3");
    title.textContent = `Arena of ${program}: ${bytes.toLocaleString("en")} bytes`;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${statements} ${Math.max(bytes, 1)}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title.textContent}, ${blocks.length} blocks`);
    for (const block of blocks) {
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const size = { x: block.first, y: block.offset, width: block.last - block.first + 1, height: block.bytes };
      for (const [key, value] of Object.entries(size)) rect.setAttribute(key, value);
      const label = document.createElementNS("http://www.w3.org/2000/svg", "title");
      label.textContent = `${block.name}: ${block.bytes.toLocaleString("en")} bytes at ${block.offset}, `
        + `statements ${block.first} to ${block.last}`;
      rect.append(label);
      rect.addEventListener("click", () => this.select([block.origin], null));
      this.elements[block.origin].push(rect);
      svg.append(rect);
    }
    return [title, svg];
  }

  select(origins, chosen) {
    this.chosen?.classList.remove("chosen");
    this.chosen?.setAttribute("aria-selected", "false");
    this.chosen = chosen;
    this.selection = new Set(origins);
    const { origins: table, files } = this.data;
    const first = origins.find((n) => table[n][2] >= 0);
    if (first !== undefined && Number($("file").value) !== table[first][2] && files.length) {
      $("file").value = table[first][2];
      this.showSource(table[first][2]);
    } else this.mark();
    const names = origins.map((n) => [table[n][0], table[n][1]].filter(Boolean).join("  ") || "no line of Python");
    $("selected").textContent = names.slice(0, 3).join(",  ")
      + (names.length > 3 ? ` and ${names.length - 3} more` : "");
    if (chosen?.reasons) $("reasons").textContent = chosen.reasons;
    this.scroll(chosen);
  }

  mark() {
    for (const element of this.marked) element.classList.remove("marked");
    this.marked = [];
    for (const origin of this.selection)
      for (const element of this.elements[origin]) { element.classList.add("marked"); this.marked.push(element); }
    this.chosen?.classList.add("chosen");
    this.chosen?.setAttribute("aria-selected", "true");
  }

  /* Scrolls all columns but that of the selected line to the longest run of marked lines. */
  scroll(chosen) {
    for (const list of document.querySelectorAll(".lines")) {
      if (list === chosen?.parentNode) continue;
      let best = null, longest = 0, start = null, length = 0;
      for (const element of list.children) {
        if (!element.classList.contains("marked")) { length = 0; continue; }
        if (length++ === 0) start = element;
        if (length > longest) [best, longest] = [start, length];
      }
      if (best) list.scrollTop = best.offsetTop - list.offsetTop - list.clientHeight / 3;
    }
  }

  activate(list, element) {
    if (!element) return;
    list.setAttribute("aria-activedescendant", element.id);
    const top = element.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + element.offsetHeight > list.scrollTop + list.clientHeight)
      list.scrollTop = top + element.offsetHeight - list.clientHeight;
    this.select(element.origins ?? [], element);
  }

  connect() {
    for (const list of document.querySelectorAll(".lines")) {
      list.addEventListener("click", (event) => {
        const element = event.target.closest(".line");
        if (element?.origins.length) this.activate(list, element);
      });
      list.addEventListener("keydown", (event) => this.key(list, event));
    }
    $("file").addEventListener("change", () => this.showSource(Number($("file").value)));
    $("stage").addEventListener("change", () => this.showStage(Number($("stage").value)));
    $("changes").addEventListener("change", () => this.showStage(Number($("stage").value)));
    for (const section of document.querySelectorAll("section")) {
      const button = document.createElement("button");
      button.textContent = section.querySelector("h2").textContent;
      button.addEventListener("click", () => {
        this.showColumn(section);
        this.scroll(this.chosen); // a hidden column does not scroll
      });
      $("tabs").append(button);
    }
    this.showColumn($("source"));
  }

  showColumn(shown) {
    [...document.querySelectorAll("section")].forEach((section, n) => {
      section.classList.toggle("shown", section === shown);
      $("tabs").children[n].setAttribute("aria-pressed", String(section === shown));
    });
  }

  /* Arrow keys, Home and End move among the lines that can be selected. */
  key(list, event) {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    const lines = [...list.children].filter((element) => element.origins?.length);
    if (!lines.length) return;
    const current = lines.findIndex((element) => element.id === list.getAttribute("aria-activedescendant"));
    const next = Math.min(lines.length - 1, Math.max(0, current + step));
    this.activate(list, lines[next]);
  }
}

function options(select, names) {
  select.replaceChildren(...names.map((name, n) => new Option(name, n)));
}

async function start() {
  const page = new Page(await unpack($("data").textContent));
  const { files, stages } = page.data;
  options($("file"), files.map(([name]) => name));
  const unchanged = (n) => n > 0 && String(stages[n].lines) === String(stages[n - 1].lines);
  options($("stage"), stages.map((stage, n) => stage.name + (unchanged(n) ? " (nothing changes)" : "")));
  $("stage").value = stages.length - 1;
  page.connect();
  page.showSource(0);
  page.showTensors();
  page.showStage(stages.length - 1);
  page.showGenerated();
  page.showCosts();
  document.body.dataset.ready = "true";
}

start().catch((error) => { $("selected").textContent = `The page cannot be shown: ${error.message}`; });
