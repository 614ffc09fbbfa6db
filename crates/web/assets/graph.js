// @ts-check
// The graph of tasks: places come from the server; a drawing that can be clicked up to 400 tasks, a canvas above.

import { STAGES, h, visible } from './dom.js';

/** From how many tasks on it is a canvas. */
export const MAX_DRAWN = 400;
const WIDE = 176;
const HIGH = 36;

/** @typedef {{box: number[], x: number[], y: number[], edges: number[], critical: number[], groups?: number[][]}} Places */
/** Whoever folds and unfolds a wave: the tasks of one depth. @typedef {(depth: number) => void} Fold */

/** What a folded wave holds, in words. @param {any[][]} rows @param {number} depth @returns {[string, string, string]} */
function wave(rows, depth) {
  const of = /** @type {Record<string, number>} */ ({});
  for (const row of rows) if (row[2] === depth) of[row[3]] = (of[row[3]] ?? 0) + 1;
  const count = Object.values(of).reduce((sum, one) => sum + one, 0);
  const words = Object.entries(of).map(([stage, many]) => `${many} ${STAGES[stage]?.[1] ?? stage}`).join(', ');
  const worst = ['held', 'blocked', 'works', 'unreachable', 'next', 'waits', 'landed'].find((stage) => of[stage]) ?? 'waits';
  return [`wave ${depth + 1}: ${count.toLocaleString('en')} tasks`, words, worst];
}

/** @param {Places} places @param {any[][]} rows @param {(seq: string) => string} link
 * @param {string} [search] @param {Fold} [fold] */
export function drawing(places, rows, link, search = '', fold = undefined) {
  const folded = new Set((places.groups ?? []).map(([depth]) => depth));
  const critical = new Set(places.critical.slice(1).map((to, at) => `${places.critical[at]}>${to}`));
  const edges = [];
  for (let at = 0; at < places.edges.length; at += 2) {
    const [from, to] = [places.edges[at], places.edges[at + 1]];
    const [x1, y1, x2, y2] = [places.x[from] + WIDE + 8, places.y[from] + 26, places.x[to] + 8, places.y[to] + 26];
    const bend = Math.max(24, (x2 - x1) / 2);
    const is = critical.has(`${from}>${to}`);
    edges.push(h('path', { class: is ? 'critical' : '', d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }));
  }
  const waves = (places.groups ?? []).map(([depth, at]) => {
    const [name, words, worst] = wave(rows, depth);
    const [x, y] = [places.x[at] + 8, places.y[at] + 8];
    const press = () => fold?.(depth);
    return h('g.wave', { class: worst, tabindex: 0, role: 'button', 'aria-label': `${name}: ${words}; unfold`, 'data-key': `wave-${depth}`, onclick: press, onkeydown: (/** @type {any} */ event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); event.stopPropagation(); press(); } } }, h('title', null, `${name}: ${words}`),
      h('rect', { x: x + 5, y: y + 5, width: WIDE, height: HIGH, rx: 7 }), h('rect', { x, y, width: WIDE, height: HIGH, rx: 7 }), h('text', { x: x + 9, y: y + 15 }, `▸ ${cut(name, 24)}`), h('text', { x: x + 9, y: y + 29, 'font-size': 10, opacity: 0.75 }, cut(words, 30)));
  });
  const boxes = rows.map((row, at) => {
    const [seq, slug, depth, stands, state] = row;
    if (folded.has(depth)) return null;
    const [sign, words] = STAGES[stands] ?? ['·', stands];
    const name = `${seq} ${slug}`;
    const dim = search && !name.toLowerCase().includes(search.toLowerCase()) ? ' dim' : '';
    const [x, y] = [places.x[at] + 8, places.y[at] + 8];
    const node = document.createElementNS('http://www.w3.org/2000/svg', 'a');
    node.setAttribute('href', link(seq));
    node.setAttribute('class', `${stands}${dim}`);
    node.append(h('title', null, `${name}: ${words}${row[8] ? `, ${row[8]}` : ''}`),
      h('rect', { x, y, width: WIDE, height: HIGH, rx: 7 }),
      h('text', { x: x + 9, y: y + 15 }, `${sign} ${cut(name, 24)}`),
      h('text', { x: x + 9, y: y + 29, 'font-size': 10, opacity: 0.75 }, cut(state ?? words, 26)));
    return node;
  });
  const [wide, high] = [places.box[0] + 16, places.box[1] + 16];
  return h('div.stage', { tabindex: 0, role: 'region', 'aria-label': 'Graph of tasks' },
    h('svg.graph', { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: 'group', 'aria-label': 'Tasks and what waits for them' }, edges, boxes, waves));
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The same on a canvas, for many tasks. Far away only boxes and one picture of all edges; near, names too.
 * @param {Places} places @param {any[][]} rows @param {(seq: string) => void} open @param {Fold} [fold] */
export function canvas(places, rows, open, fold = undefined) {
  const groups = (places.groups ?? []).map(([depth, at]) => ({ depth, at, told: wave(rows, depth) }));
  const folded = new Set(groups.map((one) => one.depth));
  const surface = /** @type {HTMLCanvasElement} */ (h('canvas', { tabindex: 0, role: 'img', 'aria-label': `Graph of ${rows.length} tasks; the table below says the same` }));
  const node = h('div.stage', { style: { height: '68vh', overflow: 'hidden' } }, surface);
  const pen = /** @type {CanvasRenderingContext2D} */ (surface.getContext('2d', { alpha: false }));
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const fills = /** @type {Record<string, string>} */ ({
    works: colour('--agent'), landed: colour('--good'), blocked: colour('--bad'), held: colour('--bad'),
    unreachable: colour('--warn'), waits: colour('--slot'), next: colour('--slot'),
  });
  const [ground, line, ink, strong] = [colour('--card'), colour('--slot'), colour('--ink'), colour('--person')];
  let view = { x: 0, y: 0, scale: 1 };
  let chosen = -1;
  let ancestors = /** @type {Set<number>} */ (new Set());
  /** @type {Map<number, number[]>} */
  const columns = new Map();
  rows.forEach((row, at) => { if (folded.has(row[2])) return; const x = places.x[at]; if (!columns.has(x)) columns.set(x, []); columns.get(x)?.push(at); });
  const parents = /** @type {number[][]} */ (places.x.map(() => []));
  for (let at = 0; at < places.edges.length; at += 2) parents[places.edges[at + 1]].push(places.edges[at]);
  /** All edges as one picture, drawn once: a frame only lays it down. */
  const whole = { picture: document.createElement('canvas'), scale: 1 };
  const prepare = () => {
    whole.scale = Math.min(1, 2048 / Math.max(places.box[0], places.box[1], 1));
    whole.picture.width = Math.max(1, Math.ceil(places.box[0] * whole.scale));
    whole.picture.height = Math.max(1, Math.ceil(places.box[1] * whole.scale));
    const far = /** @type {CanvasRenderingContext2D} */ (whole.picture.getContext('2d'));
    far.strokeStyle = line;
    far.globalAlpha = 0.35;
    far.lineWidth = 0.6;
    far.beginPath();
    for (let at = 0; at < places.edges.length; at += 2) edge(far, places.edges[at], places.edges[at + 1], whole.scale);
    far.stroke();
  };
  const edge = (/** @type {CanvasRenderingContext2D} */ to, /** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ scale) => {
    to.moveTo((places.x[a] + WIDE) * scale, (places.y[a] + HIGH / 2) * scale);
    to.lineTo(places.x[b] * scale, (places.y[b] + HIGH / 2) * scale);
  };
  const draw = () => {
    waits = false;
    const dense = devicePixelRatio || 1;
    const [wide, high] = [node.clientWidth, node.clientHeight];
    if (surface.width !== Math.round(wide * dense) || surface.height !== Math.round(high * dense)) {
      [surface.width, surface.height] = [Math.round(wide * dense), Math.round(high * dense)];
      surface.style.setProperty('width', `${wide}px`);
      surface.style.setProperty('height', `${high}px`);
    }
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.fillStyle = ground;
    pen.fillRect(0, 0, wide, high);
    pen.setTransform(dense * view.scale, 0, 0, dense * view.scale, -view.x * view.scale * dense, -view.y * view.scale * dense);
    const [left, top] = [view.x, view.y];
    const [right, bottom] = [left + wide / view.scale, top + high / view.scale];
    pen.drawImage(whole.picture, 0, 0, whole.picture.width / whole.scale, whole.picture.height / whole.scale);
    for (const [x, tasks] of columns) {
      if (x + WIDE < left || x > right) continue;
      for (const at of tasks) {
        const y = places.y[at];
        if (y + HIGH < top || y > bottom) continue;
        pen.fillStyle = fills[rows[at][3]] ?? line;
        pen.globalAlpha = chosen < 0 || at === chosen || ancestors.has(at) ? 1 : 0.3;
        pen.fillRect(x, y, WIDE, HIGH);
        if (view.scale > 0.45) {
          pen.fillStyle = ground;
          pen.fillRect(x + 4, y + 2, WIDE - 6, HIGH - 4);
          pen.fillStyle = ink;
          pen.font = '12px system-ui, sans-serif';
          pen.fillText(cut(visible(`${(STAGES[rows[at][3]] ?? ['·'])[0]} ${rows[at][0]} ${rows[at][1]}`), 25), x + 10, y + 22, WIDE - 16);
        }
      }
    }
    pen.globalAlpha = 1;
    for (const { at, told } of groups) {
      const [x, y] = [places.x[at], places.y[at]];
      if (x + WIDE < left || x > right || y + HIGH < top || y > bottom) continue;
      pen.fillStyle = fills[told[2]] ?? line;
      pen.fillRect(x + 5, y + 5, WIDE, HIGH);
      pen.fillRect(x, y, WIDE, HIGH);
      pen.fillStyle = ground;
      pen.fillRect(x + 4, y + 2, WIDE - 6, HIGH - 4);
      pen.fillStyle = ink;
      pen.font = '12px system-ui, sans-serif';
      pen.fillText(told[0], x + 10, y + 15, WIDE - 16);
      pen.fillText(told[1], x + 10, y + 30, WIDE - 16);
    }
    if (places.critical.length > 1) {
      pen.strokeStyle = strong;
      pen.lineWidth = Math.min(4, 1.6 / view.scale);
      pen.beginPath();
      for (let at = 1; at < places.critical.length; at += 1) edge(pen, places.critical[at - 1], places.critical[at], 1);
      pen.stroke();
    }
    if (chosen >= 0) {
      pen.strokeStyle = strong;
      pen.lineWidth = 2 / view.scale;
      pen.beginPath();
      for (const at of [chosen, ...ancestors]) for (const parent of parents[at]) edge(pen, parent, at, 1);
      pen.stroke();
      pen.strokeRect(places.x[chosen] - 2, places.y[chosen] - 2, WIDE + 4, HIGH + 4);
    }
    node.dispatchEvent(new CustomEvent('drawn'));
  };
  let waits = false;
  const later = () => { if (!waits) { waits = true; requestAnimationFrame(draw); } };
  const choose = (/** @type {number} */ at) => {
    chosen = at;
    ancestors = new Set();
    const left = at < 0 ? [] : [at];
    while (left.length) for (const parent of parents[/** @type {number} */ (left.pop())]) if (!ancestors.has(parent)) { ancestors.add(parent); left.push(parent); }
    if (at >= 0 && rows[at]) surface.setAttribute('aria-label', visible(`${rows[at][0]} ${rows[at][1]}, ${(STAGES[rows[at][3]] ?? ['', rows[at][3]])[1]}`));
    later();
  };
  const zoom = (/** @type {number} */ by, /** @type {number} */ px, /** @type {number} */ py) => {
    const scale = Math.min(3, Math.max(0.02, view.scale * by));
    view = { x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale, scale };
    later();
  };
  const all = () => {
    const scale = Math.min(1, node.clientWidth / (places.box[0] || 1), node.clientHeight / (places.box[1] || 1));
    view = { x: 0, y: 0, scale: Math.max(0.02, scale) };
    later();
  };
  const spot = (/** @type {any} */ event) => {
    const box = surface.getBoundingClientRect();
    const [x, y] = [view.x + (event.clientX - box.left) / view.scale, view.y + (event.clientY - box.top) / view.scale];
    const group = groups.find(({ at }) => x >= places.x[at] && x <= places.x[at] + WIDE && y >= places.y[at] && y <= places.y[at] + HIGH);
    if (group) { fold?.(group.depth); return -1; }
    for (const [left, tasks] of columns) if (x >= left && x <= left + WIDE) return tasks.find((at) => y >= places.y[at] && y <= places.y[at] + HIGH) ?? -1;
    return -1;
  };
  surface.addEventListener('wheel', (event) => {
    event.preventDefault();
    const box = surface.getBoundingClientRect();
    if (event.ctrlKey) zoom(Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
    else { view.x += event.deltaX / view.scale; view.y += event.deltaY / view.scale; later(); }
  }, { passive: false });
  let drag = /** @type {{x: number, y: number, moved: number}|null} */ (null);
  surface.addEventListener('pointerdown', (event) => { drag = { x: event.clientX, y: event.clientY, moved: 0 }; surface.setPointerCapture(event.pointerId); });
  surface.addEventListener('pointermove', (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    view.x -= dx / view.scale;
    view.y -= dy / view.scale;
    drag = { x: event.clientX, y: event.clientY, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
    later();
  });
  surface.addEventListener('pointerup', (event) => { if (drag && drag.moved < 4) choose(spot(event)); drag = null; });
  surface.addEventListener('dblclick', (event) => { const at = spot(event); if (at >= 0) open(rows[at][0]); });
  surface.addEventListener('keydown', (event) => {
    const step = 120 / view.scale;
    const moves = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] });
    if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; later(); } else if (event.key === '+') zoom(1.25, node.clientWidth / 2, node.clientHeight / 2);
    else if (event.key === '-') zoom(0.8, node.clientWidth / 2, node.clientHeight / 2);
    else if (event.key === '0') all();
    else if (event.key === 'n' || event.key === 'p') choose((chosen + (event.key === 'n' ? 1 : rows.length - 1)) % rows.length);
    else if (event.key === 'Enter' && chosen >= 0) open(rows[chosen][0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  prepare();
  new ResizeObserver(later).observe(node);
  requestAnimationFrame(all);
  return { node, draw: later, choose: (/** @type {string} */ seq) => choose(rows.findIndex((row) => row[0] === seq)), pan: (/** @type {number} */ dx, /** @type {number} */ dy) => { view.x += dx; view.y += dy; later(); } };
}
