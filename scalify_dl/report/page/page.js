// The page: search, graphs around what is picked, pictures, trees of what follows from what, filters, keys.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const el = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [k, v] of Object.entries(attributes))
      k.startsWith("on") ? element.addEventListener(k.slice(2), v) : element.setAttribute(k, v);
    element.append(...children);
    return element;
  };
  const $ = (selector) => document.querySelector(selector);
  const G = data.ops ? Graphs(data) : null;

  // --- theme and bar
  const kept = (() => { try { return localStorage.getItem("dlverify-theme"); } catch { return null; } })();
  if (kept) document.documentElement.dataset.theme = kept;
  function turn() {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("dlverify-theme", next); } catch { /* a page from a file may not keep things */ }
  }
  const search = el("input", { type: "search", id: "search", placeholder: "search ops, tensors, files  ( / )",
    "aria-label": "search" });
  const found = el("ul", { id: "found", class: "hidden" });
  const help = "/ search, j and k next and previous cause, g its graphs, f fold all, t theme, Escape closes";
  document.body.prepend(el("div", { id: "bar" }, search, found,
    el("button", { id: "fold", onclick: fold, title: "fold or unfold everything (f)" }, "fold"),
    el("button", { id: "theme", onclick: turn, title: "light or dark (t)" }, "light/dark"),
    el("button", { id: "keys", title: help, onclick: () => alert(help) }, "?")));
  function fold() {
    const all = [...document.querySelectorAll("main > details")], open = all.some((d) => d.open);
    all.forEach((d) => { d.open = !open; });
  }
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));

  // --- assumptions: a filter over all of them
  const table = $("#assumption-rows");
  if (table) {
    const input = el("input", { class: "filter", id: "filter", type: "search", placeholder: "filter assumptions",
      "aria-label": "filter assumptions" });
    const rest = el("p", { class: "dim" });
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = data.assumptions.filter((a) => words.every((w) => a.join(" ").toLowerCase().includes(w)));
      table.querySelectorAll("tr").forEach((row, n) => n && row.remove());
      for (const [tensor, text, why, accepted] of rows.slice(0, 300))
        table.append(el("tr", {}, el("td", {}, el("code", {}, tensor)), el("td", {}, text), el("td", {},
          why + (accepted ? " (accepted)" : ""))));
      rest.textContent = rows.length > 300 ? `and ${rows.length - 300} more`
        : `${rows.length} of ${data.assumptions.length}`;
    });
    table.before(input); table.after(rest);
  }
  const causes = [...document.querySelectorAll("article.cause")];
  let at = -1;
  function mark(n) {
    if (!causes.length) return;
    at = (n + causes.length) % causes.length;
    causes.forEach((card, i) => card.classList.toggle("at", i === at));
  }
  if (!G) { keys(); return; }

  // --- what is picked: graphs, picture, tree
  const about = el("section", { id: "about", class: "hidden", "aria-live": "polite" });
  const here = el("details", { open: "", id: "look" }, el("summary", {}, el("h2", {}, "Graphs")), about);
  ($("#causes") || $("main > p:last-of-type") || $("header")).after(here);
  const hint = el("p", { class: "dim" }, "Pick a cause, an output or something searched for.");
  here.append(hint);

  // Lines of files that stand in the page: a place leads to its own.
  const figures = new Map([...document.querySelectorAll("figure.lines")].map((f) => [f.dataset.place, f]));
  function lineOf(place) {
    const figure = figures.get(place);
    if (!figure) return el("code", {}, place);
    const open = () => { figure.closest("details").open = true; };
    return el("a", { href: `#${figure.id}`, class: "line", onclick: open }, el("code", {}, place));
  }
  document.querySelectorAll("article.cause dd code").forEach((code) => {
    const place = code.textContent.split("  ")[0];
    if (figures.has(place)) code.replaceWith(lineOf(place), code.textContent.slice(place.length));
  });
  const typeOf = (t) => `${G.tensor(t).type}[${G.tensor(t).shape.join(",")}]`;
  const nameOf = (t) => {
    const { name, called } = G.tensor(t);
    return called && called !== name ? `${called} (${name})` : name;
  };
  function pick(key, scroll) {
    const isOp = key[0] === "o", n = +key.slice(1), op = isOp ? n : (G.readersOf(n)[0] ?? -1);
    about.replaceChildren(); about.classList.remove("hidden"); hint.classList.add("hidden"); here.open = true;
    const tensors = isOp ? G.results(n) : [n], first = tensors[0];
    about.append(el("h3", {}, isOp
      ? `${G.label(n)} = ${G.kind(n)}(${G.operands(n).map((t) => G.tensor(t).name).join(", ")})` : nameOf(n)));
    if (isOp && G.place(n)) about.append(el("p", { class: "source" }, "source ", lineOf(G.place(n))));
    if (op >= 0) {
      const drawn = G.draw(op, (k) => pick(k, false));
      about.append(drawn);
      const at = drawn.querySelector(`[data-key="${key}"]`);
      if (at) at.classList.add("at");
    }
    const pictures = el("div", { class: "pictures" });
    for (const t of tensors.slice(0, 2)) {
      for (const [b, layout] of G.held(t))
        pictures.append(Layouts.picture(G.text(layout), G.tensor(b).shape,
          `${nameOf(t)} ${typeOf(t)} holds ${nameOf(b)}: ${data.layouts[layout]}`));
      const checked = data.checked.find(([d]) => d === t);
      if (!G.held(t).length && G.tensor(t).side === 1) pictures.append(el("p", {},
        `nothing is known of ${nameOf(t)} ${typeOf(t)}`));
      if (checked && checked[1] >= 0) {
        const wanted = `expected: ${nameOf(checked[1])} ${typeOf(checked[1])}`;
        pictures.append(checked[3] ? Layouts.picture(checked[3], G.tensor(checked[1]).shape,
          `${wanted} as ${checked[4]}`) : el("p", {}, wanted));
      }
      if (G.tensor(t).side === 0)
        for (const d of G.holdersOf(t).slice(0, 4)) pictures.append(el("p", {}, link(d), " holds it"));
    }
    for (const t of isOp && !tensors.some((x) => G.held(x).length) ? G.operands(n).slice(0, 4) : [])
      for (const [b, layout] of G.held(t).slice(0, 1))
        pictures.append(Layouts.picture(G.text(layout), G.tensor(b).shape,
          `operand ${nameOf(t)} holds ${nameOf(b)}: ${data.layouts[layout]}`));
    about.append(pictures);
    if (first !== undefined) about.append(el("div", { class: "tree" }, el("p", {}, "what it follows from"), el("ul",
      {}, branch(first, true))));
    if (scroll !== false) here.scrollIntoView({ block: "start" });
    try { history.replaceState(null, "", `#${key}`); } catch { /* not from a file */ }
  }
  const link = (t) => {
    const key = G.tensor(t).op < 0 ? `t${t}` : `o${G.tensor(t).op}`;
    return el("a", { href: `#${key}`, onclick: (e) => { e.preventDefault(); pick(key); } }, nameOf(t));
  };
  // A tensor and, unfolded, what its op read; filled when it is opened.
  function branch(t, open) {
    const op = G.tensor(t).op, rows = G.held(t);
    const words = rows.length ? ` holds ${rows.map(([b, l]) => `${nameOf(b)}: ${data.layouts[l]}`).join("; ")}`
      : G.tensor(t).side === 1 ? " holds nothing that is known" : "";
    if (op < 0 || !G.operands(op).length) return el("li", {}, link(t), words, el("span", { class: "dim" }, op < 0
      ? " (input)" : ` (${G.kind(op)})`));
    const inner = el("ul"), node = el("details", {}, el("summary", {}, link(t), words, el("span", { class: "dim" },
      ` by ${G.kind(op)} ${G.place(op)}`)), inner);
    const fill = () => { if (!inner.childElementCount) inner.append(...G.operands(op).map((o) => branch(o, false))); };
    node.addEventListener("toggle", () => node.open && fill());
    if (open) { fill(); node.open = true; }
    return el("li", {}, node);
  }

  // --- causes and outputs
  const keyOfCause = (n) => { // its op, or the input that it is
    const [op, , tensor] = data.marked[n] || [-1, -1, -1];
    return op >= 0 ? `o${op}` : tensor >= 0 ? `t${tensor}` : "";
  };
  causes.forEach((card, n) => {
    const key = keyOfCause(n);
    if (key) card.querySelector("h3").append(" ", el("button", { class: "show", onclick: () => { mark(n);
      pick(key); } }, "graphs"));
    card.addEventListener("click", () => mark(n));
  });
  document.querySelectorAll("tr[data-output]").forEach((row) => {
    const [d] = data.checked[+row.dataset.output] || [-1];
    if (d >= 0) row.children[1].append(" ", el("button", { onclick: () => pick(G.tensor(d).op < 0 ? `t${d}`
      : `o${G.tensor(d).op}`) }, "look"));
  });

  // --- search
  let lines = null, chosen = -1;
  function index() {
    lines = data.ops.map((_, n) => {
      const t = G.results(n)[0];
      const called = t === undefined ? "" : `${G.tensor(t).name} ${G.tensor(t).called}`;
      return [`o${n}`, `${called} ${G.kind(n)} ${G.place(n)}`.toLowerCase()];
    });
    data.tensors.forEach((t, n) => { if (t[3] < 0) lines.push([`t${n}`,
      `${G.text(t[0])} ${G.text(t[5])} input`.toLowerCase()]); });
  }
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.replaceChildren(); chosen = -1;
    found.classList.toggle("hidden", !words.length);
    if (!words.length) return;
    if (!lines) index();
    let count = 0;
    for (const [key, line] of lines) {
      if (!words.every((w) => line.includes(w))) continue;
      if (++count > 60) continue;
      const isOp = key[0] === "o", n = +key.slice(1), dist = isOp ? G.side(n) : G.tensor(n).side;
      const words_ = isOp ? `${G.label(n)}  ${G.kind(n)}  ${G.place(n)}` : `${nameOf(n)}  input`;
      found.append(el("li", { "data-key": key, onclick: () => go(key) }, words_, el("span", { class: "dim" }, dist
        ? "  distributed" : "  baseline")));
    }
    found.append(el("li", { class: "dim" }, `${count} found`));
  });
  function go(key) { found.classList.add("hidden"); search.blur(); pick(key); }
  search.addEventListener("keydown", (e) => {
    const items = [...found.querySelectorAll("li[data-key]")];
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      chosen = Math.max(0, Math.min(items.length - 1, chosen + (e.key === "ArrowDown" ? 1 : -1)));
      items.forEach((item, n) => item.classList.toggle("at", n === chosen));
    } else if (e.key === "Enter" && items.length) go(items[Math.max(chosen, 0)].dataset.key);
  });

  keys();
  const asked = /^#([ot]\d+)$/.exec(location.hash);
  if (asked) pick(asked[1]);
  else if (keyOfCause(0)) { mark(0); pick(keyOfCause(0), false); }

  function keys() {
    addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "Escape") { found.classList.add("hidden"); search.blur(); return; }
      if (/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
      const step = { j: 1, k: -1 }[e.key];
      if (step && causes.length) { mark(at < 0 && step > 0 ? 0 : at + step);
        causes[at].scrollIntoView({ block: "nearest" }); }
      else if (e.key === "g" && G && at >= 0 && keyOfCause(at)) pick(keyOfCause(at));
      else if (e.key === "/") { e.preventDefault(); search.focus(); }
      else if (e.key === "t") turn();
      else if (e.key === "f") fold();
    });
  }
})();
