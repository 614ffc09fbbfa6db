// @ts-check
// The pages that are not about one run: You, Runs, Lessons, Protocols, New, System.

import { ago, announce, command, counted, fill, h, lasted, money, short, standing, table } from './dom.js';
import { get, me, post } from './api.js';
import { buttons, send, speaks } from './act.js';

/** @typedef {{node: any, title: string, end?: () => void, hear?: (event: string, data: any) => void, keys?: Record<string, () => void>}} Page */

const KINDS = /** @type {Record<string, string>} */ ({ question: 'A question', word: 'Waits for a word', held: 'Held', interrupted: 'Nobody drives it', blocked: 'Blocked', limit: 'A limit is near' });

/** The inbox. @returns {Promise<Page>} */
export async function you() {
  const [cards, moves, ended] = [h('div'), h('div'), h('div')];
  let needs = /** @type {any[]} */ ([]);
  let runs = /** @type {any[]} */ ([]);
  let before = -1;
  const drawNeeds = () => {
    if (document.querySelector('dialog[open]')) return;
    if (before >= 0 && needs.length > before) announce(`${counted(needs.length - before, 'more thing')} waits for you`);
    before = needs.length;
    fill(cards, needs.length ? h('div.cards', null, needs.map((need) => card(need))) : h('p.card', null, 'Nothing waits for you.'));
  };
  const drawRuns = () => {
    const open = runs.filter((one) => ['running', 'suspended'].includes(one.standing));
    fill(moves, open.length ? runTable('What moves', open) : h('p.quiet', null, 'Nothing moves. ', h('a', { href: '#/new' }, 'Start something')));
    const seen = Number(localStorage.getItem('ftl-seen') ?? 0);
    const over = runs.filter((one) => !['running', 'waiting', 'suspended', 'held', 'interrupted', ''].includes(one.standing)).slice(0, 8);
    fill(ended, over.length > 0 && [h('h2', null, 'What ended'), runTable('What ended', over, seen)]);
  };
  const load = async () => {
    [needs, runs] = await Promise.all([get('needs').then((a) => a.needs), get('runs?limit=20').then((a) => a.runs)]);
    drawNeeds();
    drawRuns();
  };
  await load();
  localStorage.setItem('ftl-seen', String(Date.now()));
  const pick = (/** @type {number} */ at) => () => /** @type {any} */ (cards.querySelectorAll('.need .row button')[at - 1])?.click();
  return {
    node: h('div', null, h('h1', null, 'You'), cards, h('h2', null, 'What moves'), moves, ended),
    title: 'You',
    hear: (event, data) => {
      if (event === 'needs') { needs = data.needs; drawNeeds(); }
      if (event === 'summary') { runs = merged(runs, data); drawRuns(); }
      if (event === 'resync') load().catch(() => {});
    },
    keys: Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((at) => [String(at), pick(at)])),
  };
}

/** @param {any[]} runs @param {any} one */
function merged(runs, one) {
  const at = runs.findIndex((other) => other.run === one.run);
  return at < 0 ? [one, ...runs] : runs.map((other, index) => (index === at ? one : other));
}

/** @param {any} need */
function card(need) {
  const behind = [need.behind.tasks > 0 && `${counted(need.behind.tasks, 'task')} behind it`, need.behind.money_per_minute > 0 && `${money(need.behind.money_per_minute)} a minute`, `since ${ago(need.since)}`].filter(Boolean).join(' · ');
  return h('section.card.need', { class: need.kind, 'aria-label': `${KINDS[need.kind]}: ${need.title}` },
    h('div.row', null, h('strong', null, KINDS[need.kind]), h('span.quiet', null, `in ${need.state}`), need.task && h('span.quiet', null, need.task)),
    h('p.words', null, need.text),
    h('p.quiet', null, h('a', { href: `#/runs/${need.run}/graph` }, need.title || need.run), ` · ${behind}`),
    need.kind === 'interrupted' && speaks()
      ? h('div.row', null, h('button.main', { type: 'button', 'data-key': need.id, onclick: () => send(need.run, { order: 'drive' }), title: `ftl resume ${need.run}` }, 'Go on'), command(`ftl resume ${need.run}`))
      : buttons(need.run, need.actions, need.id));
}

/** @param {string} caption @param {any[]} runs @param {number} [seen] */
function runTable(caption, runs, seen) {
  const spent = (/** @type {any} */ one) => {
    const tokens = one.meters.tokens?.used ? `${short(one.meters.tokens.used)} tokens` : '';
    const paid = one.meters.money?.used ? money(one.meters.money.used) : '';
    return [tokens, paid].filter(Boolean).join(' · ');
  };
  return table(caption, ['run', 'stands', 'where', 'changed', 'spent', ''], runs.map((one) => [
    h('a', { href: `#/runs/${one.run}/graph`, 'data-key': `run-${one.run}` }, one.title || one.run), standing(one.standing), `${one.protocol} ${one.state}`,
    ago(Date.parse(one.changed)), spent(one), seen !== undefined && Date.parse(one.changed) > seen ? h('span.good', null, 'new') : one.reason ?? '']));
}

/** @returns {Promise<Page>} */
export async function runs() {
  let all = (await get('runs?limit=200')).runs;
  const list = h('div');
  const find = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter runs', id: 'filter' });
  const which = h('select', { 'aria-label': 'Which runs' }, ['all', 'open', 'ended', 'needs somebody'].map((name) => h('option', null, name)));
  const chosen = new Set();
  const isOpen = (/** @type {any} */ one) => ['running', 'waiting', 'suspended', 'held', 'interrupted'].includes(one.standing);
  const draw = () => {
    const words = find.value.toLowerCase();
    const fits = (/** @type {any} */ one) => (which.value === 'all' || (which.value === 'open' && isOpen(one)) || (which.value === 'ended' && !isOpen(one)) || (which.value === 'needs somebody' && ['waiting', 'held', 'interrupted'].includes(one.standing)))
      && `${one.run} ${one.title} ${one.protocol} ${one.state} ${one.standing}`.toLowerCase().includes(words);
    const shown = all.filter(fits).sort((/** @type {any} */ a, /** @type {any} */ b) => Number(isOpen(b)) - Number(isOpen(a)));
    const mark = (/** @type {any} */ one) => h('input', { type: 'checkbox', 'aria-label': `Choose ${one.title || one.run}`, checked: chosen.has(one.run), disabled: !isOpen(one), 'data-key': `mark-${one.run}`, onchange: (/** @type {any} */ event) => { if (event.target.checked) chosen.add(one.run); else chosen.delete(one.run); draw(); } });
    fill(list, h('p.quiet', null, counted(shown.length, 'run')), table('Runs', ['', 'run', 'stands', 'where', 'changed', 'spent'], shown.map((/** @type {any} */ one) => [mark(one), h('a', { href: `#/runs/${one.run}/graph`, 'data-key': `run-${one.run}` }, one.title || one.run), standing(one.standing), `${one.protocol} ${one.state}`, ago(Date.parse(one.changed)), one.meters.money?.used ? money(one.meters.money.used) : one.meters.tokens?.used ? `${short(one.meters.tokens.used)} tokens` : ''])));
    fill(several, chosen.size > 0 && speaks() && [h('span', null, counted(chosen.size, 'run')), h('button', { type: 'button', onclick: resume, 'data-key': 'resume' }, 'Resume them'), command(`ftl resume ${[...chosen].join(' ')}`)]);
  };
  const resume = async () => { for (const run of chosen) await send(run, { order: 'drive' }); chosen.clear(); draw(); };
  const several = h('div.row');
  find.addEventListener('input', draw);
  which.addEventListener('change', draw);
  draw();
  return {
    node: h('div', null, h('h1', null, 'Runs'), h('div.row', null, find, which, command('ftl status --all')), several, list), title: 'Runs',
    hear: (event, data) => { if (event === 'summary') { all = merged(all, data); draw(); } },
  };
}

/** @returns {Promise<Page>} */
export async function lessons() {
  const found = h('div');
  const find = h('input.grow', { type: 'search', placeholder: 'An error, or what you are about to do', 'aria-label': 'Search lessons', id: 'filter' });
  const show = async () => {
    const words = find.value.trim();
    try {
      const answer = await get(words ? `lessons?q=${encodeURIComponent(words)}` : 'lessons');
      fill(found, document_(answer));
    } catch (error) {
      fill(found, h('p.quiet', null, /** @type {any} */ (error).message));
    }
  };
  await show();
  return {
    node: h('div', null, h('h1', null, 'Lessons'), h('p.quiet', null, 'What earlier work has taught: the same recall that agents get.'),
      h('form.row', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); show(); } }, find, h('button.main', { type: 'submit' }, 'Search'), command('ftl query "…"')), found),
    title: 'Lessons',
  };
}

/** Any document as lists and tables. @param {any} value @param {number} [depth] @returns {any} */
function document_(value, depth = 0) {
  if (value === null || typeof value !== 'object') return h('span', null, value === null ? '–' : value === true ? 'yes' : value === false ? 'no' : String(value));
  if (Array.isArray(value)) {
    if (!value.length) return h('span.quiet', null, 'none');
    const names = [...new Set(value.flatMap((one) => (one && typeof one === 'object' && !Array.isArray(one) ? Object.keys(one) : [])))];
    if (names.length && names.length <= 9) return table(names.join(', '), names, value.map((one) => names.map((name) => document_(one?.[name] ?? null, depth + 1))));
    return h('ul', null, value.map((one) => h('li', null, document_(one, depth + 1))));
  }
  return h('dl.facts', null, Object.entries(value).map(([name, one]) => [h('dt', null, name.replaceAll('_', ' ')), h('dd', null, document_(one, depth + 1))]));
}

/** @param {string} name @returns {Promise<Page>} */
export async function protocols(name) {
  if (!name) {
    const answer = await get('protocols');
    const all = answer.protocols ?? answer;
    const rows = (Array.isArray(all) ? all : []).map((/** @type {any} */ one) => [h('a', { href: `#/protocols/${encodeURIComponent(one.name)}` }, one.name), one.origin ?? '', Array.isArray(one.states) ? one.states.length : one.states ?? '', one.about ?? one.summary ?? '']);
    return { node: h('div', null, h('h1', null, 'Protocols'), h('p.quiet', null, 'Documents that execute; each picture is proven to be its program.'), table('Protocols', ['name', 'from', 'states', ''], rows), h('p', null, command('ftl check'))), title: 'Protocols' };
  }
  const one = await get(`protocols/${encodeURIComponent(name)}`);
  const most = Math.max(1, ...one.edges.map((/** @type {any} */ edge) => edge.count));
  const heat = (/** @type {number} */ count) => h('div.meter', { style: { width: '120px' }, role: 'img', 'aria-label': `${count}` }, h('i', { style: { width: `${(100 * count) / most}%`, background: 'var(--person)' } }));
  const edges = [...one.edges].sort((/** @type {any} */ a, /** @type {any} */ b) => b.count - a.count);
  const states = [...one.states].sort((/** @type {any} */ a, /** @type {any} */ b) => b.time - a.time);
  return {
    node: h('div', null, h('p', null, h('a', { href: '#/protocols' }, '← all protocols')), h('h1', null, name), h('div.row', null, command(`ftl draw ${name}`), command(`ftl check ${name}`)),
      h('div.stage', { tabindex: 0, role: 'region', 'aria-label': `Picture of ${name}` }, h('img.picture', { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(one.svg)}`, alt: `States and edges of ${name}; the tables below say the same` })),
      h('h2', null, `Heat over the last ${counted(one.runs, 'run')}`),
      one.edges.length ? table('Edges by how often they were taken', ['from', 'to', ['taken', 'num'], '', ['by a failure', 'num'], 'last runs'], edges.map((/** @type {any} */ edge) => [edge.from, edge.to, edge.count, heat(edge.count), edge.failures || '', edge.runs.map((/** @type {string} */ run) => [h('a', { href: `#/runs/${run}/graph` }, run), ' '])])) : h('p.quiet', null, 'No run has gone through it yet.'),
      states.length > 0 && [h('h2', null, 'Where time went'), table('States by time', ['state', ['visits', 'num'], ['time', 'num']], states.map((/** @type {any} */ state) => [state.state, state.visits, lasted(state.time)]))]),
    title: name,
  };
}

/** @param {(hash: string) => void} go @returns {Promise<Page>} */
export async function fresh(go) {
  const field = (/** @type {string} */ id, /** @type {string} */ label, /** @type {any} */ input) => [h('label', { for: id }, label), input];
  const objective = h('textarea', { id: 'objective', required: true });
  const flow = h('select', { id: 'flow' }, [['campaign', 'campaign: many tasks in a graph'], ['task', 'task: one piece of work'], ['code', 'code: a story with reviews']].map(([name, words]) => h('option', { value: name }, words)));
  const limits = /** @type {Record<string, any>} */ ({ agent: h('input', { id: 'agent' }), model: h('input', { id: 'model' }), max_cost: h('input', { id: 'max_cost', placeholder: '2.50' }), max_tokens: h('input', { id: 'max_tokens', placeholder: '500k' }) });
  const land = h('select', { id: 'land' }, ['', 'ask', 'ff', 'squash', 'branch-only'].map((name) => h('option', { value: name }, name || 'as the settings say')));
  const words = h('div');
  const fault = h('p.bad', { role: 'alert' });
  const body = (/** @type {boolean} */ dry) => ({ flow: flow.value, objective: objective.value, land: land.value, dry_run: dry, ...Object.fromEntries(Object.entries(limits).map(([name, input]) => [name, input.value])) });
  const draw = () => {
    const flags = [...Object.entries(limits).filter(([, input]) => input.value).map(([name, input]) => `--${name.replace('_', '-')} ${input.value}`), land.value && `--land ${land.value}`].filter(Boolean).join(' ');
    fill(words, command(`ftl ${flow.value === 'code' ? 'code' : `${flow.value} run`} ${JSON.stringify(objective.value || '…')} ${flags}`.trim()));
  };
  const start = async (/** @type {boolean} */ dry) => {
    fault.textContent = '';
    announce('Starting');
    try {
      const { run } = await post('runs', body(dry));
      go(`#/runs/${run}/graph`);
    } catch (error) {
      const { message, hint } = /** @type {any} */ (error);
      fault.textContent = `${message} — ${hint}`;
    }
  };
  const form = h('form.card', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); start(false); }, oninput: draw },
    field('objective', 'What is to be reached', objective), field('flow', 'How', flow), field('land', 'How it lands', land),
    h('details', null, h('summary', null, 'Agents and limits'), field('agent', 'Agent', limits.agent), field('model', 'Model', limits.model), field('max_cost', 'Most money', limits.max_cost), field('max_tokens', 'Most tokens', limits.max_tokens)),
    fault, h('p.row', null, h('button.main', { type: 'submit', disabled: !speaks() }, 'Start'), h('button', { type: 'button', disabled: !speaks(), onclick: () => start(true) }, 'Plan only, and show the graph')), words);
  draw();
  return { node: h('div', null, h('h1', null, 'New'), form), title: 'New' };
}

/** @returns {Promise<Page>} */
export async function system() {
  const part = async (/** @type {string} */ path, /** @type {string} */ title, /** @type {string} */ words) => {
    const box = h('div', null, h('p.quiet', null, 'Looking…'));
    get(path).then((answer) => fill(box, document_(answer)), (error) => fill(box, h('p.bad', null, error.message)));
    return h('section', null, h('h2', null, title), command(words), box);
  };
  return {
    node: h('div', null, h('h1', null, 'System'), h('dl.facts', null, h('dt', null, 'repository'), h('dd', null, me.repo), h('dt', null, 'version'), h('dd', null, me.version), h('dt', null, 'you'), h('dd', null, me.by)),
      await part('doctor', 'Whether one can work here', 'ftl doctor'), await part('agents', 'Agents, and what each enforces', 'ftl agents'), await part('salvage', 'Work that is kept', 'ftl salvage'), await part('config', 'Settings and where each comes from', 'ftl config')),
    title: 'System',
  };
}


