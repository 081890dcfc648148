"use strict";
// Everything that comes from a run is put on the page as text, never as markup.

const data = document.getElementById("data");
const still = data ? JSON.parse(data.textContent) : null;
const place = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
let view = null, past = null, mode = "phase", cursor = null;

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function fill(section, ...parts) {
  section.replaceChildren(...parts.filter(Boolean));
}

const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });
const day = (at) => new Date(at * 1000).toLocaleString([], { hour12: false, dateStyle: "medium", timeStyle: "short" });
function span(seconds) {
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (seconds < 120) return Math.round(seconds) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}
function amount(value, unit) {
  if (unit === "share") return Math.round(value * 100) + " %";
  if (unit === "s") return value < 1 ? Math.round(value * 1000) + " ms" : value.toFixed(2) + " s";
  if (unit.startsWith("bytes")) {
    const names = ["B", "kB", "MB", "GB", "TB"];
    let place = 0;
    while (Math.abs(value) >= 1000 && place < 4) { value /= 1000; place += 1; }
    return value.toFixed(place ? 1 : 0) + " " + names[place] + unit.slice(5);
  }
  return Math.abs(value) >= 0.01 && Math.abs(value) < 1e5 ? value.toPrecision(3) : value.toExponential(2);
}
const many = (number, word) => number.toLocaleString() + " " + word + (number === 1 ? "" : "s");

// --- what is wrong

function showView() {
  document.title = (view.problems.length ? "! " + view.problems[0].title : view.state) + " · " + view.name;
  place("name").textContent = view.name;
  const status = view.status ? " with status " + view.status : "";
  const long = span(Math.max(0, view.at - view.began));
  place("state").textContent =
    view.state + status + " · " + many(view.world, "rank") + " · " + (view.ended === null ? "for " : "after ") + long +
    " · began " + day(view.began);
  place("command").textContent = view.command;
  place("command").title = view.command;
  showProblems();
  showNumbers();
  showAttempts();
  showHosts();
  showLinks();
  showRanks();
}

function showProblems() {
  const parts = [];
  const roots = view.problems.filter((each) => each.role === "initiating" || each.role === "contributing");
  const [first, ...others] = roots.length ? roots : view.problems;
  if (first) parts.push(problem(first));
  else parts.push(nothing());
  for (const each of others.slice(0, 3)) parts.push(minor(each));
  const rest = view.problems.filter((each) => each !== first && !others.slice(0, 3).includes(each));
  if (rest.length) {
    const fold = make("details");
    fold.append(make("summary", "and " + many(rest.length, "more finding") + ", most of it fallout"));
    fold.append(...rest.map(minor));
    parts.push(fold);
  }
  for (const said of view.said) parts.push(make("p", "note: " + said, { class: "small" }));
  for (const said of view.trouble) parts.push(make("p", "could not be read: " + said, { class: "small" }));
  keepFolds(place("problems"), () => fill(place("problems"), ...parts));
}

function keepFolds(section, draw) {
  const open = [...section.querySelectorAll("details")].map((each) => each.open);
  draw();
  [...section.querySelectorAll("details")].forEach((each, n) => { each.open = open[n] ?? each.open; });
}

function nothing() {
  const stuck = view.ranks.filter((each) => each.state === "silent" || each.state === "gone");
  const box = make("div", null, { class: "problem" + (stuck.length ? "" : " well") });
  const ended = view.state === "finished" ? "It finished, and nothing wrong was found" : "It " + (view.state === "killed" ? "was killed" : view.state) + ", and no cause was found";
  box.append(make("h2", view.ended === null ? "Nothing wrong was found so far" : ended));
  if (stuck.length) box.append(make("p", many(stuck.length, "rank") + " silent or gone; the fewest steps has rank " + stuck[0].rank + " (" + stuck[0].steps + ")"));
  const last = view.attempts[view.attempts.length - 1];
  if (last && last.decided) box.append(make("p", "decided: " + last.decided));
  if (view.state !== "finished" && view.ended !== null) box.classList.remove("well");
  return box;
}

function row(list, name, value) {
  if (value) list.append(make("dt", name), make("dd", value));
}

function since(each) {
  if (each.since === null) return "";
  const ago = span(Math.max(0, view.at - each.since));
  return clock(each.since) + " (" + ago + (view.ended === null ? " ago)" : " before the end)");
}

function problem(each) {
  const box = make("div", null, { class: "problem " + each.severity });
  box.append(make("h2", each.title));
  const list = make("dl");
  row(list, "who", each.who);
  row(list, "cause", each.cause + " (" + each.sure + ")");
  row(list, "because", each.because);
  row(list, "since", since(each));
  row(list, "cost", each.cost);
  row(list, "decided", each.decided || (view.ended === null ? "nothing yet" : ""));
  for (const [does, command] of each.fixes.slice(0, 2)) {
    list.append(make("dt", "fix"));
    const said = make("dd", does);
    if (command) said.append(make("pre", command));
    list.append(said);
  }
  box.append(list, ...(each.quotes.length ? [evidence(each)] : []));
  return box;
}

function evidence(each) {
  const fold = make("details");
  fold.append(make("summary", many(each.quotes.length, "piece") + " of evidence"));
  for (const [where, words] of each.quotes) fold.append(make("p", where, { class: "small" }), make("pre", words || "(no text)"));
  return fold;
}

function minor(each) {
  const box = make("div", null, { class: "problem minor " + each.severity });
  const fold = make("details");
  const where = view.attempts.length > 1 ? "attempt " + each.attempt + ": " : "";
  const line = make("summary");
  line.append(make("span", where + each.title));
  fold.append(line);
  const list = make("dl");
  row(list, "who", each.who);
  row(list, "cause", each.cause + " (" + each.sure + ")");
  row(list, "because", each.because);
  row(list, "since", since(each));
  row(list, "decided", each.decided);
  fold.append(list, ...(each.quotes.length ? [evidence(each)] : []));
  box.append(fold);
  return box;
}

function showNumbers() {
  const list = make("ul");
  const add = (value, name) => {
    const item = make("li");
    item.append(make("b", value), " " + name);
    list.append(item);
  };
  add(view.steps.toLocaleString(), view.steps === 1 ? "step" : "steps");
  if (view.step_s !== null) add(amount(view.step_s, "s"), "per step");
  if (view.left_s !== null) add(span(view.left_s), "left");
  if (view.goodput !== null) add(amount(view.goodput, "share"), "of the ranks' time was productive");
  const again = Math.max(0, view.attempts.length - 1);
  add(String(again), again === 1 ? "restart" : "restarts");
  for (const state of ["gone", "silent"]) {
    const found = view.ranks.filter((each) => each.state === state).length;
    if (found) add(String(found), found === 1 ? "rank " + state : "ranks " + state);
  }
  const parts = [list];
  if (view.lost.length) {
    const body = view.lost.map(([bucket, seconds, why]) => [bucket, { number: span(seconds) }, why]);
    const fold = make("details");
    fold.append(make("summary", "where the ranks' time went"), table(["", "of ranks", "explained by"], body));
    parts.push(fold);
  }
  keepFolds(place("numbers"), () => fill(place("numbers"), ...parts));
}

function table(names, rows, classes = []) {
  const around = make("div", null, { class: "table" }), made = make("table"), head = make("tr");
  for (const name of names) head.append(typeof name === "string" ? make("th", name) : make("th", name.number, { class: "number" + (name.wide ? " wide" : "") }));
  made.append(head);
  rows.forEach((cells, n) => {
    const line = make("tr", null, classes[n] ? { class: classes[n] } : {});
    for (const cell of cells) line.append(cell !== null && typeof cell === "object" ? make("td", cell.number, { class: "number" + (cell.wide ? " wide" : "") }) : make("td", cell));
    made.append(line);
  });
  around.append(made);
  return around;
}

function showAttempts() {
  if (view.attempts.length < 2) return fill(place("attempts"));
  const rows = view.attempts.map((each) => [
    { number: String(each.number) }, { number: clock(each.began) },
    { number: each.ended === null ? "goes on" : span(each.ended - each.began) }, { number: each.steps === null ? "" : String(each.steps) },
    each.title || (each.status === 0 ? "finished" : ""), each.decided.replace(each.title + ": ", ""),
  ]);
  const names = [{ number: "attempt" }, { number: "began" }, { number: "took" }, { number: "steps" }, "ended because", "decided"];
  fill(place("attempts"), make("h2", "Attempts"), table(names, rows));
}

function showHosts() {
  const some = (value, unit) => (value === null ? "" : amount(value, unit)), seen = (age) => (age < 3 ? (view.ended === null ? "now" : "at the end") : span(age) + " ago");
  if (!view.hosts.length) return fill(place("hosts"));
  const names = ["host", { number: "ranks" }, { number: "last seen" }, { number: "memory" }, { number: "processors" }, { number: "disk", wide: true }];
  const gpus = view.hosts.some((each) => each.gpus), rows = view.hosts.map((each) => [
    each.host, { number: String(each.ranks) }, { number: seen(each.age_s) },
    { number: some(each.memory, "share") + (each.full_in_s === null ? "" : ", full in " + span(each.full_in_s)) },
    { number: some(each.cpu, "share") }, { number: some(each.disk, "share"), wide: true },
    ...(gpus ? [{ number: String(each.gpus) }, { number: some(each.gpu_busy, "share") }, { number: some(each.gpu_memory, "share") }] : []),
    { number: some(each.net_in, "bytes/s"), wide: true }, { number: some(each.net_out, "bytes/s"), wide: true }, { number: some(each.resent, "share"), wide: true },
  ]);
  if (gpus) names.push({ number: view.hosts.some((each) => each.tpus) ? "TPUs" : "GPUs" }, { number: "least busy" }, { number: "fullest" });
  names.push({ number: "received", wide: true }, { number: "sent", wide: true }, { number: "sent again", wide: true });
  fill(place("hosts"), make("h2", "Hosts, those that matter first"), table(names, rows, view.hosts.map((each) => (each.full_in_s === null ? "" : "blamed"))),
    view.more_hosts ? make("p", "and " + many(view.more_hosts, "more host"), { class: "small" }) : null);
}

// Row calls column. The words say what the colour says; what is measured of a link is in its title.
function showLinks() {
  const found = view.links;
  if (!found) return fill(place("links"));
  const few = found.hosts.length <= 16, made = make("table"), head = make("tr", null, {}), known = new Map();
  for (const each of found.links) known.set(each.source + " " + each.target, each);
  head.append(make("th"), ...found.hosts.map((host, n) => make("th", String(n), { title: host })));
  made.append(head, ...found.hosts.map((host, source) => {
    const line = make("tr");
    line.append(make("th", source + " " + host), ...found.hosts.map((_, target) => {
      const each = known.get(source + " " + target);
      if (!each) return make("td", source === target ? "·" : "", { class: "none" });
      return make("td", few ? each.text : ["", "", "", "!", "×"][each.level], { class: "l" + each.level, title: each.said });
    }));
    return line;
  }));
  const around = make("div", null, { class: "table links" + (few ? "" : " many") });
  around.append(made);
  const levels = ["as usual", "half", "a quarter", "a tenth or less", "unusable"].map((words, n) => make("span", words, { class: "l" + n }));
  const legend = make("p", null, { class: "small links" });
  legend.append(...levels.flatMap((each) => [each, " "]));
  const bits = found.usual_bytes_s * 8, left = found.left_out ? " Not drawn: " + many(found.left_out, "host") + " whose links are as usual." : "";
  fill(place("links"), make("h2", "Links between hosts, after attempt " + found.attempt), around, legend,
    make("p", "A row calls its column; bit/s, usually " + amount(bits / 1e6, "") + " Mbit/s." + left, { class: "small" }));
}

function showRanks() {
  if (!view.ranks.length) return fill(place("ranks"), make("p", "No black box was found: the guard is off, or the ranks have not begun.", { class: "small" }));
  const shown = view.ranks.slice(0, 32);
  const names = [{ number: "rank" }, "state", "doing", { number: "step" }, { number: "per step", wide: true }, { number: "waits" }, { number: "memory" }, { number: "last seen" }, "host"];
  const rows = shown.map((each) => [
    { number: String(each.rank) }, each.state, each.phase, { number: each.steps.toLocaleString() },
    { number: each.step_s === null ? "" : amount(each.step_s, "s"), wide: true }, { number: each.wait === null ? "" : amount(each.wait, "share") },
    { number: each.memory_bytes === null ? "" : amount(each.memory_bytes, "bytes") },
    { number: each.age_s < 3 ? (view.ended === null ? "now" : "at the end") : span(each.age_s) + " ago" }, each.host,
  ]);
  const rest = view.ranks.length - shown.length + view.more_ranks;
  fill(place("ranks"), make("h2", "Ranks, those that matter first"), table(names, rows, shown.map((each) => (each.blamed ? "blamed" : ""))),
    rest ? make("p", "and " + many(rest, "more rank"), { class: "small" }) : null);
}

// --- the heat map: colours that colour-blind people tell apart, and a pattern for what is bad

const COLOURS = {
  0: ["#ffffff", "#14171b"], 1: ["#d9d2e9", "#4a4063"], 2: ["#b48ead", "#8d6a86"], 3: ["#f0c419", "#d1a800"], 4: ["#8cc5e3", "#2f6f94"],
  5: ["#009e73", "#1d8a69"], 6: ["#7fd1b9", "#4d9e88"], 7: ["#c3cad1", "#4b545e"], 8: ["#e69f00", "#e69f00"], 9: ["#d55e00", "#ff7a1a"], 10: ["#3b0a0a", "#ff4d4d"],
};
const MARKED = new Set([8, 9, 10]);
const shade = (code) => COLOURS[code][dark.matches ? 1 : 0];
const parsed = new Map();
function channels(colour) {
  if (!parsed.has(colour)) parsed.set(colour, [1, 3, 5].map((n) => parseInt(colour.slice(n, n + 2), 16)));
  return parsed.get(colour);
}
function colourOf(cell) {
  const code = cell & 15, wait = (cell >> 4) / 15;
  if (mode === "phase" || code === 0 || MARKED.has(code)) return channels(shade(code));
  const light = dark.matches ? [29, 34, 40] : [247, 251, 255], strong = dark.matches ? [255, 200, 90] : [8, 48, 107];
  return light.map((from, n) => Math.round(from + (strong[n] - from) * wait));
}

function rowHeight() {
  return Math.max(1, Math.min(18, Math.floor(320 / Math.max(1, past.rows.length))));
}

function drawHeat() {
  if (!past || !past.rows.length) return;
  place("map").hidden = false;
  const canvas = place("heat"), high = rowHeight(), ratio = devicePixelRatio || 1;
  const wide = canvas.parentElement.clientWidth, left = 46, below = 18, body = past.rows.length * high;
  canvas.style.height = body + below + "px";
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round((body + below) * ratio);
  canvas.setAttribute("aria-label", "What " + many(view ? view.world : past.rows.length, "rank") + " did from " + clock(past.start) + " to " + clock(past.end));
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const picture = new ImageData(past.columns, past.rows.length);
  past.rows.forEach((each, y) => {
    for (let x = 0; x < past.columns; x += 1) {
      const [r, g, b] = colourOf(each.bytes[x]), at = 4 * (y * past.columns + x);
      picture.data[at] = r; picture.data[at + 1] = g; picture.data[at + 2] = b; picture.data[at + 3] = 255;
    }
  });
  const small = new OffscreenCanvas(past.columns, past.rows.length);
  small.getContext("2d").putImageData(picture, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, left, 0, wide - left, body);
  if (high >= 6) hatch(pen, left, wide, high);
  const text = getComputedStyle(document.body).color, blamed = new Set(view ? view.problems.slice(0, 3).flatMap((each) => each.ranks) : []);
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "right";
  const every = Math.ceil(13 / high);
  past.rows.forEach((each, y) => {
    const isBlamed = [...blamed].some((rank) => each.first <= rank && rank <= each.last);
    if (y % every && !isBlamed) return;
    pen.fillStyle = isBlamed ? getComputedStyle(document.body).getPropertyValue("--bad") : text;
    pen.fillText((isBlamed ? "▶" : "") + each.first, left - 4, Math.max(9, (y + 0.5) * high + 4));
  });
  pen.fillStyle = pen.strokeStyle = text;
  for (const each of view ? view.attempts.slice(1) : []) {
    const x = left + ((each.began - past.start) / (past.end - past.start)) * (wide - left);
    if (x > left) { pen.setLineDash([4, 3]); pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, body); pen.stroke(); pen.setLineDash([]); }
  }
  const ticks = Math.max(2, Math.min(8, Math.floor((wide - left) / 110), Math.floor(past.end - past.start)));
  for (let n = 0; n <= ticks; n += 1) {
    pen.textAlign = n === 0 ? "left" : n === ticks ? "right" : "center";
    pen.fillText(clock(past.start + ((past.end - past.start) * n) / ticks), left + ((wide - left) * n) / ticks, body + 13);
  }
  if (cursor) {
    pen.lineWidth = 2;
    pen.strokeRect(left + (cursor.x * (wide - left)) / past.columns - 3, cursor.y * high - 1, (wide - left) / past.columns + 6, high + 2);
  }
  showLegend();
}

function hatch(pen, left, wide, high) {
  pen.strokeStyle = dark.matches ? "#000" : "#fff";
  pen.lineWidth = 1;
  past.rows.forEach((each, y) => {
    let begin = -1;
    for (let x = 0; x <= past.columns; x += 1) {
      const bad = x < past.columns && MARKED.has(each.bytes[x] & 15);
      if (bad && begin < 0) begin = x;
      if (!bad && begin >= 0) {
        const from = left + (begin * (wide - left)) / past.columns, to = left + (x * (wide - left)) / past.columns;
        pen.save(); pen.beginPath(); pen.rect(from, y * high, to - from, high); pen.clip();
        const gone = (each.bytes[begin] & 15) === 10;
        for (let at = from - high; at < to; at += gone ? 5 : 9) { pen.beginPath(); pen.moveTo(at, (y + 1) * high); pen.lineTo(at + high, y * high); pen.stroke(); }
        pen.restore();
        begin = -1;
      }
    }
  });
}

function showLegend() {
  const items = Object.entries(past.words).filter(([code]) => code !== "0" && (mode === "phase" || MARKED.has(Number(code)))).map(([code, words]) => sample(shade(code), words, MARKED.has(Number(code))));
  if (mode === "wait") items.unshift(sample(`rgb(${colourOf(4).join()})`, "did not wait"), sample(`rgb(${colourOf(4 | 240).join()})`, "waited all the time"));
  fill(place("legend"), ...items);
}

function sample(colour, words, marked) {
  const item = make("li"), box = make("canvas", null, { width: 28, height: 28 }), pen = box.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 28, 28);
  if (marked) {
    pen.strokeStyle = dark.matches ? "#000" : "#fff";
    pen.lineWidth = 2;
    for (let at = -28; at < 28; at += 12) { pen.beginPath(); pen.moveTo(at, 28); pen.lineTo(at + 28, 0); pen.stroke(); }
  }
  item.append(box, words);
  return item;
}

function cellAt(event) {
  const box = place("heat").getBoundingClientRect(), left = 46;
  const x = Math.floor(((event.clientX - box.left - left) / (box.width - left)) * past.columns), y = Math.floor((event.clientY - box.top) / rowHeight());
  return x < 0 || x >= past.columns || y < 0 || y >= past.rows.length ? null : { x, y };
}

function pointAt(cell) {
  if (!cell) { place("pointed").textContent = ""; return; }
  const each = past.rows[cell.y], value = each.bytes[cell.x];
  const who = each.first === each.last ? "rank " + each.first : "ranks " + each.first + "–" + each.last + ", the worst of them";
  const wait = value >> 4 ? ", waited " + Math.round(((value >> 4) / 15) * 100) + " %" : "";
  place("pointed").textContent = clock(timeOf(cell)) + " · " + who + ": " + past.words[value & 15] + wait;
}

const timeOf = (cell) => past.start + ((cell.x + 0.5) / past.columns) * (past.end - past.start);

async function openMoment(cell) {
  const each = past.rows[cell.y], blamed = (view ? view.problems : []).flatMap((one) => one.ranks).find((rank) => each.first <= rank && rank <= each.last);
  await showMoment(blamed ?? each.first, timeOf(cell), cell);
}

// In one file: what it has of that rank nearest to that time. Of other ranks, what the map shows.
function momentInFile(rank, at, cell) {
  const known = still.moments[rank] ?? [], words = (each) => still.texts[each];
  if (!known.length) {
    const value = past.rows[cell.y].bytes[cell.x], wait = value >> 4 ? [["waiting", Math.round(((value >> 4) / 15) * 100) + "% of the time"]] : [];
    const attempt = view.attempts.filter((one) => one.began <= at).pop() ?? view.attempts[0];
    return { rank, at, attempt: attempt ? attempt.number : 0, log: "", lines: [], stacks: [], readings: [["doing", past.words[value & 15]], ...wait], poor: true };
  }
  const found = known.reduce((best, each) => (Math.abs(each.at - at) < Math.abs(best.at - at) ? each : best));
  return { ...found, readings: found.readings.map((each) => each.map(words)), lines: found.lines.map(words), stacks: found.stacks.map(([who, frames]) => [words(who), frames.map(words)]) };
}

async function showMoment(rank, at, cell) {
  let found;
  if (still) found = momentInFile(rank, at, cell);
  else {
    const answer = await fetch(base + "/moment.json?rank=" + rank + "&at=" + at);
    found = answer.ok ? await answer.json() : null;
  }
  const section = place("moment");
  section.hidden = false;
  if (!found) return fill(section, make("p", "The server of this page did not answer."));
  const list = make("dl");
  for (const [name, value] of found.readings) row(list, name, value);
  const close = make("button", "close", { type: "button" });
  close.addEventListener("click", () => { section.hidden = true; place("heat").focus(); });
  const title = make("h2", "Rank " + found.rank + " at " + clock(found.at) + (view && view.attempts.length > 1 ? ", attempt " + found.attempt : "") + " ");
  title.append(close);
  const stacks = found.stacks.flatMap(([thread, frames]) => [make("p", thread, { class: "small" }), make("pre", frames.join("\n"))]);
  if (found.poor) {
    fill(section, title, list, make("p", "This file keeps the logs and stacks of the ranks that matter. Rank " + rank + " is not among them.", { class: "small" }));
    return section.focus();
  }
  fill(section, title, list, make("h2", found.log ? "Its log around then (" + found.log + ")" : "No log of it was found"),
    found.lines.length ? make("pre", found.lines.join("\n")) : null, make("h2", stacks.length ? "Its stacks, taken nearest to then" : "No stack of it was taken"), ...stacks);
  section.focus();
}

// --- series

const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9"];
function drawCharts() {
  const parts = past.charts.map((chart) => {
    const figure = make("figure");
    const points = Object.values(chart.lines).flat(), high = Math.max(...points.map((p) => p[3])), low = Math.min(...points.map((p) => p[1]));
    figure.append(make("figcaption", chart.name + ": " + amount(low, chart.unit) + " to " + amount(high, chart.unit)));
    const canvas = make("canvas", null, { role: "img", "aria-label": chart.name + " from " + amount(low, chart.unit) + " to " + amount(high, chart.unit) });
    canvas.style.height = "110px";
    figure.append(canvas);
    const names = Object.keys(chart.lines);
    if (names.length > 1 || names[0] !== "all ranks") {
      const list = make("p", null, { class: "small" });
      names.forEach((name, n) => { const one = make("span", "■ "); one.style.color = LINES[n]; list.append(one, name + "  "); });
      figure.append(list);
    }
    return [figure, canvas, chart, low, high];
  });
  fill(place("charts"), ...parts.map(([figure]) => figure));
  for (const [, canvas, chart, low, high] of parts) drawChart(canvas, chart, low, high);
}

function drawChart(canvas, chart, low, high) {
  const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, tall = 110;
  canvas.width = wide * ratio;
  canvas.height = tall * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const base = chart.unit === "share" || low >= 0 && low < high / 2 ? 0 : low, top = chart.unit === "share" ? 1 : high > base ? high : base + 1;
  const x = (at) => ((at - past.start) / (past.end - past.start)) * wide, y = (value) => tall - 4 - ((value - base) / (top - base)) * (tall - 10);
  pen.strokeStyle = getComputedStyle(document.body).getPropertyValue("--line");
  pen.strokeRect(0.5, 0.5, wide - 1, tall - 1);
  Object.values(chart.lines).forEach((points, n) => {
    pen.strokeStyle = pen.fillStyle = LINES[n];
    pen.globalAlpha = 0.25;
    for (const [at, least, , most] of points) pen.fillRect(x(at) - 1, y(most), 2, Math.max(1, y(least) - y(most)));
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    pen.beginPath();
    const apart = points.slice(1).map(([at], k) => at - points[k][0]).sort((a, b) => a - b);
    const gap = Math.max((past.end - past.start) / 20, 3 * (apart[apart.length >> 1] ?? 0));
    points.forEach(([at, , mean], k) => (k && at - points[k - 1][0] < gap ? pen.lineTo(x(at), y(mean)) : pen.moveTo(x(at), y(mean))));
    if (points.length === 1) pen.fillRect(x(points[0][0]) - 2, y(points[0][2]) - 2, 4, 4);
    pen.stroke();
  });
}

function takePast(found) {
  for (const each of found.rows) each.bytes = Uint8Array.from(atob(each.cells), (one) => one.charCodeAt(0));
  past = found;
  drawHeat();
  drawCharts();
}

// --- the index of runs

function showRuns(runs) {
  place("name").textContent = "Runs";
  const rows = runs.map((each) => [each.name, each.state, { number: String(each.ranks), wide: true }, { number: day(each.began), wide: true }, { number: each.took }, each.title]);
  const made = table(["run", "state", { number: "ranks", wide: true }, { number: "began", wide: true }, { number: "took" }, "ended because"], rows, runs.map((each) => (each.state === "failed" || each.state === "killed" ? "blamed" : "")));
  [...made.querySelectorAll("tr")].slice(1).forEach((line, n) => {
    const cell = line.firstChild;
    cell.replaceChildren(make("a", runs[n].name, { href: "/run/" + encodeURIComponent(runs[n].name) }));
  });
  fill(place("runs"), runs.length ? made : make("p", "There is no run here yet."));
}

// --- where it comes from

const base = location.pathname.replace(/\/$/, "");
let failed = false;

async function getPast() {
  const answer = await fetch(base + "/past.json");
  if (answer.ok) takePast(await answer.json());
}

function listen() {
  const stream = new EventSource(base + "/events");
  let asked = 0;
  stream.addEventListener("view", (event) => {
    view = JSON.parse(event.data);
    failed = false;
    showView();
    if (Date.now() - asked > 8000) { asked = Date.now(); getPast(); } else if (past) drawHeat();
  });
  stream.addEventListener("over", () => stream.close());
  stream.addEventListener("error", () => {
    if (failed) return;
    failed = true;
    place("state").textContent += " · the server of this page is gone: what you see is from " + (view ? clock(view.at) : "before");
  });
}

function begin() {
  const canvas = place("heat");
  canvas.addEventListener("mousemove", (event) => past && pointAt(cellAt(event)));
  canvas.addEventListener("click", (event) => { const cell = past && cellAt(event); if (cell) { cursor = cell; drawHeat(); openMoment(cell); } });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!past || !(event.key in moves || event.key === "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter") { if (cursor) openMoment(cursor); return; }
    const [dx, dy] = moves[event.key].map((one) => one * (event.shiftKey ? 10 : 1));
    const from = cursor ?? { x: past.columns - 1, y: 0 };
    cursor = { x: Math.max(0, Math.min(past.columns - 1, from.x + dx)), y: Math.max(0, Math.min(past.rows.length - 1, from.y + dy)) };
    drawHeat();
    pointAt(cursor);
  });
  for (const one of ["phase", "wait"]) {
    place("by-" + one).addEventListener("click", () => {
      mode = one;
      for (const each of ["phase", "wait"]) place("by-" + each).setAttribute("aria-pressed", String(each === mode));
      drawHeat();
    });
  }
  const again = () => { if (past) { drawHeat(); drawCharts(); } };
  addEventListener("resize", again);
  dark.addEventListener("change", again);
  if (still) { view = still.view; showView(); takePast(still.past); }
  else if (base === "") fetch("/runs.json").then((answer) => answer.json()).then(showRuns);
  else { place("state").textContent = "looking at the run for the first time"; listen(); }
}
begin();
