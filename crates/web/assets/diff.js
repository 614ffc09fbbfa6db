// @ts-check
// What changed: landed, kept, at work; as hunks, beside each other or one below the other, with what gates found at its lines.

import { announce, command, counted, fill, h, toast } from './dom.js';
import { get, post } from './api.js';
import { ask, speaks } from './act.js';

/** How many lines of a file are drawn at once; the rest follows when it is scrolled to. */
const PIECE = 400;

/** @param {string} name @param {string} otherwise */
const stored = (name, otherwise) => { try { return localStorage.getItem(name) ?? otherwise; } catch { return otherwise; } };
/** @param {string} name @param {string} value */
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a file may not keep it */ } };

/** What changed. @param {string} run @param {string|null} task @param {HTMLElement} body
 * @returns {Promise<{keys: Record<string, () => void>}>} */
export async function changes(run, task, body) {
  const seq = task ?? new URLSearchParams(location.hash.split('?')[1] ?? '').get('task');
  let answer = await get(`runs/${run}/changes${seq ? `?task=${encodeURIComponent(seq)}` : ''}`);
  const look = { split: stored('ftl-diff', 'unified') === 'split' && innerWidth > 900, space: true };
  const load = async () => { answer = await get(`runs/${run}/changes${seq ? `?task=${encodeURIComponent(seq)}` : ''}`); draw(); };
  const tell = async (/** @type {() => Promise<string>} */ work) => {
    try { toast(await work()); await load(); } catch (error) { toast([/** @type {any} */ (error).message, /** @type {any} */ (error).hint].filter(Boolean).join(' — ')); }
  };
  const undo = async () => {
    const said = await ask('Undo the delivery', { needs_reason: true, command: `ftl undo ${run}` });
    if (said) await tell(async () => { const done = await post(`runs/${run}/undo`, { reason: said.reason, name: said.name }); return `${done.branch} is at ${String(done.commit).slice(0, 8)} again`; });
  };
  const salvage = (/** @type {any} */ part) => tell(async () => { const done = await post('salvage', { id: part.id ?? part.kept }); return `It is on the branch ${done.branch}`; });
  const land = async () => {
    const said = await ask('Land it', { needs_reason: true, command: `git merge ftl/${run}` });
    if (said) await tell(async () => (await post(`runs/${run}/land`, { reason: said.reason, name: said.name })).summary);
  };
  const what = /** @type {Record<string, string>} */ ({ landed: 'Landed', at_work: 'At work, as it stands in its worktree', kept: 'Not landed, kept' });
  const draw = () => {
    const has = (/** @type {string} */ word) => answer.parts.some((/** @type {any} */ part) => part.what === word);
    const files = answer.parts.flatMap((/** @type {any} */ part) => part.files);
    const found = files.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + (file.findings?.length ?? 0), 0);
    fill(body,
      h('div.row', null,
        h('span', null, counted(files.length, 'file')), found > 0 && h('span.warn', null, counted(found, 'finding')),
        h('button', { type: 'button', 'aria-pressed': String(look.split), 'data-key': 'split', onclick: () => { look.split = !look.split; keep('ftl-diff', look.split ? 'split' : 'unified'); draw(); } }, 'Side by side'),
        h('button', { type: 'button', 'aria-pressed': String(!look.space), 'data-key': 'space', onclick: () => { look.space = !look.space; draw(); } }, 'Hide white space'),
        h('span.quiet.hide-narrow', null, h('kbd', null, 'n'), ' ', h('kbd', null, 'p'), ' next, previous change'),
        command(`ftl diff ${run}${seq ? `/${seq}` : ''}`),
        speaks() && answer.can_land && h('button.main', { type: 'button', onclick: land, title: answer.can_land, 'data-key': 'land' }, 'Land it…'),
        speaks() && has('landed') && answer.can_undo !== false && h('button', { type: 'button', onclick: undo, title: `ftl undo ${run}`, 'data-key': 'undo' }, 'Undo the delivery…')),
      answer.parts.length === 0 && h('p.quiet', null, 'Nothing has landed, and nothing is kept.'),
      answer.parts.map((/** @type {any} */ part) => h('section', null,
        h('h2', null, `${part.task ? `${part.task} · ` : ''}${what[part.what] ?? part.what}`), part.why && h('p.warn', null, part.why),
        part.what === 'kept' && part.id && h('div.row', null, speaks() && h('button', { type: 'button', title: `ftl salvage ${part.id}`, 'data-key': `salvage-${part.id}`, onclick: () => salvage(part) }, 'Bring it back on a branch'), command(`ftl salvage ${part.id}`)),
        group(part.files.filter((/** @type {any} */ file) => !file.is_test), look),
        part.files.some((/** @type {any} */ file) => file.is_test) && [h('h3', null, 'Tests that were touched'), group(part.files.filter((/** @type {any} */ file) => file.is_test), look)])));
  };
  draw();
  const step = (/** @type {number} */ by) => () => {
    const all = /** @type {HTMLElement[]} */ ([...body.querySelectorAll('tr.hunk')]);
    const top = 130;
    const next = by > 0 ? all.find((one) => one.getBoundingClientRect().top > top + 4) : all.findLast((one) => one.getBoundingClientRect().top < top - 4);
    if (next) { window.scrollBy(0, next.getBoundingClientRect().top - top); announce(next.innerText); }
  };
  return { keys: { n: step(1), p: step(-1) } };
}

/** @param {any[]} files @param {{split: boolean, space: boolean}} look */
function group(files, look) {
  return files.map((file, at) => {
    const isLock = /(^|\/)(Cargo\.lock|package-lock\.json|yarn\.lock|poetry\.lock|.*\.min\.js)$/.test(file.path);
    const sums = file.added === null ? 'no text' : `+${file.added} −${file.removed}`;
    const found = file.findings ?? [];
    const box = h('details', { open: at < 12 && !isLock }, h('summary', null, h('strong.mono', null, file.was ? `${file.was} → ${file.path}` : file.path), h('span.quiet', null, ` ${sums}`), found.length > 0 && h('span.warn', null, ` ${counted(found.length, 'finding')}`)));
    const draw = () => {
      if (!box.open || box.childElementCount > 1) return;
      for (const one of found.filter((/** @type {any} */ each) => !placed(file, each))) box.append(h('p.finding', null, finding(one)));
      if (file.hunks.length) box.append(hunks(file, look));
      if (file.cut) box.append(h('p.quiet', null, 'It is longer; the command above shows all of it.'));
    };
    box.addEventListener('toggle', draw);
    draw();
    return box;
  });
}

/** Whether a finding stands at a line that is shown. @param {any} file @param {any} one */
const placed = (file, one) => one.line && file.hunks.some((/** @type {any} */ hunk) => one.line >= hunk.new && one.line < hunk.new + hunk.lines.filter((/** @type {any} */ line) => line[0] !== '-').length);

/** @param {any} one */
const finding = (one) => [h('strong', null, one.kind.replaceAll('_', ' ')), ` ${one.text} `, h('span.quiet', null, `entry ${one.entry}${one.allowed ? `, allowed by ${one.allowed}` : ''}`)];

/** The lines of a file, drawn piece by piece. @param {any} file @param {{split: boolean, space: boolean}} look */
function hunks(file, look) {
  const wide = look.split ? 4 : 3;
  const rows = /** @type {(() => any)[]} */ ([]);
  const hide = (/** @type {any[][]} */ lines) => (look.space ? lines : withoutSpace(lines));
  for (const hunk of file.hunks) {
    let [old, now] = [hunk.old, hunk.new];
    const start = now;
    rows.push(() => h('tr.hunk', null, h('td', { colspan: wide }, `line ${start}`)));
    const at = (/** @type {number} */ line) => (file.findings ?? []).filter((/** @type {any} */ one) => one.line === line).map((/** @type {any} */ one) => h('tr.found', null, h('td', { colspan: wide }, finding(one))));
    const lines = hide(hunk.lines.filter((/** @type {any[]} */ line) => line[0] !== '\\'));
    if (!look.split) {
      for (const [kind, text] of lines) {
        const [left, right] = [kind === '+' ? '' : old, kind === '-' ? '' : now];
        if (kind !== '+') old += 1;
        if (kind !== '-') now += 1;
        rows.push(() => [h(kind === '+' ? 'tr.add' : kind === '-' ? 'tr.del' : 'tr', null, h('td.no', null, left), h('td.no', null, right), h('td', null, `${kind} ${text}`)), right === '' ? null : at(right)]);
      }
      continue;
    }
    for (let index = 0; index < lines.length;) {
      const gone = /** @type {any[]} */ ([]); const come = /** @type {any[]} */ ([]);
      while (lines[index]?.[0] === '-') gone.push(lines[index++][1]);
      while (lines[index]?.[0] === '+') come.push(lines[index++][1]);
      if (!gone.length && !come.length) { const [left, right, text] = [old++, now++, lines[index++][1]]; rows.push(() => [h('tr', null, h('td.no', null, left), h('td', null, text), h('td.no', null, right), h('td', null, text)), at(right)]); continue; }
      for (let row = 0; row < Math.max(gone.length, come.length); row += 1) {
        const [left, right] = [row < gone.length ? old++ : '', row < come.length ? now++ : ''];
        rows.push(() => [h('tr', null, h('td.no', null, left), h(left === '' ? 'td.none' : 'td.gone', null, gone[row] ?? ''), h('td.no', null, right), h(right === '' ? 'td.none' : 'td.come', null, come[row] ?? '')), right === '' ? null : at(/** @type {number} */ (right))]);
      }
    }
  }
  const list = h('tbody');
  let drawn = 0;
  const more = () => { for (const row of rows.slice(drawn, drawn + PIECE)) for (const one of [row()].flat(2)) if (one) list.append(one); drawn += PIECE; };
  more();
  const box = h('div.diff', { class: look.split ? 'split-view' : '', tabindex: 0, role: 'region', 'aria-label': `Changes of ${file.path}` }, h('table', null, h('caption.unseen', null, `Changes of ${file.path}: + is new, − is gone`), look.split && h('colgroup', null, h('col.no'), h('col'), h('col.no'), h('col')), list));
  if (drawn < rows.length) {
    const end = h('button.plain', { type: 'button', onclick: () => more() }, `${counted(rows.length - drawn, 'more line')}`);
    box.append(end);
    new IntersectionObserver((all) => { if (all.some((one) => one.isIntersecting) && drawn < rows.length) { more(); if (drawn >= rows.length) end.remove(); } }).observe(end);
  }
  return box;
}

/** Lines that differ in white space alone become lines that do not differ. @param {any[][]} lines */
function withoutSpace(lines) {
  const bare = (/** @type {string} */ text) => text.replace(/\s+/g, '');
  const out = [];
  for (let at = 0; at < lines.length;) {
    const gone = /** @type {any[]} */ ([]); const come = /** @type {any[]} */ ([]);
    while (lines[at]?.[0] === '-') gone.push(lines[at++]);
    while (lines[at]?.[0] === '+') come.push(lines[at++]);
    const isSame = gone.length && gone.length === come.length && gone.every((one, index) => bare(one[1]) === bare(come[index][1]));
    out.push(...(isSame ? come.map((one) => [' ', one[1]]) : [...gone, ...come]));
    if (!gone.length && !come.length) out.push(lines[at++]);
  }
  return out;
}
