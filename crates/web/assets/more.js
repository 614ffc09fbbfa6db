// @ts-check
// The other pages that are not about one run: Lessons, Protocols, New, System. They are loaded when one goes there.

import { ago, announce, command, counted, fill, h, lasted, money, short, table, toast } from './dom.js';
import { get, me, post } from './api.js';
import { speaks } from './act.js';
import { drawing } from './graph.js';
import { machine } from './machine.js';

/** @typedef {{node: any, title: string, end?: () => void, hear?: (event: string, data: any) => void, keys?: Record<string, () => void>}} Page */

/** @param {string} name @returns {Promise<Page>} */
export async function lessons(name) {
  const found = h('div');
  const find = h('input.grow', { type: 'search', placeholder: 'An error, or what you are about to do', 'aria-label': 'Search lessons', id: 'filter' });
  const all = await get('lessons');
  const kept = [...all.failures.map((/** @type {any} */ one) => ({ ...one, type: 'failure' })), ...all.patterns.map((/** @type {any} */ one) => ({ ...one, type: 'pattern' }))];
  if (name) return lesson(kept.find((one) => one.name === name), name);
  const show = async () => {
    const words = find.value.trim();
    try {
      const some = words ? await get(`lessons?q=${encodeURIComponent(words)}`) : kept;
      fill(found, h('p.quiet', null, words ? `${counted(some.length, 'lesson')}, the best first` : `${counted(all.failures.length, 'failure')}, ${counted(all.patterns.length, 'pattern')}`), some.length > 0 && lessonTable(some, words !== ''));
    } catch (error) {
      fill(found, h('p.quiet', null, /** @type {any} */ (error).message));
    }
  };
  await show();
  const withheld = Array.isArray(all.quarantine) ? all.quarantine : [];
  return {
    node: h('div', null, h('h1', null, 'Lessons'), h('p.quiet', null, 'What earlier work has taught: the same recall that agents get.'),
      h('form.row', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); show(); } }, find, h('button.main', { type: 'submit' }, 'Search'), command('ftl query "…"')), found,
      h('h2', null, 'In quarantine'), withheld.length ? table('In quarantine', ['lesson', 'why'], withheld.map((/** @type {any} */ one) => [one.name ?? '', one.why ?? one.reason ?? ''])) : h('p.quiet', null, 'Nothing: no lesson looks like a secret, or like an instruction to an agent.'), command('ftl memory quarantine'),
      h('details', null, h('summary', null, 'Counts and health'), document_(all.stats), command('ftl stats'))),
    title: 'Lessons',
  };
}

/** @param {any[]} all @param {boolean} isFound */
function lessonTable(all, isFound) {
  const worth = (/** @type {any} */ one) => {
    const [helped, failed] = [one.times_helped ?? 0, one.times_failed ?? 0];
    return helped + failed ? [h('span.good', null, `✓ ${helped}`), ' ', h('span', { class: failed ? 'bad' : 'quiet' }, `✗ ${failed}`)] : h('span.quiet', null, 'not tried');
  };
  const heads = /** @type {(string|[string, string])[]} */ ([isFound ? ['fits', 'num'] : 'kind', 'lesson', 'what it says', 'helped', ['given', 'num'], 'learned']);
  return table('Lessons', heads, all.map((one) => [isFound ? `${Math.round(100 * (one.score ?? 0))} %` : one.type, h('a', { href: `#/lessons/${encodeURIComponent(one.name)}` }, one.name), [h('div', null, one.trigger ?? ''), h('div.quiet', null, one.fix ?? one.insight ?? '')], worth(one), one.access_count ?? '', one.created_at ? ago(Date.parse(one.created_at)) : '']));
}

/** One lesson with its neighbours. @param {any} one @param {string} name @returns {Promise<Page>} */
async function lesson(one, name) {
  const linked = await get(`lessons/${encodeURIComponent(name)}`);
  const near = (/** @type {any} */ list) => (Array.isArray(list) ? list : []).map((each) => (typeof each === 'string' ? { name: each } : each)).filter((each) => each.name && each.name !== name);
  const [related, solutions] = [near(linked.related), near(linked.solutions)];
  const told = Object.entries(one ?? {}).filter(([field, value]) => !['name', 'related'].includes(field) && value !== null && value !== '' && !(Array.isArray(value) && !value.length));
  return {
    node: h('div', null, h('p', null, h('a', { href: '#/lessons' }, '← all lessons')), h('h1', null, name), h('div.row', null, command(`ftl related ${name}`)),
      one ? h('div.card', null, h('dl.facts', null, told.map(([field, value]) => [h('dt', null, field.replaceAll('_', ' ')), h('dd', null, Array.isArray(value) ? value.join(', ') : String(value))]))) : h('p.quiet', null, 'No such lesson, or it is in quarantine.'),
      h('h2', null, 'Neighbours'), related.length + solutions.length ? [neighbours(name, related, solutions), table('Neighbours', ['lesson', 'how'], [...related.map((each) => [h('a', { href: `#/lessons/${encodeURIComponent(each.name)}` }, each.name), 'related']), ...solutions.map((each) => [h('a', { href: `#/lessons/${encodeURIComponent(each.name)}` }, each.name), 'solves it'])])] : h('p.quiet', null, 'It is linked to no other lesson.')),
    title: name,
  };
}

/** A lesson in the middle of those that it is linked to. @param {string} name @param {any[]} related @param {any[]} solutions */
function neighbours(name, related, solutions) {
  const all = [...related.map((one) => [one.name, '']), ...solutions.map((one) => [one.name, 'solves'])].slice(0, 16);
  const [wide, high] = [760, Math.max(160, all.length * 44 + 20)];
  const label = (/** @type {string} */ text) => (text.length > 34 ? `${text.slice(0, 33)}…` : text);
  return h('div.stage', { tabindex: 0, role: 'region', 'aria-label': 'Neighbours' }, h('svg.graph', { width: wide, height: high, role: 'img', 'aria-label': `${name} and ${all.length} neighbours; the table says the same` },
    all.map(([, how], at) => h('path', { class: how ? 'critical' : '', d: `M300 ${high / 2}C380 ${high / 2} 380 ${at * 44 + 32} 460 ${at * 44 + 32}` })),
    h('g.landed', null, h('rect', { x: 20, y: high / 2 - 18, width: 280, height: 36, rx: 7 }), h('text', { x: 32, y: high / 2 + 4 }, label(name))),
    all.map(([other], at) => h('g', null, h('rect', { x: 460, y: at * 44 + 14, width: 280, height: 36, rx: 7 }), h('text', { x: 472, y: at * 44 + 36 }, label(other))))));
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
  const paint = { edges: Object.fromEntries(edges.map((edge) => [`${edge.from}>${edge.to}`, edge])), states: Object.fromEntries(states.map((state) => [state.state, state])) };
  return {
    node: h('div', null, h('p', null, h('a', { href: '#/protocols' }, '← all protocols')), h('h1', null, name), h('div.row', null, command(`ftl draw ${name}`), command(`ftl check ${name}`)),
      h('p.quiet', null, one.runs ? `Warm is what the last ${counted(one.runs, 'run')} went through most: boxes by time, edges by how often; a red edge was taken because something failed.` : 'No run has gone through it yet.'),
      machine(name, one.shapes, paint),
      one.edges.length > 0 && [h('h2', null, 'Edges'), table('Edges by how often they were taken', ['from', 'to', ['taken', 'num'], '', ['by a failure', 'num'], 'last runs'], edges.map((/** @type {any} */ edge) => [edge.from, edge.to, edge.count, heat(edge.count), edge.failures || '', edge.runs.map((/** @type {string} */ run) => [h('a', { href: `#/runs/${run}/graph` }, run), ' '])]))],
      states.length > 0 && [h('h2', null, 'States'), table('States by time', ['state', ['visits', 'num'], ['time', 'num'], ['tokens', 'num'], ['money', 'num'], ['failures', 'num']], states.map((/** @type {any} */ state) => [state.state, state.visits, lasted(state.time), state.tokens ? short(state.tokens) : '', state.money ? money(state.money) : '', state.failures || '']))]),
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
  const words_ = (what = JSON.stringify(objective.value || '…')) => {
    const flags = [...Object.entries(limits).filter(([, input]) => input.value).map(([name, input]) => `--${name.replace('_', '-')} ${input.value}`), land.value && `--land ${land.value}`].filter(Boolean).join(' ');
    return `ftl ${flow.value === 'code' ? 'code' : `${flow.value} run`} ${what} ${flags}`.trim();
  };
  const draw = () => { fill(words, command(words_())); };
  const plan = h('div');
  const start = async (/** @type {boolean} */ dry, /** @type {any} */ more = {}) => {
    fault.textContent = '';
    announce('Starting');
    try {
      const { run } = await post('runs', { ...body(dry), ...more });
      if (!dry) { go(`#/runs/${run}/graph`); return; }
      fill(plan, h('p.card', null, h('a', { href: `#/runs/${run}/graph` }, 'It explores and plans…'), ' The plan stands here as soon as it is there.'));
      await planned(run);
    } catch (error) {
      const { message, hint } = /** @type {any} */ (error);
      fault.textContent = `${message} — ${hint}`;
    }
  };
  /** Waits for the plan of a run that only plans, and shows it. @param {string} run */
  const planned = async (run) => {
    for (let tries = 0; tries < 1200 && plan.isConnected; tries += 1) {
      const { run: one } = await get(`runs/${run}`);
      const isOver = !['running', 'waiting', 'suspended', 'held', 'interrupted', ''].includes(one.standing);
      if (isOver || ['held', 'waiting'].includes(one.standing)) { await preview(run, one); return; }
      await new Promise((done) => { setTimeout(done, 500); });
    }
  };
  /** @param {string} run @param {any} one */
  const preview = async (run, one) => {
    const [tasks, graph] = await Promise.all([get(`runs/${run}/tasks`), get(`runs/${run}/graph`)]);
    if (!tasks.rows.length) { fill(plan, h('p.card', null, h('a', { href: `#/runs/${run}/graph` }, `It came to no plan: ${one.standing}`), one.reason && ` ${one.reason}`)); return; }
    const briefs = await Promise.all(tasks.rows.slice(0, 60).map((/** @type {any[]} */ row) => get(`runs/${run}/tasks/${encodeURIComponent(row[0])}`)));
    const holders = new Map();
    for (const each of briefs) for (const path of each.brief?.delta ?? []) holders.set(path, [...(holders.get(path) ?? []), each.row[0]]);
    const budget = briefs.reduce((sum, each) => sum + (each.brief?.budget ?? 0), 0);
    const rows = briefs.map((each) => [`${each.row[0]} ${each.row[1]}`, each.row[9].join(' '), each.brief?.budget ?? '', (each.brief?.delta ?? []).map((/** @type {string} */ path) => [h('code', { class: holders.get(path).length > 1 ? 'warn' : '', title: holders.get(path).length > 1 ? `also changed by ${holders.get(path).filter((/** @type {string} */ seq) => seq !== each.row[0]).join(', ')}` : '' }, path), ' '])]);
    const shared = [...holders.values()].filter((all) => all.length > 1).length;
    fill(plan, h('section.card', null, h('h2', null, 'The plan'), h('p.quiet', null, [counted(tasks.rows.length, 'task'), budget && `${budget} tools in all`, `${counted(graph.critical.length, 'task')} on the critical path`, shared && `${counted(shared, 'file')} that several tasks change: those wait for each other`].filter(Boolean).join(' · ')),
      drawing(graph, tasks.rows.map((/** @type {any[]} */ row) => [row[0], row[1], row[2], 'next', null]), (seq) => `#/runs/${run}/tasks/${encodeURIComponent(seq)}`),
      table('The plan', ['task', 'after', ['tools', 'num'], 'files'], rows),
      h('p.row', null, h('button.main', { type: 'button', 'data-key': 'build', disabled: !speaks(), title: words_(`--from-dry-run ${run}`), onclick: () => start(false, { from_dry_run: run }) }, 'Build this plan'), command(words_(`--from-dry-run ${run}`)))));
    announce('The plan is there');
  };
  const form = h('form.card', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); start(false); }, oninput: draw },
    field('objective', 'What is to be reached', objective), field('flow', 'How', flow), field('land', 'How it lands', land),
    h('details', null, h('summary', null, 'Agents and limits'), field('agent', 'Agent', limits.agent), field('model', 'Model', limits.model), field('max_cost', 'Most money', limits.max_cost), field('max_tokens', 'Most tokens', limits.max_tokens)),
    fault, h('p.row', null, h('button.main', { type: 'submit', disabled: !speaks() }, 'Start'), h('button', { type: 'button', disabled: !speaks(), onclick: () => start(true), 'data-key': 'plan' }, 'Plan only, and show the graph')), words);
  draw();
  return { node: h('div', null, h('h1', null, 'New'), form, plan), title: 'New' };
}

/** @returns {Promise<Page>} */
export async function system() {
  const part = (/** @type {string} */ path, /** @type {string} */ title, /** @type {string} */ words, /** @type {(answer: any) => any} */ show) => {
    const box = h('div', null, h('p.quiet', null, 'Looking…'));
    get(path).then((answer) => fill(box, show(answer)), (error) => fill(box, h('p.bad', null, error.message)));
    return h('section', null, h('div.row', null, h('h2.grow', null, title), command(words)), box);
  };
  const sign = (/** @type {string} */ level) => (level === 'fine' ? h('span.good', null, '✓') : level === 'look' ? h('span.warn', null, '!') : h('span.bad', null, '✗'));
  const findings = (/** @type {any[]} */ all, /** @type {string} */ caption) => table(caption, ['', 'area', 'what', 'what to do'], all.map((one) => [h('span', { title: one.level }, sign(one.level), h('span.unseen', null, one.level)), one.area, one.text, one.hint ?? '']));
  const doctor = (/** @type {any} */ one) => [h('p', { class: one.ready ? 'good' : 'warn' }, one.ready ? '✓ One can work here.' : '! Something is missing before one can work here.'), Array.isArray(one.work) && findings(one.work, 'Work'), Array.isArray(one.findings) && h('details', { open: one.ok === false }, h('summary', null, `${counted(one.findings.length, 'thing')} that were looked at`), findings(one.findings, 'Findings'))];
  const yes = (/** @type {any} */ value) => (value === true || value === 'yes' || value === 'before' ? h('span.good', null, `✓ ${value === true ? '' : value}`) : value === false || value === 'no' ? h('span.quiet', null, '–') : value === 'after' ? h('span.warn', null, 'after') : String(value ?? ''));
  const agents = (/** @type {any} */ one) => {
    const names = [...new Set((one.agents ?? []).flatMap((/** @type {any} */ agent) => Object.keys(agent.enforced ?? agent.enforces ?? {})))];
    const roles = Object.entries(one.roles ?? {}).map(([role, bound]) => [role, /** @type {any} */ (bound)?.agent ?? '', /** @type {any} */ (bound)?.model ?? '']);
    return [roles.length > 0 && table('Roles', ['role', 'agent', 'model'], roles), (one.agents ?? []).length > 0 && table('Agents', ['agent', 'kind', 'usable', ...names], one.agents.map((/** @type {any} */ agent) => [agent.name, agent.kind, agent.usable ? h('span.good', null, '✓') : h('span.bad', null, `✗ ${agent.why ?? ''}`), ...names.map((name) => yes((agent.enforced ?? agent.enforces)[name]))]))];
  };
  const bringBack = (/** @type {any} */ one) => async () => { try { const done = await post('salvage', { id: one.id }); toast(`It is the branch ${done.branch}`); } catch (error) { toast(/** @type {any} */ (error).message); } };
  const kept = (/** @type {any} */ one) => (one.kept.length ? table('Work that is kept', ['', 'task', 'when', 'why', ['files', 'num'], ''], one.kept.map((/** @type {any} */ each) => [h('code', null, each.id), each.task ?? '', ago(Date.parse(each.when)), each.why, each.files ?? '', speaks() && h('button.plain', { type: 'button', title: `ftl salvage ${each.id}`, onclick: bringBack(each) }, 'Bring it back')])) : h('p.quiet', null, 'Nothing is kept.'));
  const settings = (/** @type {any} */ one) => {
    const all = one.settings ?? [];
    const list = h('div');
    const find = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter settings' });
    const draw = () => { const some = all.filter((/** @type {any} */ each) => `${each.key} ${each.value} ${each.about}`.toLowerCase().includes(find.value.toLowerCase())); const own = find.value ? some : some.filter((/** @type {any} */ each) => each.origin !== 'default'); fill(list, h('p.quiet', null, find.value ? counted(own.length, 'setting') : `${own.length} of ${counted(all.length, 'setting')} are not the default; the filter finds all`), own.length > 0 && table('Settings', ['key', 'value', 'from', 'what it is'], own.map((/** @type {any} */ each) => [h('code', null, each.key), String(each.value ?? ''), each.origin, each.about]))); };
    find.addEventListener('input', draw);
    draw();
    return [find, list];
  };
  return {
    node: h('div', null, h('h1', null, 'System'), h('dl.facts', null, h('dt', null, 'repository'), h('dd', null, me.repo), h('dt', null, 'version'), h('dd', null, me.version), h('dt', null, 'you'), h('dd', null, me.by)),
      part('doctor', 'Whether one can work here', 'ftl doctor', doctor), part('agents', 'Agents, and what each enforces', 'ftl agents', agents), part('salvage', 'Work that is kept', 'ftl salvage', kept), part('config', 'Settings and where each comes from', 'ftl config', settings)),
    title: 'System',
  };
}
