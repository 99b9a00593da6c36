// Both graphs around an op: the baseline on the left, the distributed program on the right, what corresponds linked.
"use strict";
const Graphs = ((data) => {
  const NS = "http://www.w3.org/2000/svg", WIDE = 190, TALL = 34, GAP = 18, MOST = 36, ACROSS = 4;
  const text = (n) => data.texts[n];
  const tensor = (t) => ({
    name: text(data.tensors[t][0]), type: text(data.tensors[t][1]), shape: data.tensors[t][2], op: data.tensors[t][3],
    side: data.tensors[t][4], called: text(data.tensors[t][5]),
  });
  const kind = (op) => text(data.ops[op][0]), place = (op) => text(data.ops[op][3]);
  const operands = (op) => data.ops[op][1], results = (op) => data.ops[op][2], side = (op) => data.ops[op][4];
  let readers = null, holders = null;

  function readersOf(t) {
    if (!readers) {
      readers = new Map();
      data.ops.forEach((op, n) => op[1].forEach((t) => (readers.has(t) ? readers.get(t).push(n) : readers.set(t,
        [n]))));
    }
    return readers.get(t) || [];
  }

  function holdersOf(b) {
    if (!holders) {
      holders = new Map();
      for (const [d, rows] of Object.entries(data.held))
        for (const [t] of rows) holders.has(t) ? holders.get(t).push(+d) : holders.set(t, [+d]);
    }
    return holders.get(b) || [];
  }

  const held = (t) => data.held[t] || [];
  const label = (op) => {
    const t = results(op)[0];
    return t === undefined ? kind(op) : tensor(t).called || tensor(t).name;
  };

  // Things around an op: ops as "o7", inputs as "t9"; two levels up, one down.
  function around(op) {
    const found = new Map([[`o${op}`, 0]]);
    const up = (key, level) => {
      if (key[0] !== "o" || level < -2) return;
      for (const t of operands(+key.slice(1))) {
        const above = tensor(t).op < 0 ? `t${t}` : `o${tensor(t).op}`;
        if (found.size < MOST && (!found.has(above) || found.get(above) > level)) { found.set(above, level); up(above,
          level - 1); }
      }
    };
    up(`o${op}`, -1);
    for (const t of results(op))
      for (const next of readersOf(t).slice(0, ACROSS)) if (!found.has(`o${next}`)) found.set(`o${next}`, 1);
    return found;
  }

  // The baseline op that a distributed one is compared with: said by the rules, else one that reads what operands hold.
  function counterpart(op) {
    const marked = data.marked.find(([d, b]) => d === op && b >= 0);
    if (marked) return marked[1];
    for (const t of results(op)) for (const [b] of held(t)) if (tensor(b).op >= 0) return tensor(b).op;
    for (const t of operands(op)) for (const [b] of held(t)) {
      const same = readersOf(b).find((n) => kind(n) === kind(op) && side(n) === 0);
      if (same !== undefined) return same;
    }
    return -1;
  }

  function draw(op, onPick) {
    const mine = side(op) === 1 ? op : (results(op).flatMap(holdersOf).map((t) => tensor(t).op).find((n) => n >= 0)
      ?? -1);
    const theirs = side(op) === 0 ? op : counterpart(op);
    const svg = document.createElementNS(NS, "svg"), places = new Map();
    const add = (parent, name, attributes, words) => {
      const element = document.createElementNS(NS, name);
      for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, v);
      if (words !== undefined) element.textContent = words;
      parent.append(element);
      return element;
    };
    let left = 10, bottom = 0;
    const lines = add(svg, "g", {});
    for (const [centre, title, culprit] of [[theirs, "baseline", false], [mine, "distributed", true]]) {
      const nodes = centre < 0 ? new Map() : around(centre), rows = new Map();
      for (const [key, level] of nodes) rows.set(level, [...(rows.get(level) || []), key]);
      const widest = Math.max(1, ...[...rows.values()].map((r) => Math.min(r.length, ACROSS)));
      add(svg, "text", { x: left, y: 16, class: "side" }, centre < 0 ? `${title}: no counterpart` : title);
      let top = 28;
      for (const level of [...rows.keys()].sort((a, b) => a - b)) {
        rows.get(level).forEach((key, n) => {
          if (n && n % ACROSS === 0) top += TALL + GAP;
          places.set(key, { x: left + (n % ACROSS) * (WIDE + GAP), y: top, centre: key === `o${centre}` && culprit });
        });
        top += TALL + 2 * GAP;
      }
      left += widest * (WIDE + GAP) + 50; bottom = Math.max(bottom, top);
    }
    const keyOf = (t) => (tensor(t).op < 0 ? `t${t}` : `o${tensor(t).op}`);
    const bad = new Set(data.frontier);
    for (const [key, at] of places) {
      const isOp = key[0] === "o", n = +key.slice(1);
      const classes = ["node", at.centre && bad.has(n) | data.marked.some(([d]) => d === n) && "culprit",
        isOp && side(n) === 1 && results(n).length && !results(n).some((t) => held(t).length) && "unproved"];
      const node = add(svg, "g", { class: classes.filter(Boolean).join(" "), "data-key": key, tabindex: 0 });
      add(node, "rect", { x: at.x, y: at.y, width: WIDE, height: TALL, rx: 4 });
      const name = isOp ? label(n) : tensor(n).called || tensor(n).name, cut = (s, m) => (s.length > m ? s.slice(0,
        m - 1) + "…" : s);
      add(node, "text", { x: at.x + 6, y: at.y + 14 }, cut(name, 25));
      const below = isOp ? `${kind(n)}${place(n) ? "  " + place(n).split("/").pop() : ""}`
        : `input ${tensor(n).type}[${tensor(n).shape}]`;
      add(node, "text", { x: at.x + 6, y: at.y + 28, "fill-opacity": .7 }, cut(below, 25));
      add(node, "title", {}, `${name} ${below}`);
      node.addEventListener("click", () => onPick(key));
      node.addEventListener("keydown", (e) => e.key === "Enter" && onPick(key));
      if (isOp) for (const t of operands(n)) {
        const from = places.get(keyOf(t));
        if (from) add(lines, "path", { class: "edge", d: curve(from.x + WIDE / 2, from.y + TALL, at.x + WIDE / 2,
          at.y) });
      }
      const made = isOp ? results(n) : [n];
      for (const t of made) for (const [b] of held(t)) {
        const twin = places.get(keyOf(b));
        if (twin) add(lines, "path", { class: "twin",
          d: `M${twin.x + WIDE} ${twin.y + TALL / 2} L${at.x} ${at.y + TALL / 2}` });
      }
    }
    svg.setAttribute("width", left); svg.setAttribute("height", bottom + 10);
    const box = document.createElement("div");
    box.className = "graph"; box.append(svg);
    return box;
  }

  function curve(x0, y0, x1, y1) {
    const middle = (y0 + y1) / 2;
    return `M${x0} ${y0} C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
  }
  return { text, tensor, kind, place, operands, results, side, held, holdersOf, readersOf, label, draw, counterpart };
});
