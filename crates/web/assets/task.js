// @ts-check
// One task with everything that happened to it, and what changed.

import { STAGES, clock, command, fill, h, money, short, table, toast } from './dom.js';
import { follow, get, isFile, post } from './api.js';
import { ask, speaks } from './act.js';

/** @param {string} run @param {string} seq @param {URLSearchParams} query */
export async function taskPage(run, seq, query) {
  const at = query.get('at');
  const behind = at ? `?at=${at}` : '';
  const node = h('div');
  const talks = h('div');
  const draw = async () => {
    const one = await get(`runs/${run}/tasks/${encodeURIComponent(seq)}${behind}`);
    const [sign, words, kind] = STAGES[one.row[3]] ?? ['·', one.row[3], ''];
    const brief = one.brief ?? {};
    const protocol = one.instances[0]?.protocol;
    fill(node,
      h('p', null, h('a', { href: `#/runs/${run}/tasks${behind}` }, '← all tasks')),
      h('h1', null, `${seq} ${one.row[1]}`),
      h('div.row', null, h('span.pill', { class: kind }, `${sign} ${words}`), one.row[4] && h('span.quiet', null, `in ${one.row[4]}`), one.row[6] && h('span.quiet', null, `${one.row[6][0]} of ${one.row[6][1]} tools`),
        one.bought && h('span.quiet', null, `${short(one.bought.tokens)} tokens, ${money(one.bought.money)}${one.bought.unknown ? '?' : ''}`), command(`ftl why ${run}/${seq}`)),
      one.row[8] && h('p', null, one.row[8]),
      h('h2', null, 'Brief'), h('div.card', null, h('dl.facts', null, Object.entries(brief).filter(([, value]) => value !== null && value !== '').map(([name, value]) => [h('dt', null, name), h('dd', null, typeof value === 'string' ? value : JSON.stringify(value))]))),
      h('h2', null, 'Verdicts'), verdicts(one.verdicts),
      h('h2', null, 'The path it took'), protocol && picture(protocol), path(one.path),
      one.lessons.length > 0 && [h('h2', null, 'Lessons given'), table('Lessons', ['by', 'lesson', 'what came of it'], one.lessons.map((/** @type {any} */ lesson) => [lesson.action, lesson.value?.name ?? lesson.value?.summary ?? '', lesson.value?.found === false ? 'nothing fitted' : lesson.value?.result ?? '']))],
      h('h2', null, 'Conversations'), talks,
      h('p', null, h('a', { href: `#/runs/${run}/changes?task=${encodeURIComponent(seq)}` }, 'What it changed')));
    fill(talks, one.talks.length ? one.talks.map((/** @type {any} */ talk) => conversation(run, talk, opened)) : h('p.quiet', null, 'Nobody was asked.'));
  };
  const opened = new Set();
  await draw();
  let late = 0;
  const end = at ? () => {} : follow(run, (event, data) => {
    const isMine = event === 'tasks' && data.rows.some((/** @type {any} */ row) => row[0] === seq);
    if ((isMine || event === 'resync') && !late) late = window.setTimeout(() => { late = 0; draw().catch(() => {}); }, 400);
  });
  return { node, end, title: `${seq} of ${run}`, keys: {} };
}

/** The protocol's own picture. @param {string} name */
function picture(name) {
  if (isFile()) return null;
  const box = h('details', null, h('summary', null, `The picture of ${name}`));
  box.addEventListener('toggle', async () => {
    if (!box.open || box.querySelector('img')) return;
    const { svg } = await get(`protocols/${name}`);
    box.append(h('img.picture', { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt: `States of ${name}; the table below says which were visited` }));
  });
  return box;
}

/** @param {any[][]} steps */
function path(steps) {
  return table('Path', [['entry', 'num'], 'when', 'state', 'why'], steps.map(([entry, when, instance, from, to, visits, why]) => [entry, clock(when), h('span', null, `${from ? `${from} → ` : ''}${to}${visits > 1 ? `@${visits}` : ''}`, h('span.quiet', null, ` [${instance}]`)), why]));
}

/** What gates said, those of one action side by side: base, work, merged. @param {any[]} all */
function verdicts(all) {
  if (!all.length) return h('p.quiet', null, 'No gate has looked yet.');
  return h('div.three', null, all.slice(-12).map((one) => {
    const { value } = one;
    const [word, kind] = value.passed ? ['✓ passed', 'good'] : value.failed ? ['✗ failed', 'bad'] : ['· not ready', 'warn'];
    return h('section.card', null, h('h3', null, one.action), h('p', { class: kind }, word), h('p.quiet', null, `entry ${one.entry}, ${clock(one.at)}${value.tree ? `, tree ${String(value.tree).slice(0, 8)}` : ''}`), h('pre', null, value.summary ?? ''));
  }));
}

/** @param {string} run @param {any} talk @param {Set<string>} opened */
function conversation(run, talk, opened) {
  const key = `${talk.action}/${talk.number}`;
  const lines = h('div');
  const box = h('details.card', { open: opened.has(key) }, h('summary', null, `${talk.role}${talk.form ? ` (${talk.form})` : ''} · ${talk.agent}${talk.model ? ` ${talk.model}` : ''} · ${talk.over ? 'ended' : 'goes on'}`), lines);
  const read = async () => {
    if (!box.open) { opened.delete(key); return; }
    opened.add(key);
    const { prompt, lines: said } = await get(`runs/${run}/talks/${key}`);
    fill(lines, prompt && h('details', null, h('summary', null, 'What it was told'), h('pre', null, prompt)), said.map(line), talk.cut && h('p.warn', null, 'It was too long: the rest is not kept.'));
  };
  box.addEventListener('toggle', read);
  if (box.open) read();
  return box;
}

/** @param {any} one */
function line(one) {
  const text = (/** @type {string} */ kind, /** @type {any[]} */ ...parts) => h(`div.talk.${kind}`, null, ...parts);
  switch (one.kind) {
    case 'text': return text('text', h('pre', null, one.text));
    case 'thought': return text('thought', h('pre.quiet', null, one.text));
    case 'message': return text('message', h('strong', null, 'told: '), one.text);
    case 'arguments': return text('call', h('details', null, h('summary', null, `calls ${one.tool}`), h('pre', null, JSON.stringify(one.args, null, 2))));
    case 'call': return text('call', `→ ${one.tool} ${one.about}`);
    case 'ruling': return text(one.ruling === 'allow' ? 'ruling' : 'ruling.deny', `${one.ruling === 'allow' ? '✓ ruled: allowed' : `✗ ruled: ${one.ruling}`} ${one.tool} ${one.path ?? ''} ${one.why ?? ''}`);
    case 'result': return text('result', h('details', null, h('summary', null, `result of ${one.tool}`), h('pre', null, one.text ?? `${one.left_out} bytes are not kept`)));
    case 'back': return one.wrong ? text('failure', `✗ ${one.tool}: ${one.wrong}`) : null;
    case 'answer': return text('answer', h('strong', null, 'answers'), h('pre', null, JSON.stringify(one.answer, null, 2)));
    case 'question': return text('failure', h('strong', null, 'asks: '), one.text);
    case 'failure': return text('failure', one.text);
    case 'used': return text('used', h('span.quiet', null, Object.entries(one.used).map(([name, much]) => `${name} ${much}`).join(', ')));
    case 'again': return text('again', h('span.quiet', null, 'the turn is taken again'));
    default: return text('unknown', h('pre.quiet', null, JSON.stringify(one)));
  }
}

/** What changed. @param {string} run @param {string|null} task @param {HTMLElement} body */
export async function changes(run, task, body) {
  const seq = task ?? new URLSearchParams(location.hash.split('?')[1] ?? '').get('task');
  const answer = await get(`runs/${run}/changes${seq ? `?task=${encodeURIComponent(seq)}` : ''}`);
  const undo = async () => {
    const said = await ask('Undo the delivery', { needs_reason: true, command: `ftl undo ${run}` });
    if (!said) return;
    try {
      const done = await post(`runs/${run}/undo`, { reason: said.reason, name: said.name });
      toast(`${done.branch} is at ${String(done.commit).slice(0, 8)} again`);
    } catch (error) {
      toast(`${/** @type {any} */ (error).message} — ${/** @type {any} */ (error).hint ?? ''}`);
    }
  };
  const what = /** @type {Record<string, string>} */ ({ landed: 'Landed', at_work: 'At work, as it stands in its worktree', kept: 'Not landed, kept' });
  fill(body,
    h('div.row', null, command(`ftl diff ${run}${seq ? `/${seq}` : ''}`), speaks() && answer.parts.some((/** @type {any} */ part) => part.what === 'landed') && h('button', { type: 'button', onclick: undo, title: `ftl undo ${run}` }, 'Undo the delivery…'),
      answer.parts.some((/** @type {any} */ part) => part.what === 'kept') && command('ftl salvage')),
    answer.parts.length === 0 && h('p.quiet', null, 'Nothing has landed, and nothing is kept.'),
    answer.parts.map((/** @type {any} */ part) => h('section', null,
      h('h2', null, `${part.task ? `${part.task} · ` : ''}${what[part.what] ?? part.what}`), part.why && h('p.warn', null, part.why),
      group(part.files.filter((/** @type {any} */ file) => !file.is_test)),
      part.files.some((/** @type {any} */ file) => file.is_test) && [h('h3', null, 'Tests that were touched'), group(part.files.filter((/** @type {any} */ file) => file.is_test))])));
}

/** @param {any[]} files */
function group(files) {
  return files.map((file, at) => {
    const isLock = /(^|\/)(Cargo\.lock|package-lock\.json|yarn\.lock|poetry\.lock|.*\.min\.js)$/.test(file.path);
    const sums = file.added === null ? 'no text' : `+${file.added} −${file.removed}`;
    const box = h('details', { open: at < 12 && !isLock }, h('summary', null, h('strong.mono', null, file.was ? `${file.was} → ${file.path}` : file.path), h('span.quiet', null, ` ${sums}`)));
    const draw = () => {
      if (!box.open || box.childElementCount > 1) return;
      for (const one of file.findings ?? []) box.append(h('p.warn', null, `${one.kind}: ${one.text} (entry ${one.entry})`));
      box.append(hunks(file));
      if (file.cut) box.append(h('p.quiet', null, 'It is longer; the command above shows all of it.'));
    };
    box.addEventListener('toggle', draw);
    draw();
    return box;
  });
}

/** @param {any} file */
function hunks(file) {
  const rows = [];
  for (const hunk of file.hunks) {
    let [old, now] = [hunk.old, hunk.new];
    rows.push(h('tr.hunk', null, h('td', { colspan: 3 }, `line ${hunk.new}`)));
    for (const [kind, text] of hunk.lines) {
      if (kind === '\\') continue;
      const [left, right] = [kind === '+' ? '' : old, kind === '-' ? '' : now];
      if (kind !== '+') old += 1;
      if (kind !== '-') now += 1;
      rows.push(h(kind === '+' ? 'tr.add' : kind === '-' ? 'tr.del' : 'tr', null, h('td.no', null, left), h('td.no', null, right), h('td', null, `${kind} ${text}`)));
    }
  }
  return h('div.diff', { tabindex: 0, role: 'region', 'aria-label': `Changes of ${file.path}` }, h('table', null, h('caption.unseen', null, `Changes of ${file.path}: + is new, − is gone`), h('tbody', null, rows)));
}


