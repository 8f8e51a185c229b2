"use strict";

const $ = (id) => document.getElementById(id);
const linesOf = (id) => $(id).querySelector(".lines");

const FOLD_WIDTH = 18; // of the arrow of a heading, in pixels
const MARKED_AT_ONCE = 600; // lines, in a few dozen milliseconds
const LINES_IN_VIEW = 60; // at most, above and below a line

function shape(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

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

/* For each column, the first line and the length of the longest run of these elements that are shown. */
function longestRuns(elements) {
  const runs = new Map();
  const isShown = (element) => element && elements.has(element) && !element.hidden;
  for (const element of elements.keys()) {
    const list = element.parentNode;
    if (!list?.classList.contains("lines") || !isShown(element) || isShown(element.previousElementSibling)) continue;
    let length = 1;
    for (let next = element.nextElementSibling; isShown(next); next = next.nextElementSibling) length++;
    if (length > (runs.get(list)?.length ?? 0)) runs.set(list, { element, length });
  }
  return runs;
}

class Page {
  constructor(data) {
    this.data = data;
    for (const stage of data.stages) {
      stage.lines = stage.parts.flatMap((part) => data.parts[part][0]);
      stage.origins = stage.parts.flatMap((part) => data.parts[part][1]);
    }
    this.elements = data.origins.map(() => []); // of each origin, in the columns shown
    this.marked = new Map();
    this.runs = new Map();
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
    element.role = "treeitem";
    element.column = column;
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

  /* Gives the lines between a heading and the next one to the heading, which opens and closes them. */
  group(elements) {
    let heading = null;
    for (const element of elements) {
      if (element.classList.contains("heading")) {
        heading = element;
        heading.members = [];
      } else if (heading) {
        element.heading = heading;
        element.ariaLevel = 2;
        heading.members.push(element);
      }
    }
    for (const element of elements) {
      if (!element.members?.length) element.classList.remove("heading");
      else element.ariaExpanded = "true";
    }
    return elements;
  }

  fold(heading, isOpen) {
    if (!heading) return;
    heading.ariaExpanded = String(isOpen);
    for (const member of heading.members) member.hidden = !isOpen;
    this.mark();
  }

  foldAll(list, isOpen) {
    for (const heading of list.querySelectorAll(".heading")) {
      heading.ariaExpanded = String(isOpen);
      for (const member of heading.members) member.hidden = !isOpen;
    }
    this.mark();
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
    this.fill("tensors", this.group(elements.flatMap((element, n) => [...this.blockHeading(n), element])));
  }

  /* The heading above a tensor, if the tensor is the first of several that a line of Python creates: a block. */
  blockHeading(n) {
    const { tensors, origins, files } = this.data;
    const place = (m) => String(origins[tensors[m]?.origin]?.slice(2));
    if (place(n) === place(n - 1)) return [];
    let end = n + 1;
    while (end < tensors.length && place(end) === place(n)) end++;
    const [, position, file, line] = origins[tensors[n].origin];
    const holder = document.createElement("div");
    holder.innerHTML = files[file]?.[1][line - 1] ?? "";
    const text = `${position}  ${holder.textContent.trim()}  (${end - n} ${end - n > 1 ? "tensors" : "tensor"})`;
    const block = [...new Set(tensors.slice(n, end).map((tensor) => tensor.origin))];
    return [this.line("tensors", text, block, { classes: "heading" })];
  }

  showStage(index) {
    this.stage = index;
    const { stages, texts } = this.data;
    const stage = stages[index], before = index ? stages[index - 1] : null;
    const isDiff = $("changes").checked && before;
    const common = isDiff ? commonLines(before.lines, stage.lines) : [];
    const elements = [];
    const add = (n, change) => {
      const text = texts[stage.lines[n]], classes = /^ *# /.test(text) ? `heading ${change}` : change;
      elements.push(this.line("program", text, [stage.origins[n]], { classes }));
    };
    let a = 0, b = 0;
    for (const [m, n] of [...common, [before?.lines.length ?? 0, stage.lines.length]]) {
      for (; isDiff && a < m; a++) {
        const removed = this.line("program", texts[before.lines[a]], [], { classes: "removed" });
        elements.push(removed);
      }
      for (; b < n; b++) add(b, isDiff ? "added" : "");
      if (n < stage.lines.length) { add(n, isDiff ? "same" : ""); a = m + 1; b = n + 1; }
    }
    this.fill("program", this.group(elements));
    this.foldAll(linesOf("program"), !$("program").querySelector(".folded").checked);
  }

  showGenerated(index) {
    const { lines, origins, sets, headings, html } = this.data.generated[index];
    const heads = new Set(headings);
    const elements = lines.map((text, n) =>
      this.line("generated", text, sets[origins[n]], { asHtml: html, classes: heads.has(n) ? "heading" : "" }));
    this.fill("generated", this.group(elements));
    const box = $("generated").querySelector(".folded");
    box.parentNode.hidden = !headings.length;
    this.foldAll(linesOf("generated"), !box.checked);
  }

  showCosts() {
    const { profile, arena, limits } = this.data;
    const rows = profile?.rows ?? [];
    const total = rows.reduce((sum, row) => sum + row.us, 0) || 1;
    const elements = rows.map((row) => {
      const rate = row.us ? `${((row.read + row.written) / row.us / 1e3).toFixed(1)} GB/s` : "";
      const operations = row.us && row.flops ? `${(row.flops / row.us / 1e3).toFixed(2)} GFLOP/s` : "";
      const text = `${row.us.toFixed(1).padStart(9)} us ${((100 * row.us) / total).toFixed(1).padStart(5)} %  `
        + `${row.name}  ${row.heading}  ${rate}  ${operations}`;
      const element = this.line("costs", text, row.origins, { classes: "bar" });
      element.style.setProperty("--share", `${(100 * row.us) / total}%`);
      return element;
    });
    if (!profile) elements.push(this.line("costs", "not profiled: routine.explore(path, profile=routine.profile())", []));
    this.fill("costs", elements);
    if (limits && rows.some((row) => row.flops && row.us)) $("charts").append(...this.roofline(rows, limits, total));
    for (const region of arena) $("charts").append(...this.arena(region));
    $("charts").hidden = !$("charts").children.length;
  }

  /* Operations per byte run to the right and operations per second run up, both in powers of two. */
  roofline(rows, limits, total) {
    const title = document.createElement("h3");
    title.textContent = `Roofline: ${limits.gflops.toFixed(0)} GFLOP/s of float32 on `
      + `${limits.threads} ${limits.threads > 1 ? "threads" : "thread"}`;
    const nests = rows.filter((row) => row.flops && row.us && row.read + row.written);
    const intensity = (row) => row.flops / (row.read + row.written), speed = (row) => row.flops / row.us / 1e3;
    const xs = nests.map(intensity), ys = nests.map(speed);
    const [left, right] = [Math.log2(Math.min(...xs, 0.125)) - 0.5, Math.log2(Math.max(...xs, 32)) + 0.5];
    const [low, high] = [Math.log2(Math.min(...ys, limits.gflops / 64)) - 0.5, Math.log2(Math.max(...ys, limits.gflops)) + 1];
    const width = 480, height = 200;
    const x = (value) => ((Math.log2(value) - left) / (right - left)) * width;
    const y = (value) => height - ((Math.log2(value) - low) / (high - low)) * height;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "roofline" });
    svg.setAttribute("aria-label", `${title.textContent}, ${nests.length} nests`);
    for (const [name, rate] of Object.entries(limits.bandwidths)) {
      const knee = limits.gflops / rate, begin = 2 ** left;
      const path = `M${x(begin)},${y(rate * begin)} L${x(knee)},${y(limits.gflops)} L${width},${y(limits.gflops)}`;
      const line = shape("path", { d: path, class: "roof" });
      line.append(shape("title", {}, `${name}: ${rate.toFixed(0)} GB/s`));
      svg.append(line);
    }
    const names = `bandwidths from left to right: ${Object.keys(limits.bandwidths).join(", ")}`;
    svg.append(shape("text", { x: 4, y: 12 }, names), shape("text", { x: width - 4, y: height - 4, "text-anchor": "end" },
      `${2 ** Math.round(left)} to ${2 ** Math.round(right)} operations per byte`));
    for (const row of nests) {
      const radius = 3 + 9 * Math.sqrt(row.us / total);
      const dot = shape("circle", { cx: x(intensity(row)), cy: y(speed(row)), r: radius });
      const roof = Math.min(limits.gflops, intensity(row) * limits.bandwidths.memory);
      dot.append(shape("title", {}, `${row.name}: ${speed(row).toFixed(2)} GFLOP/s, ${intensity(row).toFixed(2)} `
        + `operations per byte, ${((100 * speed(row)) / roof).toFixed(0)} % of the limit with data in memory`));
      this.connectShape(dot, row.origins);
      svg.append(dot);
    }
    return [title, svg];
  }

  connectShape(element, origins) {
    element.column = "costs";
    element.addEventListener("click", () => this.select(origins, null, "costs"));
    for (const origin of origins) this.elements[origin].push(element);
  }

  /* Blocks of an arena: time runs to the right, addresses run down. */
  arena({ program, bytes, statements, blocks }) {
    const title = document.createElement("h3");
    title.textContent = `Arena of ${program}: ${bytes.toLocaleString("en")} bytes`;
    const svg = shape("svg", { viewBox: `0 0 ${statements} ${Math.max(bytes, 1)}`, role: "img", class: "arena" });
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-label", `${title.textContent}, ${blocks.length} blocks`);
    for (const block of blocks) {
      const size = { x: block.first, y: block.offset, width: block.last - block.first + 1, height: block.bytes };
      const rect = shape("rect", size);
      rect.append(shape("title", {}, `${block.name}: ${block.bytes.toLocaleString("en")} bytes at ${block.offset}, `
        + `statements ${block.first} to ${block.last}`));
      this.connectShape(rect, [block.origin]);
      svg.append(rect);
    }
    return [title, svg];
  }

  select(origins, chosen, column = chosen?.column) {
    this.chosen?.classList.remove("chosen");
    this.chosen?.setAttribute("aria-selected", "false");
    this.chosen = chosen;
    this.selection = new Set(origins);
    this.selectedColumn = column;
    const { origins: table, files } = this.data;
    const first = origins.find((n) => table[n][2] >= 0);
    if (first !== undefined && Number($("file").value) !== table[first][2] && files.length) {
      $("file").value = table[first][2];
      this.showSource(table[first][2]);
    } else this.mark();
    const names = origins.map((n) => [table[n][0], table[n][1]].filter(Boolean).join("  ") || "no line of Python");
    $("selected").textContent = names.slice(0, 3).join(",  ")
      + (names.length > 3 ? ` and ${names.length - 3} more` : "");
    if (window.parent !== window) window.parent.postMessage({ selection: names }, "*"); // the widget of a notebook
    if (chosen?.reasons) $("reasons").textContent = chosen.reasons;
    this.showPlans();
    this.scroll(chosen);
  }

  /* The plans that were considered for the selected nests, with the times that autotuning has measured; an arrow marks
     the chosen ones. */
  showPlans() {
    const reached = this.reached("program");
    const searches = this.data.searches.filter((search) => search.origins.some((origin) => reached.has(origin)));
    const time = (us) => (us === null ? "does not run" : `${us.toPrecision(3)} us`).padStart(12) + "  ";
    const texts = searches.map(({ names: [name, ...equal], candidates, chosen, us }) =>
      [`${name}: ${candidates.length} candidates${us.length ? ", measured" : ", not measured"}`,
        ...equal.map((other) => `   the same for ${other}`),
        ...candidates.map((plan, n) => `${n === chosen ? "->" : "  "} ${us.length ? time(us[n]) : ""}${plan}`)].join("\n"));
    $("plans").textContent = texts.join("\n\n") || "No plans were compared for the selection.";
  }

  /* The origins to mark in a column: the selected ones, those that became part of their statements, if the column shows
     what a selected statement came from, or else those whose statements they are part of. */
  reached(column) {
    const { stages } = this.data, last = stages.length - 1;
    const reached = new Set(this.selection);
    const isSource = (name) => name === "source" || name === "tensors";
    const merged = (name) => stages[name === "program" ? this.stage : last]?.merged ?? [];
    if (!isSource(column)) {
      for (const [origin, into] of merged(column)) if (this.selection.has(origin)) for (const n of into) reached.add(n);
    } else if (this.selectedColumn && !isSource(this.selectedColumn)) {
      for (const [origin, into] of merged(this.selectedColumn))
        if (into.some((n) => this.selection.has(n))) reached.add(origin);
    }
    return reached;
  }

  /* Marks what the selection reaches: the lines in view at once, and many others in later tasks. */
  mark() {
    const wanted = new Map(); // element -> whether its statements only include a selected one
    for (const column of Object.keys(this.counts))
      for (const origin of this.reached(column))
        for (const element of this.elements[origin]) {
          if (element.column !== column) continue;
          wanted.set(element, wanted.get(element) !== false && !this.selection.has(origin));
          if (element.hidden && element.heading) wanted.set(element.heading, false);
        }
    this.runs = longestRuns(wanted);
    const changes = [...this.marked.keys()].filter((element) => !wanted.has(element)).map((element) => [element]);
    for (const [element, isMerged] of wanted)
      if (this.marked.get(element) !== isMerged) changes.push([element, isMerged]);
    clearTimeout(this.pending);
    if (changes.length > MARKED_AT_ONCE) {
      const near = this.nearby();
      changes.sort(([a], [b]) => near.has(b) - near.has(a));
    }
    this.applyMarks(changes);
    this.chosen?.classList.add("chosen");
    this.chosen?.setAttribute("aria-selected", "true");
  }

  applyMarks(changes) {
    for (const [element, isMerged] of changes.splice(0, MARKED_AT_ONCE)) {
      element.classList.toggle("marked", isMerged !== undefined);
      element.classList.toggle("merged", isMerged === true);
      if (isMerged === undefined) this.marked.delete(element); else this.marked.set(element, isMerged);
    }
    if (changes.length) this.pending = setTimeout(() => this.applyMarks(changes));
  }

  /* The lines around those that the columns will show. */
  nearby() {
    const near = new Set();
    for (const anchor of [this.chosen, ...[...this.runs.values()].map((run) => run.element)]) {
      const lines = anchor?.parentNode?.children;
      if (!lines) continue;
      for (const step of ["previousElementSibling", "nextElementSibling"])
        for (let n = 0, line = anchor; line && n < LINES_IN_VIEW; n++, line = line[step]) near.add(line);
    }
    return near;
  }

  /* Scrolls all columns but that of the selected line to the longest run of marked lines. */
  scroll(chosen) {
    const targets = [...this.runs].filter(([list]) => list !== chosen?.parentNode);
    const tops = targets.map(([list, { element }]) => element.offsetTop - list.offsetTop - list.clientHeight / 3);
    targets.forEach(([list], n) => { list.scrollTop = tops[n]; }); // after all measurements, which lay out the page
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
        if (element?.members?.length && event.offsetX < FOLD_WIDTH)
          this.fold(element, element.ariaExpanded !== "true");
        else if (element?.origins.length) this.activate(list, element);
      });
      list.addEventListener("keydown", (event) => this.key(list, event));
    }
    for (const box of document.querySelectorAll(".folded"))
      box.addEventListener("change", () => this.foldAll(box.closest("section").querySelector(".lines"), !box.checked));
    $("file").addEventListener("change", () => this.showSource(Number($("file").value)));
    $("stage").addEventListener("change", () => this.showStage(Number($("stage").value)));
    $("text").addEventListener("change", () => this.showGenerated(Number($("text").value)));
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

  /* Up, down, Home and End move among the lines that can be selected; left and right close and open blocks. */
  key(list, event) {
    const lines = [...list.children].filter((element) => element.origins?.length && !element.hidden);
    const current = lines.findIndex((element) => element.id === list.getAttribute("aria-activedescendant"));
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    const isOpen = { ArrowRight: true, ArrowLeft: false }[event.key];
    if (step && lines.length) {
      this.activate(list, lines[Math.min(lines.length - 1, Math.max(0, current + step))]);
    } else if (isOpen !== undefined && lines[current]) {
      const heading = lines[current].members ? lines[current] : lines[current].heading;
      if (!heading) return; // the column scrolls
      this.fold(heading, isOpen);
      this.activate(list, heading);
    } else return;
    event.preventDefault();
  }
}

function options(select, names) {
  select.replaceChildren(...names.map((name, n) => new Option(name, n)));
}

async function start() {
  const page = new Page(await unpack($("data").textContent));
  const { files, stages, generated } = page.data;
  options($("file"), files.map(([name]) => name));
  const unchanged = (n) => n > 0 && String(stages[n].lines) === String(stages[n - 1].lines);
  options($("stage"), stages.map((stage, n) => stage.name + (unchanged(n) ? " (nothing changes)" : "")));
  $("stage").value = stages.length - 1;
  options($("text"), generated.map(({ name }) => name));
  $("texts").hidden = generated.length < 2;
  page.connect();
  page.showSource(0);
  page.showTensors();
  page.showStage(stages.length - 1);
  page.showGenerated(0);
  page.showCosts();
  document.body.dataset.ready = "true";
}

start().catch((error) => { $("selected").textContent = `The page cannot be shown: ${error.message}`; });
