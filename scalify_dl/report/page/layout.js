// Layout text -> which elements of a baseline tensor each rank holds -> a picture.
"use strict";
const Layouts = (() => {
  const HUES = [210, 25, 130, 280, 50, 340, 175, 95];

  function entry(word) {
    let m = /^(\d+):(\d+)x(\d+)$/.exec(word);
    if (m) return { kind: "digit", dim: +m[1], stride: +m[2], size: +m[3] };
    m = /^r(\d+)$/.exec(word);
    if (m) return { kind: "same", size: +m[1] };
    m = /^([a-z]+)(\d+)$/.exec(word);
    return { kind: "pending", reducer: m[1], size: +m[2] };
  }

  function parse(text) {
    const [body, scale] = text.split(" *");
    const [head, ...axes] = body.split("|");
    const words = (inner) => (inner ? inner.split(",").map(entry) : []);
    return {
      dims: [...head.matchAll(/\[([^\]]*)\]/g)].map((m) => words(m[1])),
      axes: axes.map((a) => [a.slice(0, a.indexOf("=")), words(a.slice(a.indexOf("=") + 1))]),
      scale: scale || "",
    };
  }

  // Intervals [from, to) of a baseline dim that digits of local dims run through, relative to the rank's own offset.
  function spans(layout, dim) {
    const digits = layout.dims.flat().filter((d) => d.kind === "digit" && d.dim === dim && d.stride);
    digits.sort((a, b) => a.stride - b.stride);
    let length = 1, rest = digits;
    while (rest.length && rest[0].stride === length) { length *= rest[0].size; rest = rest.slice(1); }
    let starts = [0];
    for (const d of rest) {
      const next = [];
      for (const s of starts) for (let i = 0; i < d.size && next.length < 512; i++) next.push(s + i * d.stride);
      starts = next;
    }
    return starts.map((s) => [s, s + length]);
  }

  // What every rank holds of two dims: rank -> {x: intervals, y: intervals}, ranks counted row-major over the axes.
  function holdings(layout, xdim, ydim) {
    let ranks = [{ name: "", x: 0, y: 0 }];
    for (const [axis, entries] of layout.axes) {
      const size = entries.reduce((n, e) => n * e.size, 1);
      const next = [];
      for (const r of ranks) for (let c = 0; c < size; c++) {
        let rest = c, x = r.x, y = r.y;
        for (const e of [...entries].reverse()) {
          const at = rest % e.size; rest = Math.floor(rest / e.size);
          if (e.kind !== "digit") continue;
          if (e.dim === xdim) x += at * e.stride;
          if (e.dim === ydim) y += at * e.stride;
        }
        next.push({ name: `${r.name}${r.name ? "," : ""}${axis}=${c}`, x, y });
      }
      ranks = next;
      if (ranks.length > 64) break;
    }
    const xs = spans(layout, xdim), ys = ydim < 0 ? [[0, 1]] : spans(layout, ydim);
    return ranks.slice(0, 64).map((r) => ({
      name: r.name, x: xs.map(([a, b]) => [a + r.x, b + r.x]), y: ys.map(([a, b]) => [a + r.y, b + r.y]),
    }));
  }

  // The two dims worth drawing: those that axes cut first, then the last ones.
  function shown(layout, shape) {
    const cut = layout.axes.flatMap(([, es]) => es).filter((e) => e.kind === "digit").map((e) => e.dim);
    const order = [...new Set([...cut, ...shape.map((_, d) => d).reverse()])].filter((d) => d < shape.length);
    const pair = order.slice(0, 2).sort((a, b) => a - b);
    return pair.length === 2 ? { ydim: pair[0], xdim: pair[1] } : { ydim: -1, xdim: pair.length ? pair[0] : 0 };
  }

  function picture(text, shape, caption) {
    const NS = "http://www.w3.org/2000/svg", W = 220, H = 130;
    const figure = document.createElement("figure"), svg = document.createElementNS(NS, "svg");
    svg.setAttribute("width", W + 40); svg.setAttribute("height", H + 24); svg.setAttribute("class", "picture");
    const add = (name, attributes, words) => {
      const element = document.createElementNS(NS, name);
      for (const [k, v] of Object.entries(attributes)) element.setAttribute(k, v);
      if (words) element.textContent = words;
      svg.append(element);
      return element;
    };
    const layout = parse(text), { xdim, ydim } = shown(layout, shape);
    const pending = layout.axes.flatMap(([, es]) => es).filter((e) => e.kind === "pending").map((e) => e.reducer);
    const width = shape[xdim] || 1, height = ydim < 0 ? 1 : shape[ydim] || 1;
    const cells = new Map();
    holdings(layout, xdim, ydim).forEach((r, n) => {
      for (const [x0, x1] of r.x) for (const [y0, y1] of r.y) {
        const key = [x0, x1, y0, y1].join();
        if (cells.size < 2000 || cells.has(key)) cells.set(key, [...(cells.get(key) || []), [n, r.name]]);
      }
    });
    for (const [key, ranks] of cells) {
      const [x0, x1, y0, y1] = key.split(",").map(Number), at = 30 + (W * x0) / width, wide = (W * (x1 - x0)) / width;
      const top = (H * y0) / height, tall = (H * (y1 - y0)) / height, stripes = ranks.slice(0, 8);
      // what several ranks hold alike is striped: each rank has all of it
      const count = stripes.length < 2 ? 1 : stripes.length * Math.max(1, Math.ceil(wide / (9 * stripes.length)));
      for (let i = 0; i < count; i++) {
        const [n] = stripes[i % stripes.length];
        add("rect", {
          x: at + (wide * i) / count, y: top, width: wide / count, height: tall,
          "fill-opacity": pending.length ? .35 : .8,
          fill: `hsl(${HUES[n % HUES.length]} 60% ${55 - 12 * Math.floor(n / HUES.length)}%)`,
          stroke: i && !pending.length ? "none" : "currentColor", "stroke-width": .5, "stroke-dasharray":
            pending.length ? "3 3" : "none", "data-ranks": ranks.map(([, name]) =>
            name).join(" "),
        });
      }
      // what is pending is made of what several ranks hold: none of them has all of it
      const said = (names) => (pending.length ? `${pending[0]} of ${names}`
        : names + (ranks.length > 1 ? " alike" : ""));
      const label = [ranks.map(([, name]) => name).join(", "), `${ranks.length} ranks`].map(said)
        .find((words) => wide > 6 * words.length);
      if (label && tall > 13) add("text", {
        x: at + wide / 2, y: top + tall / 2 + 4, "text-anchor": "middle", "font-size": 11, fill: "currentColor",
      }, label);
    }
    add("text", { x: 30, y: H + 16, "font-size": 11, fill: "currentColor" }, `dim ${xdim}: ${width}`);
    if (ydim >= 0) add("text", { x: 2, y: 12, "font-size": 11, fill: "currentColor" }, `${height}`);
    const words = document.createElement("figcaption");
    words.textContent = caption;
    figure.append(svg, words);
    return figure;
  }
  return { parse, holdings, picture };
})();
