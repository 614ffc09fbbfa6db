// @ts-check
// The page itself: where one is, the keys, the badge, the colours.

import { command, fill, h } from './dom.js';
import { checkChain, follow, get, isFile, me, open, post, readFrom } from './api.js';
import { runs, you } from './pages.js';

const main = /** @type {HTMLElement} */ (document.getElementById('main'));
const top_ = /** @type {HTMLElement} */ (document.getElementById('top'));
const PLACES = /** @type {[string, string, string][]} */ ([['', 'You', 'y'], ['runs', 'Runs', 'r'], ['lessons', 'Lessons', 'l'], ['protocols', 'Protocols', 'p'], ['new', 'New', 'n'], ['system', 'System', 's']]);

/** The keys of the page, as the one table of `ftl-view` has them: a test compares them. */
const KEYS = /** @type {[string, string][]} */ ([['g y', 'You'], ['g r', 'Runs'], ['g l', 'Lessons'], ['g p', 'Protocols'], ['g n', 'New'], ['g s', 'System'], ['j k', 'next, previous; ↑ ↓ too'], ['Enter', 'open'], ['Esc', 'back'], ['/', 'filter; on Lessons what is looked for'], ['Ctrl K', 'go anywhere'], ['1 … 9', 'one of the choices of what is asked; in the terminal behind a'], ['[ ]', 'one entry back, on: the whole run as it stood then'], ['Space', 'play the journal'], ['z', 'fold the waves of a graph, and unfold them'], ['n p', 'next, previous: a change of a diff, a task of a large graph'], ['+ - 0', 'nearer, farther, all of a large graph'], ['?', 'these keys']]);

/** @type {any} */
let page = null;
let needs = 0;
let turn = 0;

const go = (/** @type {string} */ hash) => { location.hash = hash; };

function drawTop() {
  const [, first] = location.hash.split(/[/?]/);
  const links = PLACES.map(([path, name, key]) => h('a', { href: `#/${path}`, 'aria-current': (first ?? '') === path ? 'page' : false, title: `g ${key}`, 'data-key': `nav-${path}` }, name,
    path === '' && needs > 0 && h('span.badge', { 'aria-label': `${needs} wait for you` }, needs)));
  fill(top_, h('a.brand', { href: '#/' }, !isFile() && h('img', { src: 'icon.svg', alt: '' }), 'ftl'), !isFile() && h('nav', { 'aria-label': 'Pages' }, links),
    h('div.end', null, h('button.plain', { type: 'button', onclick: theme, 'data-key': 'theme' }, 'Light or dark'), h('button.plain', { type: 'button', onclick: help, 'aria-label': 'Keys', 'data-key': 'help' }, '?')));
  document.title = `${needs ? `(${needs}) ` : ''}${page?.title ?? 'ftl'} · ftl`;
}

function theme(/** @type {any} */ event) {
  const stored = () => { try { return localStorage.getItem('ftl-theme'); } catch { return null; } };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  let now = stored() ?? (dark ? 'dark' : 'light');
  if (event) {
    now = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('ftl-theme', now); } catch { /* a file may not keep it */ }
  }
  document.documentElement.dataset.theme = now;
}

function help() {
  const dialog = h('dialog', { 'aria-labelledby': 'keys-title', onclose: () => dialog.remove() }, h('h2', { id: 'keys-title' }, 'Keys'),
    h('dl.facts', null, KEYS.map(([key, what]) => [h('dt', null, key.split(' ').map((one) => [h('kbd', null, one), ' '])), h('dd', null, what)])),
    h('form', { method: 'dialog', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); dialog.close(); } }, h('button.main', { type: 'submit' }, 'Close')));
  document.body.append(dialog);
  dialog.showModal();
}

/** Everywhere one can go, by a few letters. */
async function palette() {
  const all = PLACES.map(([path, name]) => ({ name, hash: `#/${path}`, words: '' }));
  const list = isFile() ? [] : (await get('runs?limit=50').catch(() => ({ runs: [] }))).runs;
  for (const one of list) all.push({ name: one.title || one.run, hash: `#/runs/${one.run}/graph`, words: `ftl why ${one.run}` });
  const found = h('div');
  const find = h('input', { 'aria-label': 'Go to', placeholder: 'Go to…', autocomplete: 'off', style: { width: '100%' } });
  const draw = () => fill(found, all.filter((one) => `${one.name} ${one.hash}`.toLowerCase().includes(find.value.toLowerCase())).slice(0, 9).map((one) => h('p.row', null, h('a', { href: one.hash, onclick: () => dialog.close() }, one.name), one.words && command(one.words))));
  const dialog = h('dialog', { 'aria-label': 'Go to', onclose: () => dialog.remove() }, find, found);
  find.addEventListener('input', draw);
  find.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter') found.querySelector('a')?.click(); });
  draw();
  document.body.append(dialog);
  dialog.showModal();
}

async function show() {
  const mine = ++turn;
  const [path, text] = location.hash.replace(/^#\/?/, '').split('?');
  const query = new URLSearchParams(text ?? '');
  const [first, run, tab, seq] = path.split('/').map(decodeURIComponent);
  page?.end?.();
  page = null;
  try {
    let next;
    if (first === 'runs' && run && tab === 'tasks' && seq) {
      const { taskPage } = await import('./task.js');
      next = await taskPage(run, seq, query);
    } else if (first === 'runs' && run && tab === 'changes' && query.get('task')) {
      const { changes } = await import('./diff.js');
      const body = h('div');
      const { keys } = await changes(run, query.get('task'), body);
      next = { keys, node: h('div', null, h('p', null, h('a', { href: `#/runs/${run}/tasks/${query.get('task')}` }, '← the task')), h('h1', null, `Changes of ${query.get('task')}`), body), title: 'Changes' };
    } else if (first === 'runs' && run) {
      const { runPage } = await import('./run.js');
      next = await runPage(run, tab || 'graph', query, go);
    } else if (first === 'runs') next = await runs();
    else if (first === 'lessons' || first === 'protocols' || first === 'new' || first === 'system') {
      const { fresh, lessons, protocols, system } = await import('./more.js');
      next = await (first === 'lessons' ? lessons(run ?? '') : first === 'protocols' ? protocols(run ?? '') : first === 'new' ? fresh(go) : system());
    } else next = await you();
    if (mine !== turn) { next.end?.(); return; }
    page = next;
    main.replaceChildren(page.node);
    main.dataset.ready = location.hash || '#/';
  } catch (error) {
    if (mine !== turn) return;
    const { message, hint, status } = /** @type {any} */ (error);
    main.replaceChildren(h('div.card', null, h('h1', null, status === 401 ? 'No session' : 'That cannot be shown'), h('p', null, message), hint && h('p.quiet', null, hint)));
  }
  drawTop();
}

let began = '';
document.addEventListener('keydown', (event) => {
  const at = /** @type {HTMLElement} */ (event.target);
  if ((event.ctrlKey || event.metaKey) && event.key === 'k') { event.preventDefault(); palette(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName)) { if (event.key === 'Escape') at.blur(); return; }
  const place = began === 'g' && PLACES.find(([, , key]) => key === event.key);
  began = event.key;
  if (place) { began = ''; go(`#/${place[0]}`); return; }
  if (event.key === ' ' && at.tagName === 'BUTTON') return;
  if (page?.keys?.[event.key]) { event.preventDefault(); page.keys[event.key](); return; }
  if (event.key === '?') help();
  else if (event.key === 'Escape') history.back();
  else if (event.key === '/') { event.preventDefault(); /** @type {any} */ (main.querySelector('input[type=search]'))?.focus(); } else if (event.key === 'j' || event.key === 'k') {
    const all = /** @type {HTMLElement[]} */ ([...main.querySelectorAll('tbody a[href], section.need button.main')]);
    const now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    all[Math.max(0, Math.min(all.length - 1, now + (event.key === 'j' ? 1 : -1)))]?.focus();
  }
});

async function begin() {
  theme(null);
  const inside = document.getElementById('ftl-file');
  if (inside) readFrom(JSON.parse(inside.textContent ?? '{}'));
  try {
    await open();
  } catch (error) {
    const { message, hint } = /** @type {any} */ (error);
    main.replaceChildren(h('div.card', null, h('h1', null, 'No session'), h('p', null, message), h('p.quiet', null, hint ?? '')));
    return;
  }
  if (isFile()) { if (!location.hash) history.replaceState(null, '', `#/runs/${JSON.parse(inside?.textContent ?? '{}').run}/graph`); } else {
    needs = (await get('needs')).needs.length;
    follow(null, (event, data) => {
      if (event === 'needs') { needs = data.needs.length; drawTop(); }
      page?.hear?.(event, data);
    });
  }
  const chain = document.getElementById('chain');
  if (chain) checkChain().then((text) => { chain.textContent = text; chain.className = text.startsWith('✓') ? 'good' : 'bad'; });
  if (!isFile() && me.may.includes('speak')) {
    // Whoever looks is told here, and by no message.
    const look = () => { if (document.hasFocus()) post('looks', {}).catch(() => {}); };
    window.setInterval(look, 45000);
    window.addEventListener('focus', look);
    look();
  }
  window.addEventListener('hashchange', show);
  await show();
}

begin();

