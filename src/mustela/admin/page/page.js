// The page that draws a running application. It asks the server that it came from, and nobody else.
import { BOX, graphOf, layOut } from "./layout.js";

const EVERY_MS = 2000;
const HISTORY = 90;
const READABLE = 0.7;
const EDGE = 56; // room for the tools above the picture, and for the legend below it
const PHASES = ["choosing", "running", "in-hand", "begun", "produced", "offsets-added", "commit-sent"];
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

let token = "";
let topology = null, graph = null, drawn = null, before = null, now = null, chosen = null;
let timer = 0;
const history = [];
const view = { x: 0, y: 0, scale: 1 };

// -- asking ------------------------------------------------------------------------------------

class Refused extends Error {}

async function ask(path) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit", redirect: "error" });
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.json()).error);
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return answer.json();
}

function takeToken() { // a fragment is never sent to a server; it goes from the address at once
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  token = given;
  window.history.replaceState(null, "", location.pathname + location.search);
}

async function turn() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    if (topology === null) {
      topology = await ask("topology?format=json");
      draw();
    }
    const seen = await ask("topology/live");
    if (now !== null && seen.fingerprint !== now.fingerprint) topology = null; // another program runs
    [before, now] = [now, seen];
    if ($("ask").open) $("ask").close();
    show();
  } catch (error) {
    if (error instanceof Refused) return wantToken(error.message);
    pill("out of reach", "bad");
    $("why").textContent = "the application does not answer; its page asks again";
    before = now = null;
  }
  timer = setTimeout(turn, EVERY_MS);
}

function wantToken(why) {
  pill("token needed", "warn");
  $("wrong").textContent = token ? why : "";
  token = "";
  if (!$("ask").open) $("ask").showModal();
  $("token").focus();
}

// -- words -------------------------------------------------------------------------------------

function short(count) {
  if (count === null || count === undefined) return "–";
  const size = Math.abs(count);
  if (size >= 1e9) return `${(count / 1e9).toFixed(size >= 1e10 ? 0 : 1)}G`;
  if (size >= 1e6) return `${(count / 1e6).toFixed(size >= 1e7 ? 0 : 1)}M`;
  if (size >= 1e3) return `${(count / 1e3).toFixed(size >= 1e4 ? 0 : 1)}k`;
  if (size >= 10 || Number.isInteger(count)) return String(Math.round(count));
  return count.toFixed(1);
}

const rateText = (rate) => (rate === null ? "" : rate > 0 && rate < 0.1 ? "<0.1/s" : `${short(rate)}/s`);

function bytes(size) {
  if (size >= 2 ** 30) return `${(size / 2 ** 30).toFixed(1)} GiB`;
  if (size >= 2 ** 20) return `${(size / 2 ** 20).toFixed(1)} MiB`;
  return `${Math.ceil(size / 1024)} KiB`;
}

function span(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "–";
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const words = (kind) => kind.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

// -- rates -------------------------------------------------------------------------------------

function rate(of) {
  if (before === null || now.incarnation !== before.incarnation) return null;
  const seconds = now.monotonic - before.monotonic;
  const then = of(before) ?? 0, count = of(now) ?? 0;
  return seconds > 0 && count >= then ? (count - then) / seconds : null;
}

const given = (name) => (seen) => seen.steps[name]?.out ?? seen.inputs[name];
const taken = (name) => (seen) => seen.steps[name]?.in ?? seen.inputs[name];
const total = (counts) => Object.values(counts ?? {}).reduce((sum, count) => sum + count, 0);

function nodeRate(node) {
  if (node.kind !== "topic") {
    const out = rate(given(node.name));
    return node.kind === "sink" || !out ? rate(taken(node.name)) ?? out : out;
  }
  if (node.reads) return rate((seen) => seen.topics[node.name]?.next);
  return graph.edges.filter((edge) => edge.to === node.id)
    .reduce((sum, edge) => sum + (rate(given(edge.from)) ?? 0), 0);
}

function edgeRate(edge) {
  const from = graph.nodes.get(edge.from), to = graph.nodes.get(edge.to);
  if (from.kind === "topic") return nodeRate(from);
  if (to.kind === "topic") return rate(given(from.name));
  const readers = graph.edges.filter((other) => other.to === edge.to).length;
  return readers === 1 ? rate(taken(to.name)) ?? rate(given(from.name)) : rate(given(from.name));
}

// -- drawing -----------------------------------------------------------------------------------

function make(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const measure = document.createElement("canvas").getContext("2d");

function fitted(text, width, font) {
  measure.font = font;
  if (measure.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { // the ends of a name tell more than its middle
    const middle = Math.ceil((low + high) / 2);
    const tried = shortened(text, middle);
    if (measure.measureText(tried).width <= width) low = middle;
    else high = middle - 1;
  }
  return shortened(text, low);
}

function shortened(text, length) {
  const head = Math.ceil(length * 0.55);
  return `${text.slice(0, head)}…${text.slice(text.length - (length - head))}`;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

function draw() {
  graph = graphOf(topology);
  const size = best();
  const world = make("g", { id: "world" });
  drawn = { edges: new Map(), nodes: new Map(), bands: [], size };
  size.bands.forEach((band, at) => world.append(drawBand(band, at)));
  for (const edge of graph.edges) world.append(drawEdge(edge));
  for (const node of graph.nodes.values()) world.append(drawNode(node));
  $("canvas").replaceChildren(world);
  fit(READABLE);
}

/** Lays the graph out to the right or down, whichever shows it larger. */
function best() {
  const wide = whole(layOut(graph, false));
  const down = layOut(graph, true);
  return whole(down) >= wide ? down : layOut(graph, false);
}

function whole(size) {
  const box = $("canvas").getBoundingClientRect();
  return Math.min(box.width / size.width, (box.height - 2 * EDGE) / size.height);
}

function drawBand(band, at) {
  const group = make("g");
  const { x, y, width, height } = band;
  group.append(
    make("rect", { class: `band ${at % 2 ? "odd" : ""}`, ...endless({ x, y, width, height }) }),
    make("text", { class: "band-title", x: x + 18, y: y + 28 }, band.name),
  );
  const note = make("text", { class: "band-note", x: x + 18, y: y + 45 });
  const lanes = make("g");
  group.append(note, lanes);
  drawn.bands.push({ band, note, lanes });
  return group;
}

/** Makes a band as long as anybody may move the picture. */
function endless(band) {
  const far = 20000;
  return drawn.size.down
    ? { ...band, x: band.x - far, width: band.width + 2 * far } : { ...band, y: band.y - far, height: band.height + 2 * far };
}

function drawEdge(edge) {
  const points = edge.points;
  const line = make("path", { class: `edge still ${edge.key ? "key" : ""}`, d: curve(points), "stroke-width": 1.2 });
  line.append(make("title", {}, `${edge.from} → ${edge.to}${edge.key ? ", by key" : ""}`));
  drawn.edges.set(edge, { line });
  return line;
}

function curve(points) {
  if (drawn.size.down) return curveDown(points);
  const ends = points.map((item) => ({
    left: item.x, right: item.x + item.width, y: item.y + (item.bend ? item.height / 2 : BOX.height / 2),
  }));
  let path = `M${ends[0].right},${ends[0].y}`;
  for (let at = 1; at < ends.length; at++) {
    const from = ends[at - 1], to = ends[at];
    const middle = (from.right + to.left) / 2;
    path += ` C${middle},${from.y} ${middle},${to.y} ${to.left},${to.y}`;
    if (at < ends.length - 1) path += ` L${to.right},${to.y}`;
  }
  return path;
}

function curveDown(points) {
  const ends = points.map((item) => ({ top: item.y, bottom: item.y + item.height, x: item.x + item.width / 2 }));
  let path = `M${ends[0].x},${ends[0].bottom}`;
  for (let at = 1; at < ends.length; at++) {
    const from = ends[at - 1], to = ends[at];
    const middle = (from.bottom + to.top) / 2;
    path += ` C${from.x},${middle} ${to.x},${middle} ${to.x},${to.top}`;
    if (at < ends.length - 1) path += ` L${to.x},${to.bottom}`;
  }
  return path;
}

function drawNode(node) {
  const group = make("g", {
    class: `node ${node.kind}`, transform: `translate(${node.x},${node.y})`, tabindex: 0, role: "button",
    "aria-label": `${words(node.what)} ${node.name}`, "data-id": node.id,
  });
  const round = node.kind === "topic" ? BOX.height / 2 : 9;
  const inset = node.kind === "topic" ? 18 : 16;
  group.append(make("title", {}, node.name));
  group.append(make("rect", { class: "box", width: node.width, height: BOX.height, rx: round }));
  if (node.kind !== "topic") {
    group.append(make("path", {
      class: `stripe ${node.kind}`, d: `M9,0 h-0 a9,9 0 0 0 -9,9 v${BOX.height - 18} a9,9 0 0 0 9,9 h-3 v-${BOX.height} z`,
    }));
    group.append(make("rect", { class: `stripe ${node.kind}`, x: 4, y: 0.5, width: 3, height: BOX.height - 1 }));
  }
  const room = node.width - inset - (node.kind === "topic" ? 66 : 14);
  group.append(make("text", { class: "title", x: inset, y: 21 }, fitted(node.name, room, `600 13px ${FONT}`)));
  const kind = make("text", { class: "kind", x: inset, y: 38 }, node.kind === "topic" ? "" : words(node.what));
  const isTopic = node.kind === "topic";
  const speed = make("text", { class: "rate still", x: node.width - (isTopic ? 18 : 12), y: isTopic ? 21 : 38 });
  const alarm = make("circle", { class: "alarm", cx: node.width - 10, cy: 10, r: 5, visibility: "hidden" });
  group.append(kind, speed, alarm);
  const stores = node.stores.map((store, at) => drawStore(group, node, store, at));
  group.addEventListener("click", () => choose(node.id));
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(node.id);
  });
  drawn.nodes.set(node.id, { group, kind, speed, alarm, stores });
  return group;
}

function drawStore(group, node, store, at) {
  const y = BOX.height + at * BOX.store + 3;
  const width = node.width - 20;
  const size = make("text", { class: "size", x: width - 8, y: 14 });
  const drum = "M0,4 a7,3 0 0 1 14,0 v10 a7,3 0 0 1 -14,0 z M0,4 a7,3 0 0 0 14,0";
  group.append(make("g", { class: "store", transform: `translate(10,${y})` },
    make("title", {}, store),
    make("rect", { width, height: BOX.store - 4, rx: 6 }),
    make("path", { d: drum, transform: "translate(7,2) scale(0.85)" }),
    make("text", { x: 26, y: 14 }, fitted(store, width - 78, `11px ${FONT}`)),
    size,
  ));
  return { store, size };
}

// -- what moves --------------------------------------------------------------------------------

function pill(text, mood) {
  $("state").textContent = text;
  $("state").className = `pill ${mood}`;
}

function show() {
  showHead();
  showPicture();
  showChosen();
  showSpark();
  showLanes();
  showEpochs();
  showPartitions();
  for (const element of document.querySelectorAll("[data-waits]")) element.remove();
  document.body.dataset.turns = Number(document.body.dataset.turns ?? 0) + 1;
}

function showHead() {
  $("name").textContent = document.title = now.application_id;
  const mood = now.state === "running" ? (now.ready ? "good" : "warn") : now.state === "failed" ? "bad" : "warn";
  pill(now.state, mood);
  const restore = now.state === "restoring" && now.restore
    ? `${now.restore.key_groups_done} of ${now.restore.key_groups} key groups restored` : "";
  const stuck = now.stuck_phase ? `epoch stuck in ${now.stuck_phase}` : "";
  $("why").textContent = restore || stuck || now.why || "";
  const behind = now.watermark_ms === null ? null : now.now_ms - now.watermark_ms;
  const speed = rate((seen) => seen.records);
  if (speed !== null) history.push(speed);
  if (history.length > HISTORY) history.shift();
  const times = now.recent.filter((one) => one.outcome === "committed").map(seconds).sort((a, b) => a - b);
  const quantile = (part) => (times.length ? span(times[Math.floor((times.length - 1) * part)] * 1000) : "–");
  facts([
    ["records a second", speed === null ? "–" : short(speed)],
    ["lag", short(now.lag)],
    ["watermark behind", span(behind)],
    ["epoch", now.epoch ?? "–"],
    ["epoch takes p50 / p95", `${quantile(0.5)} / ${quantile(0.95)}`],
    ["dropped, failed", short(Object.values(now.lost).reduce((sum, counts) => sum + total(counts), 0))],
  ]);
}

function facts(pairs) {
  $("facts").replaceChildren(...pairs.map(([name, value]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, String(value)))));
}

const seconds = (epoch) => Object.values(epoch.phases).reduce((sum, spent) => sum + spent, 0);

function showPicture() {
  for (const [edge, { line }] of drawn.edges) {
    const speed = edgeRate(edge) ?? 0;
    line.setAttribute("stroke-width", (1.2 + Math.min(7, 1.25 * Math.log10(1 + speed))).toFixed(2));
    line.classList.toggle("still", speed === 0);
  }
  for (const [id, parts] of drawn.nodes) showNode(graph.nodes.get(id), parts);
  for (const band of drawn.bands) showBand(band);
}

function showNode(node, parts) {
  const speed = nodeRate(node);
  parts.speed.textContent = rateText(speed);
  parts.speed.classList.toggle("still", !speed);
  if (node.kind === "topic") {
    const topic = now.topics[node.name];
    const told = [];
    if (node.reads && topic) {
      told.push(`lag ${short(topic.lag)}`);
      if (topic.reached_ms !== null) told.push(`${span(now.now_ms - topic.reached_ms)} behind`);
    } else if (!node.reads) told.push("written");
    parts.kind.textContent = fitted(told.join(" · "), node.width - 36, `11px ${FONT}`);
  }
  const lost = rate((seen) => total(seen.lost[node.name]));
  parts.alarm.setAttribute("visibility", lost ? "visible" : "hidden");
  for (const { store, size } of parts.stores) {
    const found = now.stores[store];
    size.textContent = found ? short(found.rows) : "";
  }
}

function showBand({ band, note, lanes }) {
  if (band.stage === null) {
    note.textContent = "topics";
    return;
  }
  if (band.stage === 0) {
    note.textContent = "reads and decodes";
    return;
  }
  const loads = laneLoads(band.stage);
  const sum = loads.reduce((all, one) => all + one.records, 0);
  const most = Math.max(1, ...loads.map((one) => one.records));
  const skew = sum ? (most * loads.length) / sum : 1;
  const plural = loads.length === 1 ? "lane" : "lanes";
  note.textContent = sum && loads.length > 1
    ? `${loads.length} ${plural}, most ${skew.toFixed(1)}×` : `${loads.length} ${plural}`;
  const room = drawn.size.down ? 120 : Math.min(120, band.width - 170);
  const wide = Math.max(2, Math.min(12, room / Math.max(1, loads.length) - 2));
  const [left, top] = drawn.size.down
    ? [band.x + 18, band.y + 38] : [band.x + band.width - 18 - loads.length * (wide + 2), band.y];
  lanes.replaceChildren(...loads.flatMap((one, at) => {
    const x = left + at * (wide + 2);
    const high = (24 * one.records) / most;
    const isMost = skew >= 2 && loads.length > 1 && one.records === most;
    return [
      make("rect", { class: "lane-rest", x, y: top + 17, width: wide, height: 24, rx: 1 }),
      make("rect", { class: `lane-bar ${isMost ? "most" : ""}`, x, y: top + 41 - high, width: wide, height: high, rx: 1 },
        make("title", {}, `lane ${one.lane}: ${short(one.records)} records`)),
    ];
  }));
}

/** Records of each lane of a stage since the last look, or in all if there were none since. */
function laneLoads(stage) {
  const mine = now.tasks.filter((task) => task.stage === stage);
  const count = Math.max(now.lanes ?? 1, 1, ...mine.map((task) => task.lane + 1));
  const known = new Map(mine.map((task) => [task.lane, task]));
  const old = new Map((before?.tasks ?? []).filter((task) => task.stage === stage).map((task) => [task.lane, task]));
  const loads = Array.from({ length: count }, (_, lane) => {
    const task = known.get(lane);
    const then = old.get(lane);
    return {
      lane, all: task?.records ?? 0,
      since: Math.max(0, (task?.records ?? 0) - (then?.records ?? 0)),
      busy: Math.max(0, (task?.busy_seconds ?? 0) - (then?.busy_seconds ?? 0)),
    };
  });
  const moves = before !== null && loads.some((one) => one.since > 0);
  return loads.map((one) => ({ ...one, records: moves ? one.since : one.all, moves }));
}

function showLanes() {
  const stages = topology.stages.map((stage) => stage.stage).filter((stage) => stage > 0);
  const elapsed = before === null ? 0 : now.monotonic - before.monotonic;
  const rows = stages.flatMap((stage) => {
    const loads = laneLoads(stage);
    const most = Math.max(1, ...loads.map((one) => one.records));
    const skew = now.skew[stage];
    const title = html("div", { class: "stage-name" }, html("span", {}, `Stage ${stage}`),
      html("span", {}, skew ? `skew ${skew.toFixed(2)}` : ""));
    return [title, ...loads.slice(0, 32).map((one) => {
      const bar = make("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        make("rect", { class: "lane-rest", width: 100, height: 10, rx: 2 }),
        make("rect", { class: "lane-bar", width: (100 * one.records) / most, height: 10, rx: 2 }));
      const load = one.moves && elapsed ? `${short(one.since / elapsed)}/s` : short(one.records);
      return html("div", { class: "lane" }, html("span", {}, `lane ${one.lane}`), bar, html("span", {}, load));
    })];
  });
  $("lanes").replaceChildren(...(rows.length ? rows : [html("p", { class: "empty" }, "This topology has one stage, and no lanes.")]));
}

function showSpark() {
  const width = $("spark").clientWidth || 290, height = 62, most = Math.max(1, ...history);
  const x = (at) => width - ((history.length - 1 - at) * width) / (HISTORY - 1);
  const y = (speed) => height - 2 - ((height - 16) * speed) / most;
  const points = history.map((speed, at) => `${x(at).toFixed(1)},${y(speed).toFixed(1)}`);
  $("spark").setAttribute("viewBox", `0 0 ${width} ${height}`);
  if (!points.length) return;
  $("spark").replaceChildren(
    make("path", { class: "area", d: `M${x(0)},${height} L${points.join(" L")} L${width},${height} z` }),
    make("path", { class: "line", d: `M${points.join(" L")}` }),
    make("text", { class: "scale", x: 0, y: 9 }, `most ${short(most)}/s, ${HISTORY * EVERY_MS / 60000} min`),
  );
}

function showEpochs() {
  const epochs = [...now.recent, ...(now.in_flight ? [now.in_flight] : [])].slice(-60);
  const width = $("epochs").clientWidth || 290, height = 80, wide = width / 60;
  const longest = Math.max(0.001, ...epochs.map(seconds));
  const bars = epochs.flatMap((epoch, at) => {
    let y = height;
    return Object.entries(epoch.phases).map(([phase, spent]) => {
      const high = (spent * (height - 14)) / longest;
      y -= high;
      const x = width - (epochs.length - at) * wide;
      return make("rect", { class: `p-${phase}`, x: x.toFixed(2), y: y.toFixed(2), width: (wide - 1).toFixed(2), height: high.toFixed(2) });
    });
  });
  $("epochs").setAttribute("viewBox", `0 0 ${width} ${height}`);
  $("epochs").replaceChildren(...bars, make("text", { class: "scale", x: 0, y: 9 }, `longest ${span(longest * 1000)}`));
  const flight = now.in_flight;
  $("epochs-note").textContent = flight ? `now: ${flight.phase}` : "";
  const sums = new Map();
  for (const epoch of epochs) for (const [phase, spent] of Object.entries(epoch.phases)) sums.set(phase, (sums.get(phase) ?? 0) + spent);
  const known = [...PHASES, "unknown", "fenced"].filter((phase) => sums.has(phase));
  $("phases").replaceChildren(...known.map((phase) => html("li", {},
    make("svg", { viewBox: "0 0 10 10" }, make("rect", { class: `p-${phase}`, width: 10, height: 10, rx: 2 })),
    `${phase} ${span((1000 * sums.get(phase)) / Math.max(1, epochs.length))}`)));
}

function showPartitions() {
  const worst = now.partitions.filter((one) => one.lag > 0).slice(0, 6);
  const body = $("partitions").tBodies[0];
  if (!worst.length) {
    body.replaceChildren(html("tr", {}, html("td", {}, "Nothing waits to be read.")));
    return;
  }
  body.replaceChildren(...worst.map((one) => html("tr", {},
    html("td", {}, `${one.topic} ${one.partition}`), html("td", {}, short(one.lag)))));
}

// -- one step ----------------------------------------------------------------------------------

function choose(id) {
  chosen = chosen === id ? null : id;
  for (const [other, { group }] of drawn.nodes) group.classList.toggle("chosen", other === chosen);
  showChosen();
}

function showChosen() {
  const panel = $("chosen");
  panel.hidden = chosen === null || !graph.nodes.has(chosen);
  if (panel.hidden || now === null) return;
  const node = graph.nodes.get(chosen);
  const close = html("button", { type: "button", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => choose(chosen));
  const rows = node.kind === "topic" ? topicRows(node) : stepRows(node);
  panel.replaceChildren(close, html("h3", {}, node.name),
    html("p", {}, node.kind === "topic" ? node.what : `${words(node.what)}, stage ${node.stage}`),
    html("table", {}, html("tbody", {}, ...rows.map(([name, value]) =>
      html("tr", {}, html("td", {}, name), html("td", {}, String(value)))))));
  if (node.at) panel.append(html("p", {}, node.at));
}

function stepRows(node) {
  const step = now.steps[node.name];
  const rows = [];
  if (step) rows.push(["records in", `${short(step.in)} · ${rateText(rate(taken(node.name))) || "–"}`],
    ["records out", `${short(step.out)} · ${rateText(rate(given(node.name))) || "–"}`]);
  else if (now.inputs[node.name] !== undefined) rows.push(["records", `${short(now.inputs[node.name])} · ${rateText(rate(given(node.name))) || "–"}`]);
  else rows.push(["records", "none since the start"]);
  for (const [reason, count] of Object.entries(now.lost[node.name] ?? {})) rows.push([reason.replaceAll("_", " "), short(count)]);
  if (now.parked[node.name] !== undefined) rows.push(["parked", short(now.parked[node.name])]);
  for (const store of node.stores) {
    const size = now.stores[store];
    rows.push([`store ${store}`, size ? `${short(size.rows)} rows · ${bytes(size.bytes)}` : "not seen yet"]);
  }
  return rows;
}

function topicRows(node) {
  const topic = now.topics[node.name];
  const rows = [["records a second", rateText(nodeRate(node)) || "–"]];
  if (!topic) return rows;
  rows.push(["partitions", topic.idle ? `${topic.partitions}, ${topic.idle} idle` : topic.partitions], ["lag", short(topic.lag)]);
  rows.push(["event time behind", topic.reached_ms === null ? "–" : span(now.now_ms - topic.reached_ms)]);
  return rows;
}

// -- moving about ------------------------------------------------------------------------------

function apply() {
  const world = $("world");
  if (world) world.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
}

function fit(least = 0) {
  if (drawn === null) return;
  const box = $("canvas").getBoundingClientRect();
  const { size } = drawn;
  view.scale = Math.min(1.2, Math.max(least, whole(size)));
  const spare = (room, extent) => Math.max(0, (room - extent * view.scale) / 2);
  view.x = spare(box.width, size.width) - size.x * view.scale;
  view.y = Math.max(EDGE, spare(box.height, size.height)) - size.y * view.scale;
  apply();
}

function zoom(factor, x, y) {
  const scale = Math.min(3, Math.max(0.15, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  apply();
}

function listen() {
  const canvas = $("canvas");
  const middle = () => { const box = canvas.getBoundingClientRect(); return [box.width / 2, box.height / 2]; };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) held = { x: event.clientX - view.x, y: event.clientY - view.y };
  });
  window.addEventListener("pointermove", (event) => {
    if (held === null) return;
    canvas.classList.add("held");
    view.x = event.clientX - held.x;
    view.y = event.clientY - held.y;
    apply();
  });
  window.addEventListener("pointerup", () => { held = null; canvas.classList.remove("held"); });
  $("in").addEventListener("click", () => zoom(1.25, ...middle()));
  $("out").addEventListener("click", () => zoom(0.8, ...middle()));
  $("fit").addEventListener("click", () => fit());
  window.addEventListener("resize", () => { if (topology !== null) { draw(); if (now !== null) showPicture(); } });
  $("search").addEventListener("input", search);
  document.addEventListener("visibilitychange", turn);
  window.addEventListener("hashchange", () => { takeToken(); turn(); });
  $("ask").addEventListener("cancel", (event) => event.preventDefault());
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    $("token").value = "";
    turn();
  });
}

function search() {
  const wanted = $("search").value.trim().toLowerCase();
  for (const [id, { group }] of drawn?.nodes ?? []) {
    const node = graph.nodes.get(id);
    const text = [node.name, ...node.stores].join("\n").toLowerCase();
    group.classList.toggle("faded", wanted !== "" && !text.includes(wanted));
  }
  for (const { line } of drawn?.edges.values() ?? []) line.classList.toggle("faded", wanted !== "");
}

function legend() {
  const marks = [["source", "source"], ["plain", "without state"], ["stateful", "with state"], ["call", "call to the outside"], ["sink", "sink"]];
  const items = marks.map(([kind, text]) => html("li", {},
    make("svg", { viewBox: "0 0 12 12", class: "mark" }, make("rect", { class: `stripe ${kind}`, width: 12, height: 12, rx: 3 })), text));
  items.push(html("li", {}, make("svg", { viewBox: "0 0 12 12" }, make("path", { class: "edge key", d: "M0,6 h12", "stroke-width": 2 })), "by key, to another stage"));
  $("legend").replaceChildren(...items);
}

takeToken();
legend();
listen();
turn();
