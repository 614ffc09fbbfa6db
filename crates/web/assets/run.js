// @ts-check
// One run: its head, its tabs, and the slider that moves all of them to any entry of its journal.

import { STAGES, announce, clock, command, counted, fill, h, lasted, standing, table, virtual } from './dom.js';
import { follow, get, isFile, nearest } from './api.js';
import { buttons, send, speaks } from './act.js';
import { MAX_DRAWN, canvas, drawing } from './graph.js';
import { spending, timeline } from './charts.js';

const TABS = /** @type {[string, string][]} */ ([['graph', 'Graph'], ['tasks', 'Tasks'], ['timeline', 'Timeline'], ['money', 'Money'], ['journal', 'Journal'], ['changes', 'Changes'], ['report', 'Report']]);

/** @param {string} run @param {string} tab @param {URLSearchParams} query @param {(hash: string) => void} go */
export async function runPage(run, tab, query, go) {
  const asked = Number(query.get('at')) || 0;
  let at = asked;
  const state = { rows: /** @type {any[][]} */ ([]), now: 0, search: '' };
  const behind = () => (at ? `?at=${at}` : '');
  const link = (/** @type {string} */ name) => `#/runs/${run}/${name}${behind()}`;
  const taskLink = (/** @type {string} */ seq) => `#/runs/${run}/tasks/${encodeURIComponent(seq)}${behind()}`;
  const [head, body, why, words] = [h('div'), h('div'), h('div'), h('div')];
  let shown = /** @type {{update?: () => any, keys?: Record<string, () => void>}} */ ({});
  let run_ = await get(`runs/${run}${behind()}`);
  /** @type {any} */
  let graph = null;
  /** The depths whose tasks are one box. @type {Set<number>} */
  const folded = new Set();
  let order = 'begin';

  const slider = h('input', { type: 'range', min: 1, max: run_.head, value: at || run_.head, 'aria-label': 'Entry of the journal', 'data-key': 'slider' });
  const place = h('output', { class: 'mono' });
  let playing = 0;
  const seek = (/** @type {number} */ to) => {
    const most = Number(slider.max);
    const before = at || most;
    at = to >= most ? 0 : nearest(Math.max(1, to), to - before);
    slider.value = String(at || most);
    history.replaceState(null, '', link(tab));
    return refresh();
  };
  let wanted = 0;
  let busy = false;
  slider.addEventListener('input', async () => {
    wanted = Number(slider.value);
    if (busy) return;
    busy = true;
    while (wanted) { const next = wanted; wanted = 0; await seek(next); }
    busy = false;
  });
  const play = () => {
    clearInterval(playing);
    if (playing) { playing = 0; return; }
    if (!at) seek(1);
    const step = Math.max(1, Math.ceil(Number(slider.max) / 200));
    playing = window.setInterval(() => { if (at) seek(at + step); else { clearInterval(playing); playing = 0; } }, 150);
  };

  const drawHead = () => {
    const one = run_.run;
    const bought = Object.entries(one.meters).filter(([name, spent]) => ['tokens', 'money'].includes(name) && /** @type {any} */ (spent).used);
    const spent = bought.map(([name, of]) => `${name} ${name === 'money' ? (of.used / 1e6).toFixed(2) : of.used.toLocaleString('en')}${of.unknown ? '?' : ''}${of.limit ? ` of ${name === 'money' ? (of.limit / 1e6).toFixed(2) : of.limit.toLocaleString('en')}` : ''}`);
    const driver = one.owner ? `driven by process ${one.owner.pid}` : one.standing === 'interrupted' ? 'nobody drives it' : '';
    const root = run_.actions.filter((/** @type {any} */ action) => action.order === 'stop');
    slider.max = String(Math.max(run_.head, Number(slider.max)));
    if (!at) slider.value = slider.max;
    place.textContent = `${clock(run_.last)} · entry ${at || run_.head} of ${run_.head}`;
    fill(head,
      h('h1', null, one.title || run),
      h('div.row', null, standing(one.standing), h('span.quiet', null, `${one.protocol} in ${one.state} · ${lasted(run_.now - run_.began)}`),
        spent.map((text) => h('span.quiet', null, text)), driver && h('span.quiet', null, driver),
        !at && one.standing === 'interrupted' && speaks() && h('button.main', { type: 'button', onclick: () => send(run, { order: 'drive' }), title: `ftl resume ${run}` }, 'Go on'),
        !at && root.length > 0 && speaks() && buttons(run, root, 'stop'), command(`ftl why ${run}`)),
      one.reason && h('p', null, one.reason),
      at > 0 && h('p.then', { role: 'note' }, `As it stood with entry ${at}. `, h('button.plain', { type: 'button', onclick: () => seek(Infinity) }, 'Back to now')));
  };

  /** @type {Record<string, () => Promise<{update?: () => any, keys?: Record<string, () => void>}>>} */
  const parts = {
    async graph() {
      if (!state.rows.length) { story(); return { update: story }; }
      const places = async () => {
        const fold = folded.size ? `${at ? '&' : '?'}fold=${[...folded].join(',')}` : '';
        graph = await get(`runs/${run}/graph${behind()}${fold}`);
      };
      if (!graph || graph.x.length - (graph.groups?.length ?? 0) !== state.rows.length) await places();
      const find = h('input', { type: 'search', placeholder: 'Find a task', 'aria-label': 'Find a task', 'data-key': 'find' });
      const space = h('div');
      const list = h('details', { open: state.rows.length > MAX_DRAWN });
      const twin = () => fill(list, h('summary', null, 'The same as a table'), taskTable(state.rows, taskLink));
      let big = /** @type {any} */ (null);
      const depths = () => [...new Set(state.rows.map((row) => row[2]))];
      const toggle = async (/** @type {number} */ depth) => {
        if (!folded.delete(depth)) folded.add(depth);
        await again();
      };
      const all = async () => {
        const isAll = folded.size > 0;
        folded.clear();
        if (!isAll) for (const depth of depths()) folded.add(depth);
        await again();
      };
      const again = async () => { await places(); big?.node.remove(); big = null; draw(); };
      const waves = h('button', { type: 'button', onclick: all, 'data-key': 'fold', title: 'z' }, 'Fold waves');
      const draw = () => {
        waves.textContent = folded.size ? 'Unfold all' : 'Fold waves';
        if (state.rows.filter((row) => !folded.has(row[2])).length > MAX_DRAWN) {
          if (!big) { big = canvas(graph, state.rows, (seq) => go(taskLink(seq)), toggle); fill(space, big.node); } else big.draw();
        } else fill(space, drawing(graph, state.rows, taskLink, find.value, toggle));
        twin();
      };
      find.addEventListener('input', () => {
        if (!big) { fill(space, drawing(graph, state.rows, taskLink, find.value, toggle)); return; }
        big.choose(state.rows.find((row) => `${row[0]} ${row[1]}`.toLowerCase().includes(find.value.toLowerCase()))?.[0] ?? '');
      });
      fill(body, h('div.row', null, find, !isFile() && waves, h('span.quiet', null, summary(state.rows)), graph.critical.length > 1 && h('span.quiet', null, h('i.critical-mark'), `critical path: ${counted(graph.critical.length, 'task')}`)), space, list);
      draw();
      return {
        keys: /** @type {Record<string, () => void>} */ (isFile() ? {} : { z: all }),
        update: async () => {
          // A plan that was made anew has other tasks.
          if (graph.x.length - (graph.groups?.length ?? 0) !== state.rows.length) await places();
          if (big) { big.node.remove(); big = null; }
          draw();
        },
      };
    },
    async tasks() {
      if (!state.rows.length) { story(); return { update: story }; }
      const find = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter tasks', 'data-key': 'filter' });
      const list = h('div');
      const draw = () => {
        const rows = state.rows.filter((row) => `${row[0]} ${row[1]} ${row[3]} ${row[8] ?? ''}`.toLowerCase().includes(find.value.toLowerCase()));
        fill(list, h('p.quiet', null, summary(state.rows)), taskTable(rows, taskLink));
      };
      find.addEventListener('input', draw);
      fill(body, find, list);
      draw();
      return { update: draw };
    },
    async timeline() {
      const draw = async () => {
        const told = await get(`runs/${run}/timeline${behind()}`);
        const sort = h('select', { 'aria-label': 'Order of the rows', 'data-key': 'order', onchange: (/** @type {any} */ event) => { order = event.target.value; draw(); } }, [['begin', 'in the order of their begin'], ['critical', 'the critical path first']].map(([word, label]) => h('option', { value: word, selected: word === order }, label)));
        fill(body, h('div.row', null, sort), timeline(told, taskLink, order));
      };
      await draw();
      return { update: draw };
    },
    async money() {
      const draw = async () => fill(body, spending(await get(`runs/${run}/money${behind()}`)));
      await draw();
      return { update: draw };
    },
    async journal() {
      return journal(run, body, () => at || run_.head, seek);
    },
    async changes() {
      const { changes } = await import('./diff.js');
      return changes(run, null, body);
    },
    async report() {
      const draw = async () => {
        const report = await get(`runs/${run}/report${behind()}`);
        fill(body, h('div.card', null, h('pre', null, report.text)), !isFile() && h('p', null, command(`ftl export ${run} --html`)));
      };
      await draw();
      return { update: draw };
    },
  };

  const story = () => {
    const steps = run_.steps.map((/** @type {any} */ step) => [step.good === true ? h('span.good', null, '✓ led on') : step.good === false ? h('span.bad', null, '✗ went back') : '·', lasted(step.at - run_.began), step.text]);
    fill(body, steps.length ? table('Steps', ['', 'after', 'step'], steps) : h('p.quiet', null, 'No plan yet.'));
  };

  const drawWhy = async () => {
    const told = await get(`runs/${run}/why${behind()}`);
    const waits = told.instances.filter((/** @type {any} */ one) => one.held.length || one.asks.length || one.asked || one.actions.some((/** @type {any} */ two) => two.order === 'say'));
    const list = (at ? told.instances : waits).slice(0, 12);
    fill(why, list.length > 0 && h('h2', null, at ? 'Why, at that moment' : 'What needs you'), list.map((/** @type {any} */ one) => explained(run, one, !at)));
  };

  async function refresh() {
    const [one, tasks] = await Promise.all([get(`runs/${run}${behind()}`), get(`runs/${run}/tasks${behind()}`)]);
    run_ = one;
    state.rows = tasks.rows;
    state.now = tasks.now;
    drawHead();
    drawTabs();
    await Promise.all([drawWhy(), shown.update?.()]);
  }

  const tabs = h('nav.tabs', { 'aria-label': 'Parts of the run' });
  const drawTabs = () => fill(tabs, TABS.map(([name, label]) => h('a', { href: link(name), 'aria-current': name === tab ? 'page' : false, 'data-key': `tab-${name}` }, label)));
  const step = (/** @type {number} */ by) => seek((at || Number(slider.max)) + by);
  const node = h('div', null, head,
    h('div.slider', null, h('button', { type: 'button', onclick: play, 'aria-label': 'Play the journal', title: 'space' }, '▶'),
      h('button', { type: 'button', onclick: () => step(-1), 'aria-label': 'One entry back', title: '[' }, '‹'), slider,
      h('button', { type: 'button', onclick: () => step(1), 'aria-label': 'One entry on', title: ']' }, '›'), place),
    tabs, why, body, words);
  const first = await get(`runs/${run}/tasks${behind()}`);
  [state.rows, state.now] = [first.rows, first.now];
  drawHead();
  drawTabs();
  shown = await parts[parts[tab] ? tab : 'graph']();
  await drawWhy();

  let late = 0;
  const soon = () => { if (!late && !at) late = window.setTimeout(() => { late = 0; refresh().catch(() => {}); }, 120); };
  const said = /** @type {string[]} */ ([]);
  const end = follow(run, (event, data) => {
    if (event === 'tasks' && !at && data.run === run) {
      const places = new Map(state.rows.map((row, index) => [row[0], index]));
      const isKnown = data.rows.every((/** @type {any[]} */ row) => places.has(row[0]));
      if (isKnown) for (const row of data.rows) state.rows[/** @type {number} */ (places.get(row[0]))] = row;
      if (isKnown) shown.update?.();
      soon();
    } else if (event === 'summary' && data.run === run) {
      run_ = { ...run_, run: at ? run_.run : data, head: Math.max(run_.head, data.entry) };
      drawHead();
      soon();
    } else if (event === 'live') {
      for (const line of data.lines) {
        const text = line.text ?? (line.kind === 'call' ? `→ ${line.tool} ${line.about}` : line.kind === 'ruling' && line.ruling !== 'allow' ? `✗ ${line.tool}: ${line.why ?? line.ruling}` : '');
        if (text && ['text', 'call', 'ruling', 'question'].includes(line.kind)) said.push(`${data.talk.role}: ${text}`);
      }
      said.splice(0, Math.max(0, said.length - 40));
      fill(words, h('h2', null, 'What agents say now'), h('div.card.live', { tabindex: 0, role: 'region', 'aria-label': 'What agents say now' }, said.map((line) => h('div', null, line))));
    } else if (event === 'resync') refresh().catch(() => {});
    else if (event === 'broken') announce('The connection is gone; trying again');
  });
  return {
    node,
    end: () => { end(); clearInterval(playing); clearTimeout(late); },
    get keys() { return /** @type {Record<string, () => void>} */ ({ '[': () => step(-1), ']': () => step(1), ' ': play, ...shown.keys }); },
    title: run_.run.title || run,
    seek,
  };
}

/** How many tasks stand how. @param {any[][]} rows */
function summary(rows) {
  const of = /** @type {Record<string, number>} */ ({});
  for (const row of rows) of[row[3]] = (of[row[3]] ?? 0) + 1;
  return [counted(rows.length, 'task'), ...Object.entries(of).map(([stage, count]) => `${count} ${(STAGES[stage] ?? ['', stage])[1]}`)].join(' · ');
}

/** How many rows a table has; more are a list of which only what is seen is there. */
const MAX_ROWS = 500;

/** @param {any[][]} rows @param {(seq: string) => string} link */
function taskTable(rows, link) {
  if (rows.length > MAX_ROWS) {
    return virtual({
      label: `Tasks: ${rows.length}`, height: 26, count: () => rows.length,
      row: (at) => {
        const [seq, slug, depth, stage, state, , tools, , why] = rows[at];
        const [sign, words, kind] = STAGES[stage] ?? ['·', stage, ''];
        return h('div.line', null, h('span', { class: kind }, `${sign} ${words}`), h('a', { href: link(seq), style: { 'margin-left': `${Math.min(depth, 6) * 0.8}rem` } }, `${seq} ${slug}`), h('span.quiet', null, [state, tools && `${tools[0]} of ${tools[1]} tools`, why].filter(Boolean).join(' · ')));
      },
    }).node;
  }
  return table('Tasks', ['task', '', 'state', ['tools', 'num'], 'why, or what it waits for'], rows.map((row) => {
    const [sign, words, kind] = STAGES[row[3]] ?? ['·', row[3], ''];
    const name = h('a', { href: link(row[0]), style: { 'margin-left': `${Math.min(row[2], 6) * 0.8}rem` }, 'data-key': `task-${row[0]}` }, `${row[0]} ${row[1]}`);
    return [name, h('span', { class: kind }, `${sign} ${words}`), row[4] ?? (row[7] ? row[7].slice(0, 8) : ''), row[6] ? `${row[6][0]} of ${row[6][1]}` : '', row[8] ?? ''];
  }));
}

/** An instance: why it stands so, its ways out, what can be done.
 * @param {string} run @param {any} one @param {boolean} isNow */
export function explained(run, one, isNow) {
  const ways = one.ways_out.map((/** @type {any} */ way) => {
    const unmet = way.conditions.filter((/** @type {any} */ each) => each.holds !== true).map((/** @type {any} */ each) => `${each.text} (${each.holds === false ? 'does not hold' : 'not known yet'})`);
    return [`→ ${way.to ?? 'the end'}`, unmet.length ? `if ${unmet.join(' and ')}` : way.behind ? `not taken: ${way.behind} comes first` : way.open ? 'as soon as it goes on' : 'otherwise', h('code', null, way.by)];
  });
  return h('section.card', null,
    h('h3', null, one.task ? `${one.task} · ` : '', `${one.protocol} in ${one.state} `, standing(one.standing)),
    one.held.map((/** @type {any} */ held) => h('p.bad', null, held.reason)),
    one.asks.map((/** @type {any} */ asked) => h('p.warn', null, asked.text)),
    one.asked && h('p.warn', null, one.asked),
    isNow && one.actions.length > 0 && buttons(run, one.actions, `why-${one.instance}`),
    ways.length > 0 && h('details', { open: !isNow }, h('summary', null, counted(ways.length, 'way') + ' out'), table('Ways out', ['to', 'when', 'by'], ways)));
}

/** The journal: any length, a line each, the whole entry beside it.
 * @param {string} run @param {HTMLElement} body @param {() => number} head @param {(to: number) => Promise<void>} seek */
async function journal(run, body, head, seek) {
  /** @type {Map<number, any[]>} */
  const known = new Map();
  const asked = new Set();
  let found = /** @type {any[][]|null} */ (null);
  let marked = 0;
  const detail = h('div.card', { tabindex: 0, role: 'region', 'aria-label': 'The entry in full' }, h('p.quiet', null, 'Choose an entry.'));
  const open = async (/** @type {number} */ seq) => {
    marked = seq;
    list.draw();
    const whole = await get(`runs/${run}/entries/${seq}`);
    fill(detail, h('div.row', null, h('h3.grow', null, `Entry ${seq}`), h('button', { type: 'button', onclick: () => seek(seq) }, 'Show everything as it was then')),
      h('p', null, whole.line), h('pre', null, JSON.stringify(whole.entry, null, 2)), h('p.quiet.mono', null, `hash ${whole.hash} · epoch ${whole.epoch}`));
  };
  const need = async (/** @type {number} */ first, /** @type {number} */ last) => {
    if (found) return;
    for (let page = Math.floor(first / 200); page <= Math.floor(last / 200); page += 1) {
      if (asked.has(page)) continue;
      asked.add(page);
      get(`runs/${run}/entries?after=${page * 200}&limit=200`).then((answer) => {
        for (const row of answer.rows) known.set(row[0], row);
        list.draw();
      }, () => asked.delete(page));
    }
  };
  const list = virtual({
    label: 'Journal', height: 26,
    count: () => (found ? found.length : head()),
    near: need,
    row: (at) => {
      const row = found ? found[at] : known.get(at + 1);
      const seq = row ? row[0] : at + 1;
      return h('div.line', { class: seq === marked ? 'marked' : '', onclick: () => open(seq) },
        h('span.quiet.mono.number', null, seq), h('span.quiet.mono.hide-narrow', null, row ? clock(row[1]) : ''),
        h('span.quiet.mono.hide-narrow', null, row && row[2] ? `[${row[2]}]` : ''), h('span', null, row ? row[4] : '…'));
    },
  });
  list.node.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const all = found ? found.map((row) => row[0]) : null;
    const next = all ? all[Math.max(0, Math.min(all.length - 1, all.indexOf(marked) + by))] : Math.max(1, Math.min(head(), marked + by));
    if (next) open(next);
  });
  const find = h('input', { type: 'search', placeholder: 'Find in the journal', 'aria-label': 'Find in the journal', 'data-key': 'journal-find' });
  find.addEventListener('change', async () => {
    found = find.value.trim() ? (await get(`runs/${run}/entries?q=${encodeURIComponent(find.value.trim())}&limit=500`)).rows : null;
    announce(found ? counted(found.length, 'entry') : '');
    list.draw();
  });
  fill(body, h('div.row', null, find, h('span.quiet', null, 'Enter finds; an empty text shows all'), command(`ftl log ${run} --all`)), h('div.split', null, list.node, detail));
  requestAnimationFrame(() => list.to(Math.max(0, head() - 20)));
  // The last page grows: it is read again when the journal has.
  let before = head();
  return {
    update: () => {
      if (head() === before) return;
      for (const at of [before, head()]) asked.delete(Math.floor(at / 200));
      before = head();
      list.draw();
    },
  };
}


