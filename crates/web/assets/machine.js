// @ts-check
// A protocol's own picture, painted with what runs have gone through: how often, how long, how much, how often by a failure.

import { h, lasted, money } from './dom.js';

/** @typedef {{width: number, height: number, dots: number[][], states: any[], edges: any[], labels: [number, number, string[]][]}} Shapes */
/** @typedef {{states?: Record<string, any>, edges?: Record<string, any>, now?: string, link?: (from: string, to: string) => string|null}} Paint */

/** How warm a count is among others: five steps, and nought for what nobody went through. @param {number} count @param {number} most */
const warmth = (count, most) => (count ? Math.max(1, Math.ceil((5 * Math.log(1 + count)) / Math.log(1 + most))) : 0);

/** @param {string} name @param {Shapes|null} shapes @param {Paint} paint */
export function machine(name, shapes, paint) {
  if (!shapes) return h('p.quiet', null, `${name} is too large to be drawn; the tables say the same.`);
  const [states, edges] = [paint.states ?? {}, paint.edges ?? {}];
  const most = Math.max(1, ...Object.values(edges).map((one) => one.count));
  const longest = Math.max(1, ...Object.values(states).map((one) => one.time ?? one.visits ?? 0));
  const told = (/** @type {any} */ one) => [one.count !== undefined && `taken ${one.count} times`, one.visits !== undefined && `${one.visits} visits`, one.time && lasted(one.time), one.money && money(one.money), one.failures && `${one.failures} by a failure`].filter(Boolean).join(', ');
  const lines = shapes.edges.map((edge) => {
    const taken = edges[`${edge.from}>${edge.to}`];
    const kind = ['edge', edge.back && 'back', taken ? `warm${warmth(taken.count, most)}` : edge.from && Object.keys(edges).length && 'cold', taken?.failures && 'failed'].filter(Boolean).join(' ');
    return h('g', { class: kind }, h('title', null, `${edge.from} → ${edge.to}${edge.label ? `: ${edge.label}` : ''}${taken ? `; ${told(taken)}` : ''}`), h('path.line', { d: edge.line }), h('path.head', { d: edge.head }));
  });
  const boxes = shapes.states.map((state) => {
    const known = states[state.name];
    const kind = ['state', state.last && 'last', known ? `warm${warmth(known.time ?? known.visits, longest)}` : Object.keys(states).length && 'cold', paint.now === state.name && 'now'].filter(Boolean).join(' ');
    const [x, y] = [state.x + state.width / 2, state.y + state.height / 2];
    const badge = known && (known.count ?? known.visits) > 1 ? `@${known.count ?? known.visits}` : '';
    return h('g', { class: kind }, h('title', null, `${state.name}${state.can_hold ? ', may be held' : ''}${known ? `; ${told(known)}` : ''}`),
      h('rect', { x: state.x, y: state.y, width: state.width, height: state.height, rx: 9 }), state.last && h('rect.ring', { x: state.x + 3.5, y: state.y + 3.5, width: state.width - 7, height: state.height - 7, rx: 6 }),
      h('text', { x, y: y + 4.6 }, state.short), badge && h('text.visits', { x: state.x + state.width - 2, y: state.y - 4 }, badge));
  });
  const texts = shapes.labels.map(([x, y, all]) => h('g.label', null, h('rect', { x: x - 3 - Math.max(...all.map((line) => line.length)) * 3, y: y - all.length * 7 - 1, width: Math.max(...all.map((line) => line.length)) * 6 + 6, height: all.length * 14 + 2 }), all.map((line, at) => h('text', { x, y: y - ((all.length - 1) * 14) / 2 + 4 + at * 14 }, line))));
  const [wide, high] = [shapes.width + 40, shapes.height + 40];
  return h('div.stage', { tabindex: 0, role: 'region', 'aria-label': `Picture of ${name}` },
    h('svg.machine', { width: wide, height: high, viewBox: `-20 -20 ${wide} ${high}`, role: 'img', 'aria-label': `States and edges of ${name}; the table below says the same` },
      shapes.dots.map(([cx, cy]) => h('circle.dot', { cx, cy, r: 5.5 })), lines, texts, boxes));
}

/** What a path went through, as paint. @param {any[][]} path */
export function walked(path) {
  const states = /** @type {Record<string, any>} */ ({});
  const edges = /** @type {Record<string, any>} */ ({});
  let before = /** @type {any} */ (null);
  for (const [, when, instance, from, to] of path) {
    if (before && before.instance === instance) states[before.to].time += when - before.when;
    states[to] ??= { visits: 0, time: 0 };
    states[to].visits += 1;
    if (from) (edges[`${from}>${to}`] ??= { count: 0 }).count += 1;
    before = { when, instance, to };
  }
  return { states, edges };
}
