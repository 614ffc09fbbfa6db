// @ts-check
// The two pages that one comes to first: You and Runs.

import { ago, announce, command, counted, fill, h, money, short, standing, table } from './dom.js';
import { get } from './api.js';
import { ask, buttons, send, speaks } from './act.js';

/** @typedef {{node: any, title: string, end?: () => void, hear?: (event: string, data: any) => void, keys?: Record<string, () => void>}} Page */

const KINDS = /** @type {Record<string, string>} */ ({ question: 'A question', word: 'Waits for a word', held: 'Held', interrupted: 'Nobody drives it', blocked: 'Blocked, and kept', landing: 'Not landed', limit: 'A limit is near' });

/** The inbox. @returns {Promise<Page>} */
export async function you() {
  const [cards, moves, ended] = [h('div'), h('div'), h('div')];
  let needs = /** @type {any[]} */ ([]);
  let runs = /** @type {any[]} */ ([]);
  let before = -1;
  let later = 0;
  const drawNeeds = () => {
    // Nothing moves under somebody who is about to answer; it is drawn when they are done.
    if (document.querySelector('dialog[open]')) { clearTimeout(later); later = window.setTimeout(drawNeeds, 500); return; }
    if (before >= 0 && needs.length > before) announce(`${counted(needs.length - before, 'more thing')} waits for you`);
    before = needs.length;
    fill(cards, needs.length ? h('div.cards', null, needs.map((need) => card(need))) : h('p.card', null, h('span.good', null, '✓ '), 'Nothing waits for you.'));
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
    title: 'You', end: () => clearTimeout(later),
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
    h('p.words', null, need.text.split('\n').map((/** @type {string} */ line, /** @type {number} */ at) => [at > 0 && h('br'), at > 0 ? h('span.small', null, line) : line])),
    need.kind === 'blocked' && h('p', null, h('a', { href: `#/runs/${need.run}/changes` }, 'What was kept')),
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
  const kinds = [...new Set(all.map((/** @type {any} */ one) => one.protocol))].sort();
  const kind = h('select', { 'aria-label': 'Which protocol' }, ['every protocol', ...kinds].map((name) => h('option', null, name)));
  const chosen = new Set();
  const isOpen = (/** @type {any} */ one) => ['running', 'waiting', 'suspended', 'held', 'interrupted'].includes(one.standing);
  const draw = () => {
    const words = find.value.toLowerCase();
    const fits = (/** @type {any} */ one) => (which.value === 'all' || (which.value === 'open' && isOpen(one)) || (which.value === 'ended' && !isOpen(one)) || (which.value === 'needs somebody' && ['waiting', 'held', 'interrupted'].includes(one.standing)))
      && (kind.selectedIndex === 0 || one.protocol === kind.value) && `${one.run} ${one.title} ${one.protocol} ${one.state} ${one.standing}`.toLowerCase().includes(words);
    const shown = all.filter(fits).sort((/** @type {any} */ a, /** @type {any} */ b) => Number(isOpen(b)) - Number(isOpen(a)));
    const mark = (/** @type {any} */ one) => h('input', { type: 'checkbox', 'aria-label': `Choose ${one.title || one.run}`, checked: chosen.has(one.run), disabled: !isOpen(one), 'data-key': `mark-${one.run}`, onchange: (/** @type {any} */ event) => { if (event.target.checked) chosen.add(one.run); else chosen.delete(one.run); draw(); } });
    fill(list, h('p.quiet', null, counted(shown.length, 'run')), table('Runs', ['', 'run', 'stands', 'where', 'changed', 'spent'], shown.map((/** @type {any} */ one) => [mark(one), h('a', { href: `#/runs/${one.run}/graph`, 'data-key': `run-${one.run}` }, one.title || one.run), standing(one.standing), `${one.protocol} ${one.state}`, ago(Date.parse(one.changed)), one.meters.money?.used ? money(one.meters.money.used) : one.meters.tokens?.used ? `${short(one.meters.tokens.used)} tokens` : ''])));
    fill(several, chosen.size > 0 && speaks() && [h('span', null, counted(chosen.size, 'run')), h('button', { type: 'button', onclick: resume, 'data-key': 'resume', title: [...chosen].map((run) => `ftl resume ${run}`).join('\n') }, 'Resume them'), h('button', { type: 'button', onclick: stop, 'data-key': 'stop', title: [...chosen].map((run) => `ftl stop ${run}`).join('\n') }, 'Stop them…'), command([...chosen].map((run) => `ftl resume ${run}`).join('; '))]);
  };
  const resume = async () => { for (const run of chosen) await send(run, { order: 'drive' }); chosen.clear(); draw(); };
  const stop = async () => {
    const said = await ask(`Stop ${counted(chosen.size, 'run')}`, { needs_reason: true, command: [...chosen].map((run) => `ftl stop ${run}`).join('; ') });
    if (!said) return;
    for (const run of chosen) await send(run, { order: 'stop', instance: 0, reason: said.reason }, said.name);
    chosen.clear();
    draw();
  };
  const several = h('div.row');
  find.addEventListener('input', draw);
  which.addEventListener('change', draw);
  kind.addEventListener('change', draw);
  draw();
  return {
    node: h('div', null, h('h1', null, 'Runs'), h('div.row', null, find, which, kind, command('ftl status --all')), several, list), title: 'Runs',
    hear: (event, data) => { if (event === 'summary') { all = merged(all, data); draw(); } },
  };
}
