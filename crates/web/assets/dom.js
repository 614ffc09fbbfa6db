// @ts-check
// Nodes out of data. Whatever comes from outside becomes a text node: there is no way to make markup of it.

/** A node, a text, a number, or a list of them; nothing where it is left out.
 * @typedef {any} Part */

const SVG = 'http://www.w3.org/2000/svg';
const DRAWN = new Set(['svg', 'g', 'path', 'rect', 'line', 'text', 'title', 'circle', 'polyline', 'polygon', 'defs', 'pattern']);

/** Marks that turn the direction of writing, and letters that nobody sees, become visible.
 * @param {unknown} text */
export function visible(text) {
  return String(text ?? '').replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g,
    (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** A node.
 * @param {string} tag @param {Record<string, any>|null} [props] @param {...(Part|Part[])} parts
 * @returns {any} */
export function h(tag, props, ...parts) {
  const [name, ...classes] = tag.split('.');
  const isDrawn = DRAWN.has(name);
  const node = isDrawn ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) node.setAttribute('class', classes.join(' '));
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'class') node.setAttribute('class', [...classes, value].join(' '));
    else if (key === 'style') for (const [prop, set] of Object.entries(value)) /** @type {any} */ (node).style.setProperty(prop, String(set));
    else if (key === 'value' && 'value' in node) /** @type {any} */ (node).value = value;
    else node.setAttribute(key, value === true ? '' : String(value));
  }
  append(node, parts);
  return node;
}

/** @param {Element} node @param {(Part|Part[])[]} parts */
export function append(node, parts) {
  for (const part of parts.flat(3)) {
    if (part === null || part === undefined || part === false) continue;
    node.append(part instanceof Node ? part : document.createTextNode(visible(part)));
  }
  return node;
}

/** Puts other parts in the place of what is there; what has the focus keeps it where it has a name.
 * @param {Element} node @param {...(Part|Part[])} parts */
export function fill(node, ...parts) {
  const held = document.activeElement;
  const name = held && node.contains(held) ? held.getAttribute('data-key') : null;
  node.replaceChildren();
  append(node, parts);
  if (name) /** @type {any} */ (node.querySelector(`[data-key="${CSS.escape(name)}"]`))?.focus({ preventScroll: true });
  return node;
}

/** Says something to whoever cannot see it. @param {string} text */
export function announce(text) {
  const place = document.getElementById('announcer');
  if (place && place.textContent !== text) place.textContent = text;
}

/** Says something for a moment. @param {string} text */
export function toast(text) {
  document.querySelector('.toast')?.remove();
  const node = h('div.toast', { role: 'alert' }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}

/** @param {number} millis */
export function lasted(millis) {
  const all = Math.max(0, Math.floor(millis / 1000));
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (/** @type {number} */ one) => String(one).padStart(2, '0');
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

/** @param {number} then @param {number} [now] */
export function ago(then, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - then) / 1000));
  if (seconds < 2) return 'now';
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** @param {number} at */
export const clock = (at) => new Date(at).toLocaleTimeString([], { hour12: false });

/** Millionths as money. @param {number} micros */
export const money = (micros) => (micros / 1e6).toFixed(2);

/** @param {number} count @param {string} what */
export const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

/** @param {number} amount */
export function short(amount) {
  if (amount >= 1e6) return `${(amount / 1e6).toFixed(amount >= 1e7 ? 0 : 1)}M`;
  return amount >= 1e4 ? `${Math.round(amount / 1e3)}k` : String(amount);
}

/** The sign of how far a task is, and its words: never the colour alone. */
export const STAGES = /** @type {Record<string, [string, string, string]>} */ ({
  works: ['▸', 'at work', ''], held: ['?', 'needs you', 'bad'], blocked: ['✗', 'blocked', 'warn'],
  landed: ['✓', 'landed', 'good'], next: ['·', 'next', 'quiet'], waits: ['·', 'waits', 'quiet'],
  unreachable: ['·', 'behind a block', 'warn'],
});

/** @param {string} word */
export function standing(word) {
  const kind = word === 'complete' ? 'good' : ['held', 'error'].includes(word) ? 'bad'
    : ['running', ''].includes(word) ? '' : 'warn';
  return h('span.pill', { class: kind }, word || 'unknown');
}

/** A command with a way to copy it. @param {string} words */
export function command(words) {
  const copy = () => navigator.clipboard?.writeText(words).then(() => toast('Copied'), () => toast(words));
  return h('span.cmd', null, h('code', null, words),
    h('button.plain', { type: 'button', onclick: copy, 'aria-label': `Copy: ${words}`, title: 'Copy' }, 'copy'));
}

/** A table. @param {string} caption @param {(string|[string, string])[]} heads @param {Part[][]} rows */
export function table(caption, heads, rows) {
  const head = heads.map((one) => (Array.isArray(one) ? h('th', { scope: 'col', class: one[1] }, one[0]) : h('th', { scope: 'col' }, one)));
  const kind = (/** @type {number} */ at) => (Array.isArray(heads[at]) ? { class: heads[at][1] } : null);
  return h('div.scroll', { tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', null, h('caption.unseen', null, caption), h('thead', null, h('tr', null, head)),
      h('tbody', null, rows.map((row) => h('tr', null, row.map((part, at) => h('td', kind(at), part)))))));
}

/** A list of any length of which only what is seen is there.
 * @param {{label: string, height: number, count: () => number, row: (at: number) => Node, near?: (first: number, last: number) => void}} of */
export function virtual(of) {
  const space = h('div', { style: { position: 'relative' } });
  const node = h('div.virtual', { tabindex: 0, role: 'region', 'aria-label': of.label }, space);
  let first = -1;
  let last = -1;
  const draw = (/** @type {boolean} */ again) => {
    const count = of.count();
    space.style.setProperty('height', `${Math.min(count * of.height, 30e6)}px`);
    const scale = count * of.height > 30e6 ? (count * of.height) / 30e6 : 1;
    const top = Math.max(0, Math.floor((node.scrollTop * scale) / of.height) - 10);
    const end = Math.min(count, top + Math.ceil(node.clientHeight / of.height) + 20);
    if (!again && top === first && end === last) return;
    [first, last] = [top, end];
    of.near?.(top, end);
    const rows = [];
    for (let at = top; at < end; at += 1) {
      const row = /** @type {any} */ (of.row(at));
      row.style.setProperty('top', `${at * of.height - (node.scrollTop * scale - node.scrollTop)}px`);
      rows.push(row);
    }
    space.replaceChildren(...rows);
  };
  node.addEventListener('scroll', () => requestAnimationFrame(() => draw(false)));
  new ResizeObserver(() => draw(true)).observe(node);
  return { node, draw: () => draw(true), to: (/** @type {number} */ at) => { node.scrollTop = at * of.height; draw(true); } };
}
