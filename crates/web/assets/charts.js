// @ts-check
// What time and money went to. Every picture has a table that says the same.

import { clock, h, lasted, money, short, table } from './dom.js';

const KINDS = /** @type {Record<string, string>} */ ({
  agent: 'an agent works', check: 'checks', slot: 'waits for a slot', file: 'waits for a file', person: 'waits for a person', service: 'waits for a service', land: 'lands', work: 'other work',
});

/** A stretch in which nothing at all happens is folded when it is longer than this, in milliseconds. */
const IDLE = 120000;

/** @param {{began: number, now: number, critical?: string[], rows: {task: string, label: string|null, bars: any[][]}[]}} data
 * @param {(seq: string) => string} link @param {string} [order] */
export function timeline(data, link, order = 'begin') {
  const scale = folded(data);
  const wide = 1000;
  const across = (/** @type {number} */ at) => (scale.to(at) / Math.max(1, scale.length)) * wide;
  const names = 190;
  const used = new Set(data.rows.flatMap((row) => row.bars.map((bar) => bar[2])));
  const on = new Map((data.critical ?? []).map((task, at) => [task, at]));
  const by = (/** @type {any} */ row) => (order === 'critical' ? on.get(row.task) ?? 1e6 : 0);
  const rows = [...data.rows].sort((a, b) => by(a) - by(b) || (a.bars[0]?.[0] ?? 0) - (b.bars[0]?.[0] ?? 0));
  const high = rows.length * 26 + 34;
  const lines = rows.map((row, at) => {
    const y = at * 26 + 6;
    const label = row.label ?? 'the flow itself';
    const bars = row.bars.map(([from, to, kind, what, entry]) => {
      const [x, end] = [across(from), across(to ?? data.now)];
      const text = `${label}: ${KINDS[kind] ?? kind} (${what}), ${lasted((to ?? data.now) - from)}, entry ${entry}`;
      return h('rect', { class: `bar-${kind}`, x: names + x, y, width: Math.max(1.5, end - x), height: 18, rx: 2 }, h('title', null, text));
    });
    const mark = on.size > 1 && on.has(row.task) ? '◆ ' : '';
    const name = `${mark}${label.length > 24 ? `${label.slice(0, 23)}…` : label}`;
    const place = document.createElementNS('http://www.w3.org/2000/svg', 'a');
    if (row.label) place.setAttribute('href', link(row.task));
    place.append(h('text', { x: 2, y: y + 14 }, name));
    return h('g', null, place, bars);
  });
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const x = names + part * wide;
    return [h('line.axis', { x1: x, x2: x, y1: 0, y2: high - 24 }), h('text', { x, y: high - 8, 'text-anchor': part === 1 ? 'end' : 'middle' }, lasted(scale.back(part * scale.length) - data.began))];
  });
  const folds = scale.folds.map(([from, to]) => h('rect.hatch', { x: names + across(from), y: 0, width: 6, height: high - 24, fill: 'var(--soft)' }, h('title', null, `${lasted(to - from)} in which nothing happened`)));
  const sums = rows.map((row) => {
    const of = /** @type {Record<string, number>} */ ({});
    for (const [from, to, kind] of row.bars) of[kind] = (of[kind] ?? 0) + ((to ?? data.now) - from);
    return [row.label ?? 'the flow itself', ...Object.keys(KINDS).map((kind) => (of[kind] ? lasted(of[kind]) : ''))];
  });
  return h('div', null,
    h('div.legend', null, Object.entries(KINDS).filter(([kind]) => used.has(kind) || ['slot', 'file', 'person'].includes(kind)).map(([kind, words]) => h('span', null, h('i', { class: `bar-${kind}` }), words)), on.size > 1 && h('span', null, '◆ on the critical path')),
    h('div.stage', { tabindex: 0, role: 'region', 'aria-label': 'Timeline' },
      h('svg.lines', { width: names + wide + 20, height: high, role: 'group', 'aria-label': 'What time went to, task by task' }, marks, folds, lines)),
    h('details', null, h('summary', null, 'The same as a table'),
      table('What time went to', ['task', ...Object.values(KINDS).map((words) => /** @type {[string, string]} */ ([words, 'num']))], sums)));
}

/** Time with the stretches folded in which nothing happens.
 * @param {{began: number, now: number, rows: {bars: any[][]}[]}} data */
function folded(data) {
  const bars = data.rows.flatMap((row) => row.bars.map(([from, to]) => [from, to ?? data.now])).sort((a, b) => a[0] - b[0]);
  /** @type {number[][]} */
  const folds = [];
  let end = data.began;
  for (const [from, to] of bars) {
    if (from - end > IDLE) folds.push([end, from]);
    end = Math.max(end, to);
  }
  const kept = 6000;
  const to = (/** @type {number} */ at) => folds.reduce((sum, [from, until]) => (at >= until ? sum - (until - from) + kept : at > from ? sum - (at - from) : sum), at - data.began);
  const length = Math.max(1, to(Math.max(data.now, end)));
  const back = (/** @type {number} */ place) => {
    let [low, high] = [data.began, Math.max(data.now, end)];
    for (let step = 0; step < 40; step += 1) { const middle = (low + high) / 2; if (to(middle) < place) low = middle; else high = middle; }
    return low;
  };
  return { to, back, length, folds };
}

/** @param {Record<string, any>} meters @param {string} name */
export function meter(meters, name) {
  const one = meters[name];
  if (!one) return null;
  const most = Math.max(one.limit ?? 0, one.used + (one.reserved ?? 0), 1);
  const part = (/** @type {number} */ amount) => `${(100 * amount) / most}%`;
  const text = `${name}: ${one.text ?? one.used}`;
  return h('div', null, h('div.row', null, h('span.grow', null, text), one.forecast && h('span.warn', null, `at this pace the limit is reached at ${clock(one.forecast)}`)),
    h('div.meter', { role: 'img', 'aria-label': text }, h('i', { class: one.unknown ? 'unknown' : '', style: { width: part(one.used) } }), h('i.aside', { style: { width: part(one.reserved ?? 0) } })));
}

/** @param {any} data */
export function spending(data) {
  const row = (/** @type {string} */ name, /** @type {any} */ one) => [name, short(one.input), short(one.cached), short(one.output), short(one.tokens),
    one.unpriced ? `${money(one.money)} + unknown` : `${money(one.money)}${one.unknown ? '?' : ''}`];
  const heads = /** @type {(string|[string, string])[]} */ (['', ['input', 'num'], ['cached', 'num'], ['output', 'num'], ['all tokens', 'num'], ['money', 'num']]);
  const untold = data.all.tokens > 0 && data.all.input + data.all.output === 0;
  return h('div', null,
    h('div.card', null, Object.keys(data.meters).map((name) => meter(data.meters, name)),
      h('div.legend', null, h('span', null, h('i.bar-agent'), 'used'), h('span', null, h('i.bar-slot'), 'set aside'), h('span', null, h('i.bar-agent.unknown'), 'some of it nobody knows: the worst case is counted'))),
    curve(data),
    untold && h('p.quiet', null, 'The agents of this run do not tell input, cached and output tokens apart.'),
    data.models?.length > 0 && [h('h2', null, 'By model'), table('Spent by model', heads, data.models.map((/** @type {any} */ one) => row(one.name, one.bought)))],
    h('h2', null, 'By role'), table('Spent by role', heads, [...data.roles.map((/** @type {any} */ one) => row(one.name, one.bought)), row('all', data.all)]),
    h('h2', null, 'By task'), table('Spent by task', heads, data.tasks.map((/** @type {any} */ one) => row(one.name ?? 'the flow itself', one.bought))));
}

/** How money or tokens grew. @param {any} data */
function curve(data) {
  const points = data.points;
  if (points.length < 2 || data.all.tokens + data.all.money === 0) return null;
  const by = data.all.money > 0 ? 'money' : 'tokens';
  const limit = data.meters[by]?.limit ?? 0;
  const last = points[points.length - 1];
  const [wide, high] = [1000, 150];
  const near = limit && limit < last[by] * 4 ? limit : 0;
  const most = Math.max(last[by], near, 1);
  const hit = near ? data.meters[by]?.forecast ?? 0 : 0;
  const until = Math.max(data.now, Math.min(hit, data.now + (data.now - data.began)));
  const x = (/** @type {number} */ at) => ((at - data.began) / Math.max(1, until - data.began)) * wide;
  const y = (/** @type {number} */ of) => high - (of / most) * (high - 14);
  const path = points.map((/** @type {any} */ one) => `${x(one.at).toFixed(1)},${y(one[by]).toFixed(1)}`).join(' ');
  const words = `${by} grew to ${by === 'money' ? money(last[by]) : short(last[by])}`;
  return h('div.card.scroll', { tabindex: 0, role: 'region', 'aria-label': 'How spending grew' },
    h('svg.lines', { width: wide, height: high + 8, role: 'img', 'aria-label': words },
      near && hit && h('line', { x1: x(last.at), y1: y(last[by]), x2: x(Math.min(hit, until)), y2: y(hit > until ? last[by] + ((near - last[by]) * (until - last.at)) / Math.max(1, hit - last.at) : near), stroke: 'var(--agent)', 'stroke-dasharray': '3 4' }),
      points.some((/** @type {any} */ one) => one.unknown) && h('polyline', { points: `${path} ${x(last.at)},${high} 0,${high}`, fill: 'url(#hatch)', opacity: 0.6 }),
      near && h('text', { x: wide - 4, y: y(near) + 13, 'text-anchor': 'end' }, `the limit, ${by === 'money' ? money(near) : short(near)}`),
      near && h('line', { x1: 0, x2: wide, y1: y(near), y2: y(near), stroke: 'var(--bad)', 'stroke-dasharray': '6 4' }),
      h('defs', null, h('pattern', { id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, h('line', { x1: 0, y1: 0, x2: 0, y2: 6, stroke: 'var(--agent)', 'stroke-width': 1.5 }))),
      h('polyline', { points: `0,${high} ${path}`, fill: 'none', stroke: 'var(--agent)', 'stroke-width': 2 }),
      h('text', { x: 4, y: 12 }, words)));
}
