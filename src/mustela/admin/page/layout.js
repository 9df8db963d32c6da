// Where each step goes: columns by how far it is from the sources, stages from left to right, and in
// each column an order with few crossings. Pure: no document is touched here.

export const BOX = { width: 196, height: 50, store: 24, gapX: 74, gapY: 20, gapDown: 46 };

const KINDS = [
  ["source", /^(Source|GlobalTable|Table|TableSource|Scheduled)/],
  ["sink", /Sink|Foreach|Print/],
  ["call", /Async|Request/],
  ["stateful", /Aggregate|Join|Window|Suppress|Processor|Process|Update|Transact|Distinct|Count|Reduce|Cogroup|Settle|Versioned|TimedValues/],
];

export function kindOf(node) {
  if (node.parents.length === 0) return "source";
  for (const [kind, pattern] of KINDS.slice(1)) if (pattern.test(node.kind)) return kind;
  return node.stores.length ? "stateful" : "plain";
}

/** Returns nodes (steps and topics) and edges of a topology's document. */
export function graphOf(topology) {
  const nodes = new Map();
  const edges = [];
  const stageOf = stagesOf(topology);
  for (const each of topology.nodes) {
    nodes.set(each.name, {
      id: each.name, name: each.name, kind: kindOf(each), what: each.kind, stage: stageOf.get(each.name) ?? 0,
      stores: each.stores, at: each.at, explicit: each.explicit_name, topics: topicsOf(each),
    });
    for (const parent of each.parents) {
      edges.push({ from: parent, to: each.name, key: stageOf.get(parent) !== stageOf.get(each.name) });
    }
  }
  for (const each of topology.nodes) {
    const reads = each.parents.length === 0;
    for (const topic of topicsOf(each)) {
      const id = (reads ? "in:" : "out:") + topic;
      if (!nodes.has(id)) {
        nodes.set(id, {
          id, name: topic, kind: "topic", what: reads ? "topic, read" : "topic, written",
          stage: reads ? -1 : Infinity, stores: [], topics: [topic], reads,
        });
      }
      edges.push(reads ? { from: id, to: each.name } : { from: each.name, to: id });
    }
  }
  return { nodes, edges, stages: topology.stages };
}

function topicsOf(node) {
  return [...new Set([...(node.topics ?? []), ...(node.topic ? [node.topic] : [])])];
}

function stagesOf(topology) {
  const known = new Map();
  for (const stage of topology.stages) {
    for (const name of [...stage.sources, ...stage.steps]) known.set(name, stage.stage);
  }
  for (const node of topology.nodes) { // what the planner left out is where its parents are
    if (known.has(node.name)) continue;
    known.set(node.name, Math.max(0, ...node.parents.map((parent) => known.get(parent) ?? 0)));
  }
  return known;
}

/**
 * Gives each node x, y, width and height, and each edge the items that it passes.
 * What is called a column here is a row if the picture goes down.
 */
export function layOut(graph, down) {
  const columns = columnsOf(graph);
  const layers = [];
  for (const node of graph.nodes.values()) {
    node.column = columns.get(node.id);
    node.width = BOX.width;
    node.height = BOX.height + BOX.store * node.stores.length;
    (layers[node.column] ??= []).push(node);
  }
  for (let at = 0; at < layers.length; at++) layers[at] ??= [];
  const chains = chainsOf(graph, layers, down);
  order(layers);
  place(layers, down);
  for (const chain of chains) chain.edge.points = chain.through;
  const all = layers.flat();
  const sides = {
    left: Math.min(...all.map((item) => item.x)), right: Math.max(...all.map((item) => item.x + item.width)),
    top: Math.min(...all.map((item) => item.y)), bottom: Math.max(...all.map((item) => item.y + item.height)),
  };
  return framed(bandsOf(graph, layers, down), sides, down);
}

/** Adds room for the titles of bands, and makes each as long as the picture. */
function framed(bands, sides, down) {
  const room = down ? { left: 178, right: 30, top: 22, bottom: 22 } : { left: 37, right: 37, top: 74, bottom: 34 };
  const box = {
    x: sides.left - room.left, y: sides.top - room.top,
    width: sides.right - sides.left + room.left + room.right,
    height: sides.bottom - sides.top + room.top + room.bottom,
  };
  for (const band of bands) {
    if (down) Object.assign(band, { x: box.x, width: box.width, y: band.from, height: band.to - band.from });
    else Object.assign(band, { y: box.y, height: box.height, x: band.from, width: band.to - band.from });
  }
  return { ...box, bands, down };
}

function columnsOf(graph) {
  const parents = new Map(), children = new Map();
  for (const id of graph.nodes.keys()) { parents.set(id, []); children.set(id, []); }
  for (const edge of graph.edges) {
    parents.get(edge.to).push(edge.from);
    children.get(edge.from).push(edge.to);
  }
  const columns = new Map();
  const steps = [...graph.nodes.values()].filter((node) => node.kind !== "topic");
  const stages = [...new Set(steps.map((node) => node.stage))].sort((one, other) => one - other);
  let begin = 1;
  for (const stage of stages) {
    let last = begin - 1;
    for (const node of steps) { // parents come first in the document
      if (node.stage !== stage) continue;
      const behind = parents.get(node.id).map((id) => (columns.get(id) ?? 0) + 1);
      columns.set(node.id, Math.max(begin, ...behind));
      last = Math.max(last, columns.get(node.id));
    }
    begin = last + 1;
  }
  for (const node of [...steps].reverse()) { // as far right as its readers and its stage allow
    const readers = children.get(node.id).map((id) => columns.get(id)).filter((at) => at !== undefined);
    if (!readers.length || parents.get(node.id).some((id) => columns.has(id))) continue;
    const mine = steps.filter((other) => other.stage === node.stage).map((other) => columns.get(other.id));
    columns.set(node.id, Math.min(Math.min(...readers) - 1, Math.max(...mine)));
  }
  for (const node of graph.nodes.values()) {
    if (node.kind === "topic") columns.set(node.id, node.reads ? 0 : begin);
  }
  return columns;
}

/** Splits edges over several columns into short ones, with a bend in each column between. */
function chainsOf(graph, layers, down) {
  const chains = [];
  for (const item of layers.flat()) { item.before = []; item.after = []; }
  for (const edge of graph.edges) {
    const from = graph.nodes.get(edge.from), to = graph.nodes.get(edge.to);
    const through = [from];
    for (let column = from.column + 1; column < to.column; column++) {
      const size = down ? { width: 6, height: BOX.height } : { width: BOX.width, height: 6 };
      const bend = { bend: true, column, ...size, before: [], after: [] };
      layers[column].push(bend);
      through.push(bend);
    }
    through.push(to);
    for (let at = 1; at < through.length; at++) {
      through[at - 1].after.push(through[at]);
      through[at].before.push(through[at - 1]);
    }
    chains.push({ edge, through });
  }
  return chains;
}

function order(layers) {
  let best = Infinity, kept = null;
  for (const layer of layers) layer.forEach((item, at) => { item.rank = at; });
  for (let round = 0; round < 24; round++) {
    const down = round % 2 === 0;
    const sweep = down ? layers : [...layers].reverse();
    for (const layer of sweep) {
      for (const item of layer) {
        const near = down ? item.before : item.after;
        item.wish = near.length ? near.reduce((sum, one) => sum + one.rank, 0) / near.length : item.rank;
      }
      layer.sort((one, other) => one.wish - other.wish);
      layer.forEach((item, at) => { item.rank = at; });
    }
    const crossed = crossings(layers);
    if (crossed < best) {
      best = crossed;
      kept = layers.map((layer) => [...layer]);
    }
  }
  kept.forEach((layer, at) => {
    layers[at] = layer;
    layer.forEach((item, rank) => { item.rank = rank; });
  });
}

function crossings(layers) {
  let count = 0;
  for (const layer of layers) {
    const pairs = layer.flatMap((item) => item.after.map((next) => [item.rank, next.rank]));
    for (let one = 0; one < pairs.length; one++) {
      for (let other = one + 1; other < pairs.length; other++) {
        if ((pairs[one][0] - pairs[other][0]) * (pairs[one][1] - pairs[other][1]) < 0) count++;
      }
    }
  }
  return count;
}

function place(layers, down) {
  const across = down ? "x" : "y", extent = down ? "width" : "height";
  let along = 0;
  for (const layer of layers) {
    let at = 0;
    for (const item of layer) {
      item[across] = at;
      item[down ? "y" : "x"] = along;
      at += item[extent] + gap(item, down);
    }
    const deep = Math.max(BOX.height, ...layer.map((item) => (item.bend ? 0 : item.height)));
    along += down ? deep + BOX.gapDown : BOX.width + BOX.gapX;
  }
  const half = (item) => (item.bend || down ? item[extent] / 2 : BOX.height / 2);
  for (let round = 0; round < 40; round++) {
    const forth = round % 2 === 0;
    for (const layer of forth ? layers : [...layers].reverse()) {
      const wishes = layer.map((item) => {
        const near = round > 30 ? [...item.before, ...item.after] : forth ? item.before : item.after;
        if (!near.length) return item[across];
        return near.reduce((sum, one) => sum + one[across] + half(one), 0) / near.length - half(item);
      });
      spread(layer, wishes, across, extent, down);
    }
  }
  for (const forth of [false, true, false, true]) { // chains become straight lines
    for (const layer of forth ? layers : [...layers].reverse()) {
      const wishes = layer.map((item) => {
        const [near, ...more] = forth ? item.before : item.after;
        const alone = near && !more.length && (forth ? near.after : near.before).length === 1;
        return alone ? near[across] + half(near) - half(item) : item[across];
      });
      spread(layer, wishes, across, extent, down);
    }
  }
}

const gap = (item, down) => (item.bend ? 14 : down ? 26 : BOX.gapY);

/** Puts a column as near as possible to what each item wishes, none upon another: by pooling. */
function spread(layer, wishes, across, extent, down) {
  const offsets = [];
  let sum = 0;
  for (const item of layer) { offsets.push(sum); sum += item[extent] + gap(item, down); }
  const pools = [];
  layer.forEach((item, at) => {
    const weight = item.bend ? 3 : 1;
    pools.push({ value: wishes[at] - offsets[at], weight, count: 1 });
    while (pools.length > 1 && pools.at(-2).value > pools.at(-1).value) {
      const last = pools.pop(), before = pools.pop();
      const total = last.weight + before.weight;
      pools.push({
        value: (last.value * last.weight + before.value * before.weight) / total,
        weight: total, count: last.count + before.count,
      });
    }
  });
  let at = 0;
  for (const pool of pools) {
    for (let nth = 0; nth < pool.count; nth++, at++) layer[at][across] = pool.value + offsets[at];
  }
}

function bandsOf(graph, layers, down) {
  const steps = [...graph.nodes.values()].filter((node) => node.kind !== "topic");
  const bands = [];
  const add = (name, stage, first, last) => bands.push({ name, stage, first, last });
  const stages = [...new Set(steps.map((node) => node.stage))].sort((one, other) => one - other);
  if (layers[0].length) add("Read", null, 0, 0);
  for (const stage of stages) {
    const columns = steps.filter((node) => node.stage === stage).map((node) => node.column);
    add(`Stage ${stage}`, stage, Math.min(...columns), Math.max(...columns));
  }
  const end = layers.length - 1;
  if (layers[end].some((item) => item.kind === "topic")) add("Written", null, end, end);
  const begins = (at) => Math.min(...layers[at].map((item) => (down ? item.y : item.x)));
  const ends = (at) => Math.max(...layers[at].map((item) => (down ? item.y + item.height : item.x + item.width)));
  const side = (down ? BOX.gapDown : BOX.gapX) / 2;
  bands.forEach((band, at) => {
    band.from = at ? bands[at - 1].to : begins(band.first) - side;
    band.to = at < bands.length - 1 ? begins(bands[at + 1].first) - side : ends(band.last) + side;
  });
  return bands;
}
