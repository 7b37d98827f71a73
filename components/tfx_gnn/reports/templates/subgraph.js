// Draws sampled graphs: a small force layout on a canvas, for up to a few thousand nodes.
(() => {
  const block = document.getElementById("examples");
  const canvas = document.getElementById("viewer-canvas");
  if (!block || !canvas) return;
  const examples = JSON.parse(block.textContent);
  const choice = document.getElementById("viewer-choice");
  const legend = document.getElementById("viewer-legend");
  const details = document.getElementById("viewer-details");
  const context = canvas.getContext("2d");
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const COLORS = 6, SHAPES = ["circle", "square", "triangle", "diamond"];
  const SPACING = 34, CELL = 90, MAX_NEIGHBOURS = 40;
  let nodes = [], edges = [], neighbours = [], example = null;
  let view = { x: 0, y: 0, zoom: 1 }, isFitted = true, selected = -1, ticks = 0, largest = 0, lastTick = 320, frame = 0, palette = {};

  const make = (tag, text) => { const one = document.createElement(tag); one.textContent = text; return one; };

  function readPalette() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    palette = { ink: color("--ink"), faint: color("--faint"), surface: color("--surface"), focus: color("--focus") };
    palette.sets = Array.from({ length: COLORS }, (_, i) => color(`--series-${i}`));
  }

  function load(position) {
    example = examples[position];
    nodes = []; edges = []; selected = -1; ticks = 0; isFitted = true;
    largest = 0;
    const starts = [];
    example.sets.forEach((set, i) => {
      starts.push(nodes.length);
      const top = set.weights ? Math.max(...example.sets.flatMap((one) => one.weights || []).map(Math.abs)) || 1 : 1;
      for (let j = 0; j < set.size; j++) {
        const size = set.weights ? 0.75 + 0.9 * Math.abs(set.weights[j]) / top : 1;
        nodes.push({ set: i, index: j, x: 0, y: 0, vx: 0, vy: 0, isSeed: false, size });
      }
    });
    neighbours = nodes.map(() => []);
    for (const set of example.edges) {
      for (let i = 0; i < set.s.length; i++) {
        const a = starts[set.source] + set.s[i], b = starts[set.target] + set.t[i];
        const weight = set.weights ? set.weights[i] : 0;
        largest = Math.max(largest, Math.abs(weight));
        edges.push({ a, b, weight });
        neighbours[a].push({ node: b, name: set.name, isOut: true, weight });
        if (a !== b) neighbours[b].push({ node: a, name: set.name, isOut: false, weight });
      }
    }
    for (const [set, index] of example.seeds) nodes[starts[set] + index].isSeed = true;
    lastTick = nodes.length > 800 ? 140 : 320;
    placeInRings();
    showLegend();
    const seed = nodes.findIndex((node) => node.isSeed);
    select(seed < 0 ? (nodes.length ? 0 : -1) : seed);
    start();
  }

  // Breadth first from the seeds: near nodes start near, so that the layout untangles fast.
  function placeInRings() {
    const order = [], isSeen = new Array(nodes.length).fill(false);
    const visit = (first) => {
      const queue = [first];
      isSeen[first] = true;
      for (let head = 0; head < queue.length; head++) {
        order.push(queue[head]);
        for (const { node } of neighbours[queue[head]]) if (!isSeen[node]) { isSeen[node] = true; queue.push(node); }
      }
    };
    nodes.forEach((node, i) => { if (node.isSeed && !isSeen[i]) visit(i); });
    nodes.forEach((_, i) => { if (!isSeen[i]) visit(i); });
    order.forEach((i, rank) => {
      const angle = rank * 2.399963, radius = 0.6 * SPACING * Math.sqrt(rank);
      nodes[i].x = radius * Math.cos(angle); nodes[i].y = radius * Math.sin(angle);
    });
  }

  // Near nodes repel one by one, far cells as a whole: the work of a tick hardly grows faster than the nodes.
  function tick() {
    const cooling = Math.pow(1 - ticks / lastTick, 1.5);
    const cells = new Map();
    for (const node of nodes) {
      const column = Math.floor(node.x / CELL), row = Math.floor(node.y / CELL), key = column * 65536 + row;
      let cell = cells.get(key);
      if (!cell) { cell = { column, row, members: [], x: 0, y: 0 }; cells.set(key, cell); }
      cell.members.push(node); cell.x += node.x; cell.y += node.y;
    }
    const all = [...cells.values()];
    const strength = SPACING * SPACING;
    for (const cell of all) {
      for (const other of all) {
        const isNear = Math.abs(cell.column - other.column) <= 1 && Math.abs(cell.row - other.row) <= 1;
        const number = other.members.length, cx = other.x / number, cy = other.y / number;
        for (const node of cell.members) {
          if (isNear) {
            for (const second of other.members) {
              if (second === node) continue;
              const dx = node.x - second.x || 0.01, dy = node.y - second.y || 0.01;
              const push = strength / (dx * dx + dy * dy + 25);
              node.vx += dx * push * 0.04; node.vy += dy * push * 0.04;
            }
          } else {
            const dx = node.x - cx, dy = node.y - cy, push = number * strength / (dx * dx + dy * dy + 25);
            node.vx += dx * push * 0.04; node.vy += dy * push * 0.04;
          }
        }
      }
    }
    for (const { a, b } of edges) {
      if (a === b) continue;
      const first = nodes[a], second = nodes[b];
      const dx = second.x - first.x, dy = second.y - first.y, length = Math.hypot(dx, dy) || 0.01;
      const weight = 1 / Math.min(neighbours[a].length, neighbours[b].length);
      const pull = 0.35 * weight * (length - SPACING * 1.4) / length;
      first.vx += dx * pull; first.vy += dy * pull; second.vx -= dx * pull; second.vy -= dy * pull;
    }
    for (const node of nodes) {
      node.vx = (node.vx - 0.012 * node.x) * 0.6; node.vy = (node.vy - 0.012 * node.y) * 0.6;
      const speed = Math.hypot(node.vx, node.vy), limit = 30 * cooling + 0.5, scale = speed > limit ? limit / speed : 1;
      node.x += node.vx * scale; node.y += node.vy * scale;
    }
    ticks++;
  }

  function start() {
    cancelAnimationFrame(frame);
    canvas.dataset.state = "moving";
    const step = () => {
      // A few milliseconds a frame, so that the page stays responsive with any number of nodes.
      const end = performance.now() + (isStill ? 40 : 9);
      do tick(); while (ticks < lastTick && performance.now() < end);
      if (!isStill || ticks >= lastTick) draw();
      if (ticks < lastTick) frame = requestAnimationFrame(step);
      else { canvas.dataset.state = "settled"; canvas.dataset.nodes = nodes.length; }
    };
    frame = requestAnimationFrame(step);
  }

  function fit() {
    const width = canvas.clientWidth, height = canvas.clientHeight;
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const { x, y } of nodes) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    if (!nodes.length) return;
    const zoom = Math.min((width - 40) / Math.max(right - left, 1), (height - 40) / Math.max(bottom - top, 1), 2.2);
    view = { zoom, x: width / 2 - zoom * (left + right) / 2, y: height / 2 - zoom * (top + bottom) / 2 };
  }

  function shape(node, radius) {
    const { x, y } = node;
    context.beginPath();
    const kind = SHAPES[node.set % SHAPES.length];
    if (kind === "circle") context.arc(x, y, radius, 0, 7);
    else if (kind === "square") context.rect(x - 0.88 * radius, y - 0.88 * radius, 1.76 * radius, 1.76 * radius);
    else {
      const corners = kind === "triangle" ? [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]] : [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]];
      corners.forEach(([dx, dy], i) => context[i ? "lineTo" : "moveTo"](x + radius * dx, y + radius * dy));
      context.closePath();
    }
  }

  function draw() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    if (isFitted) fit();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(view.x, view.y); context.scale(view.zoom, view.zoom);
    context.strokeStyle = palette.faint; context.globalAlpha = edges.length > 1500 ? 0.25 : 0.5; context.lineWidth = 1 / view.zoom;
    context.beginPath();
    for (const { a, b } of edges) { context.moveTo(nodes[a].x, nodes[a].y); context.lineTo(nodes[b].x, nodes[b].y); }
    context.stroke(); context.globalAlpha = 1;
    if (largest) drawWeights();
    else if (selected >= 0) {
      context.strokeStyle = palette.ink; context.lineWidth = 1.6 / view.zoom; context.beginPath();
      for (const { node } of neighbours[selected]) {
        context.moveTo(nodes[selected].x, nodes[selected].y); context.lineTo(nodes[node].x, nodes[node].y);
      }
      context.stroke();
    }
    const radius = Math.max(5.5, 3.2 / view.zoom);
    for (let set = 0; set < example.sets.length; set++) {
      context.fillStyle = palette.sets[set % COLORS];
      for (const node of nodes) if (node.set === set) { shape(node, radius * node.size); context.fill(); }
    }
    nodes.forEach((node, i) => {
      if (!node.isSeed && i !== selected) return;
      context.beginPath(); context.arc(node.x, node.y, radius * (i === selected ? 2 : 1.6), 0, 7);
      context.strokeStyle = i === selected ? palette.focus : palette.ink; context.lineWidth = (i === selected ? 3 : 2) / view.zoom;
      context.stroke();
    });
  }

  // Heavy edges are wide, and drawn last.
  function drawWeights() {
    const order = edges.filter(({ weight }) => Math.abs(weight) > 0.02 * largest);
    order.sort((one, other) => Math.abs(one.weight) - Math.abs(other.weight));
    for (const { a, b, weight } of order) {
      const share = Math.abs(weight) / largest;
      context.strokeStyle = palette.sets[weight > 0 ? 0 : 4]; context.globalAlpha = 0.3 + 0.7 * share;
      context.lineWidth = (1 + 5 * share) / view.zoom;
      context.beginPath(); context.moveTo(nodes[a].x, nodes[a].y); context.lineTo(nodes[b].x, nodes[b].y); context.stroke();
    }
    context.globalAlpha = 1;
  }

  const redraw = () => requestAnimationFrame(draw);

  function nameOf(i) {
    const node = nodes[i], set = example.sets[node.set], ids = set.features["#id"];
    return `${set.name} ${ids ? ids[node.index] : node.index}`;
  }

  function select(i) {
    selected = i;
    details.replaceChildren();
    if (i < 0) return;
    const node = nodes[i], set = example.sets[node.set];
    details.append(make("h4", nameOf(i) + (node.isSeed ? " (seed)" : "")));
    const list = document.createElement("dl");
    if (node.isSeed) for (const [name, text] of example.labels) list.append(make("dt", name === "label" ? name : `label ${name}`), make("dd", text));
    for (const [name, texts] of Object.entries(set.features)) list.append(make("dt", name), make("dd", texts[node.index]));
    details.append(list);
    const near = neighbours[i];
    details.append(make("p", `${near.length} ${near.length === 1 ? "edge" : "edges"}`));
    const items = document.createElement("ul");
    if (largest) near.sort((one, other) => Math.abs(other.weight) - Math.abs(one.weight));
    for (const { node: other, name, isOut, weight } of near.slice(0, MAX_NEIGHBOURS)) {
      const item = document.createElement("li"), button = make("button", nameOf(other));
      button.type = "button"; button.className = "plain";
      button.addEventListener("click", () => { select(other); redraw(); canvas.focus(); });
      item.append(`${isOut ? "\u2192" : "\u2190"} ${name} `, button);
      if (largest) item.append(` ${weight > 0 ? "+" : ""}${weight.toPrecision(3)}`);
      items.append(item);
    }
    if (near.length > MAX_NEIGHBOURS) items.append(make("li", `and ${near.length - MAX_NEIGHBOURS} more`));
    details.append(items);
  }

  function showLegend() {
    legend.replaceChildren();
    example.sets.forEach((set, i) => {
      const item = document.createElement("li"), key = document.createElement("span");
      key.className = `legend-key series-${i % COLORS} ${SHAPES[i % SHAPES.length]}`;
      item.append(key, `${set.name} (${set.size})`);
      legend.append(item);
    });
    if (largest) for (const [text, color] of [["edge for it", 0], ["edge against it", 4]]) {
      const item = document.createElement("li"), key = document.createElement("span");
      key.className = `legend-key line series-${color}`;
      item.append(key, text);
      legend.append(item);
    }
    if (example.labels.length) legend.append(make("li", example.labels.map(([name, text]) => `${name}: ${text}`).join("; ")));
  }

  function zoomAt(x, y, factor) {
    const zoom = Math.min(12, Math.max(0.05, view.zoom * factor));
    view.x = x - (x - view.x) * zoom / view.zoom; view.y = y - (y - view.y) * zoom / view.zoom;
    view.zoom = zoom; isFitted = false; redraw();
  }
  const zoomMiddle = (factor) => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, factor);

  function nodeAt(x, y) {
    const wx = (x - view.x) / view.zoom, wy = (y - view.y) / view.zoom, reach = Math.max(10, 14 / view.zoom);
    let best = -1, least = reach * reach;
    nodes.forEach((node, i) => {
      const distance = (node.x - wx) ** 2 + (node.y - wy) ** 2;
      if (distance < least) { best = i; least = distance; }
    });
    return best;
  }

  function toward(dx, dy) {
    const from = nodes[Math.max(selected, 0)];
    let best = selected, least = Infinity;
    nodes.forEach((node, i) => {
      const x = node.x - from.x, y = node.y - from.y, along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
      if (i !== selected && along > 0 && along + 2 * aside < least) { best = i; least = along + 2 * aside; }
    });
    select(best);
    const node = nodes[best], x = view.x + view.zoom * node.x, y = view.y + view.zoom * node.y;
    if (x < 20 || y < 20 || x > canvas.clientWidth - 20 || y > canvas.clientHeight - 20) {
      isFitted = false; view.x += canvas.clientWidth / 2 - x; view.y += canvas.clientHeight / 2 - y;
    }
    redraw();
  }

  let turn = 0;
  const KEYS = {
    ArrowLeft: () => toward(-1, 0), ArrowRight: () => toward(1, 0), ArrowUp: () => toward(0, -1), ArrowDown: () => toward(0, 1),
    "+": () => zoomMiddle(1.25), "=": () => zoomMiddle(1.25), "-": () => zoomMiddle(0.8), "0": () => { isFitted = true; redraw(); },
    n: () => { const near = neighbours[selected] || []; if (near.length) { select(near[turn++ % near.length].node); redraw(); } },
  };
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !nodes.length) return;
    event.preventDefault(); act();
  });
  const pointers = new Map();
  let hasMoved = false;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]); hasMoved = false; canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = [event.offsetX, event.offsetY];
    if (pointers.size === 1) {
      if (Math.hypot(now[0] - before[0], now[1] - before[1]) < 3 && !hasMoved) return;
      view.x += now[0] - before[0]; view.y += now[1] - before[1]; isFitted = false;
    } else {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const length = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
      zoomAt((now[0] + other[0]) / 2, (now[1] + other[1]) / 2, length(now) / length(before));
    }
    hasMoved = true; pointers.set(event.pointerId, now); redraw();
  });
  const release = (event) => {
    const wasHere = pointers.delete(event.pointerId);
    if (event.type === "pointerup" && wasHere && !hasMoved) {
      const found = nodeAt(event.offsetX, event.offsetY);
      if (found >= 0) { select(found); redraw(); }
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault(); zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY / 300));
  }, { passive: false });
  document.getElementById("viewer-in").addEventListener("click", () => zoomMiddle(1.25));
  document.getElementById("viewer-out").addEventListener("click", () => zoomMiddle(0.8));
  document.getElementById("viewer-fit").addEventListener("click", () => { isFitted = true; redraw(); });
  examples.forEach((one, i) => { const option = make("option", one.title); option.value = i; choice.append(option); });
  choice.addEventListener("change", () => load(Number(choice.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readPalette(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  readPalette();
  load(0);
})();
