// @ts-check
// One task with everything that happened to it, and what changed.

import { STAGES, clock, command, counted, fill, h, lasted, money, short, table } from './dom.js';
import { follow, get } from './api.js';
import { buttons, speaks } from './act.js';
import { machine, walked } from './machine.js';

/** @param {string} run @param {string} seq @param {URLSearchParams} query */
export async function taskPage(run, seq, query) {
  const at = query.get('at');
  const behind = at ? `?at=${at}` : '';
  const node = h('div');
  const talks = h('div');
  const draw = async () => {
    const [one, why] = await Promise.all([get(`runs/${run}/tasks/${encodeURIComponent(seq)}${behind}`), at ? null : get(`runs/${run}/why`)]);
    const actions = (why?.instances ?? []).filter((/** @type {any} */ each) => one.instances.some((/** @type {any} */ two) => two.instance === each.instance)).flatMap((/** @type {any} */ each) => (each.held.length || each.asks.length || each.asked ? each.actions : []));
    const [sign, words, kind] = STAGES[one.row[3]] ?? ['·', one.row[3], ''];
    const brief = one.brief ?? {};
    const mine = one.instances.at(-1);
    const ruled = one.rulings;
    const links = (/** @type {string[]} */ all) => all.map((each) => [h('a', { href: `#/runs/${run}/tasks/${encodeURIComponent(each)}${behind}` }, each), ' ']);
    const told = /** @type {Record<string, any>} */ ({ verify: brief.verify && h('code', null, brief.verify), delta: brief.delta?.length && brief.delta.map((/** @type {string} */ path) => [h('code', null, path), ' ']), depends: brief.depends?.length && links(brief.depends), budget: brief.budget && `${brief.budget} tools` });
    const rest = Object.entries(brief).filter(([name, value]) => !['seq', 'slug', 'verify', 'delta', 'depends', 'budget'].includes(name) && value !== null && value !== '' && !(Array.isArray(value) && !value.length));
    const path_ = one.path.filter((/** @type {any[]} */ step) => step[2] === mine?.instance);
    fill(node,
      h('p', null, h('a', { href: `#/runs/${run}/tasks${behind}` }, '← all tasks')),
      h('h1', null, `${seq} ${one.row[1]}`),
      h('div.row', null, h('span.pill', { class: kind }, `${sign} ${words}`), one.row[4] && h('span.quiet', null, `in ${one.row[4]}`), one.row[6] && h('span.quiet', null, `${one.row[6][0]} of ${one.row[6][1]} tools`),
        one.bought?.tokens > 0 && h('span.quiet', null, `${short(one.bought.tokens)} tokens, ${money(one.bought.money)}${one.bought.unknown ? '?' : ''}`),
        ruled.calls > 0 && h('span.pill', { class: ruled.ruled >= ruled.calls ? 'good' : 'bad', title: 'calls of tools in the conversations, against rulings' }, `${ruled.ruled} of ${ruled.calls} calls ruled${ruled.denied ? `, ${ruled.denied} denied` : ''}`),
        h('a.button', { href: `#/runs/${run}/changes?task=${encodeURIComponent(seq)}` }, 'What it changed'), command(`ftl why ${run}/${seq}`)),
      one.row[8] && h('p', { class: kind }, one.row[8]),
      actions.length > 0 && speaks() && h('section.card.need', null, buttons(run, actions, `task-${seq}`)),
      one.alike.length > 0 && h('p', null, `${counted(one.alike.length, 'other task')} failed with the same words: `, links(one.alike.map((/** @type {any[]} */ each) => each[0]))),
      h('h2', null, 'Brief'), h('div.card', null, h('dl.facts', null, Object.entries(told).filter(([, value]) => value).map(([name, value]) => [h('dt', null, name), h('dd', null, value)]), rest.map(([name, value]) => [h('dt', null, name), h('dd', null, typeof value === 'string' ? value : JSON.stringify(value))]))),
      h('h2', null, one.instances.length > 1 ? `Attempts: ${one.instances.length}` : 'Verdicts'), attempts(one),
      h('h2', null, 'The path it took'), mine && one.shapes !== undefined && machine(mine.protocol, one.shapes, { ...walked(path_), now: mine.standing === 'settled' ? undefined : mine.state }),
      h('details', { open: !one.shapes }, h('summary', null, 'The same as a table'), path(one.path)),
      one.lessons.length > 0 && [h('h2', null, 'Lessons'), lessons(one)],
      h('h2', null, 'Conversations'), talks);
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

/** @param {any[][]} steps */
function path(steps) {
  return table('Path', [['entry', 'num'], 'when', 'state', 'why'], steps.map(([entry, when, instance, from, to, visits, why]) => [entry, clock(when), h('span', null, `${from ? `${from} → ` : ''}${to}${visits > 1 ? `@${visits}` : ''}`, h('span.quiet', null, ` [${instance}]`)), why]));
}

/** Each attempt with what gates said of it: of the tree before, of the work, and of both together. @param {any} one */
function attempts(one) {
  if (!one.verdicts.length) return h('p.quiet', null, 'No gate has looked yet.');
  return one.instances.map((/** @type {any} */ instance, /** @type {number} */ at) => {
    const all = one.verdicts.filter((/** @type {any} */ verdict) => verdict.instance === instance.instance);
    const landed = all.filter((/** @type {any} */ each) => /^work\.(land|merge)$/.test(each.action));
    const work = all.filter((/** @type {any} */ each) => !landed.includes(each));
    const last = work.findLast((/** @type {any} */ each) => each.action === 'verify.run');
    const base = last?.value.red_before;
    const why = instance.ended_with?.reason;
    return h('section.card', null,
      one.instances.length > 1 && h('h3', null, `Attempt ${at + 1} · ${instance.end ?? instance.state}`), why && h('p.quiet', null, typeof why === 'string' ? why : JSON.stringify(why)),
      h('div.three', null,
        h('div', null, h('h3', null, 'Base'), base === true ? h('p.warn', null, '✗ failed before the work') : base === false ? h('p.good', null, '✓ passed before the work') : h('p.quiet', null, '· nobody looked'), last && h('code', null, last.value.command)),
        h('div', null, h('h3', null, 'Work'), work.map(verdict)),
        h('div', null, h('h3', null, 'Merged'), landed.length ? landed.map((/** @type {any} */ each) => [h('p', { class: each.value.status === 'landed' ? 'good' : 'bad' }, each.value.status === 'landed' ? '✓ landed' : `✗ ${each.value.status}`), each.value.checks && h('pre', null, String(each.value.checks)), h('p.quiet', null, `entry ${each.entry}${each.value.tree && each.value.tree === last?.value.tree ? ', the very tree that was verified' : each.value.tree ? `, tree ${each.value.tree.slice(0, 8)} verified again` : ''}`), h('p', null, each.value.summary ?? '')]) : h('p.quiet', null, '· it has not come so far'))));
  });
}

/** @param {any} one */
function verdict(one) {
  const { value } = one;
  const [word, kind] = value.passed ? ['✓', 'good'] : value.failed ? ['✗', 'bad'] : ['·', 'warn'];
  return h('details', { open: !value.passed }, h('summary', { class: kind }, `${word} ${one.action}`, h('span.quiet', null, ` entry ${one.entry}${value.took ? `, ${lasted(value.took * 1000)}` : ''}${value.tree ? `, tree ${String(value.tree).slice(0, 8)}` : ''}`)), h('pre', null, value.summary ?? ''));
}

/** Lessons that were given, and whether they helped. @param {any} one */
function lessons(one) {
  const last = one.verdicts.findLast((/** @type {any} */ each) => each.action === 'verify.run');
  const used = (/** @type {any} */ given) => {
    const after = one.verdicts.find((/** @type {any} */ each) => each.action === 'verify.run' && each.instance === given.instance && each.entry > given.entry);
    return after ? (after.value.passed ? h('span.good', null, '✓ the next verify passed') : h('span.bad', null, '✗ the next verify failed')) : last ? 'nothing was verified after it' : '';
  };
  const what = /** @type {Record<string, string>} */ ({ 'lesson.match': 'looked for a fix', 'lesson.experience': 'learned', 'lesson.feedback': 'told whether it helped' });
  return table('Lessons', ['entry', 'what', 'lesson', 'what came of it'], one.lessons.map((/** @type {any} */ lesson) => [lesson.entry, what[lesson.action] ?? lesson.action, lesson.value?.name ? h('a', { href: `#/lessons/${encodeURIComponent(lesson.value.name)}` }, lesson.value.name) : lesson.value?.fix ?? '',
    lesson.value?.found === false ? 'nothing fitted' : lesson.value?.found ? used(lesson) : lesson.value?.result ?? '']));
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
