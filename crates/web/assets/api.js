// @ts-check
// What the server says. The token of the session lives in this tab alone and is sent as a header: no cookie carries it.

const TOKEN = 'ftl-token';
/** @type {{by: string, may: string[], repo: string, version: string}} */
export const me = { by: '', may: ['look'], repo: '', version: '' };

/** A run that stands in this file: an export has no server behind it.
 * @type {Record<string, any>|null} */
let file = null;

/** Answers out of a file from now on. @param {Record<string, any>} data */
export function readFrom(data) {
  file = data;
  Object.assign(me, data.me);
}

export const isFile = () => file !== null;

/** The moment that is in the file and comes next to an entry. @param {number} at @param {number} by */
export function nearest(at, by) {
  if (!file || !at) return at;
  const all = /** @type {number[]} */ (file.moments);
  return (by < 0 ? all.findLast((one) => one <= at) : all.find((one) => one >= at)) ?? 0;
}

/** Checks the hash chain of the file. @returns {Promise<string>} */
export async function checkChain() {
  if (!file) return '';
  const letters = new TextEncoder();
  const hex = (/** @type {Uint8Array} */ bytes) => Array.from(bytes, (one) => one.toString(16).padStart(2, '0')).join('');
  const digest = async (/** @type {Uint8Array} */ bytes) => new Uint8Array(await crypto.subtle.digest('SHA-256', /** @type {any} */ (bytes)));
  let hash = await digest(letters.encode(`ftl journal 1\n${file.run}`));
  for (const [seq, epoch, body, claimed] of file.journal) {
    const text = letters.encode(body);
    const all = new Uint8Array(48 + text.length);
    all.set(hash);
    const view = new DataView(all.buffer);
    view.setBigUint64(32, BigInt(seq));
    view.setBigUint64(40, BigInt(epoch));
    all.set(text, 48);
    hash = await digest(all);
    if (hex(hash) !== claimed) return `✗ the chain breaks at entry ${seq}: this file was changed`;
  }
  return `✓ ${file.journal.length} entries, their chain is whole; head ${hex(hash).slice(0, 16)}`;
}

/** What the server refuses, in the words of the command line. */
export class Refused extends Error {
  /** @param {number} status @param {{message: string, hint: string}} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
  }
}

/** @param {string} method @param {string} path @param {any} [body] @param {Record<string, string>} [more] */
async function ask(method, path, body, more) {
  if (file) {
    const entry = /\/entries\/(\d+)$/.exec(path);
    if (entry) {
      const [seq, epoch, body, hash, shown] = file.journal[Number(entry[1]) - 1];
      return { entry: JSON.parse(shown ?? body), epoch, hash, run: file.run, line: `entry ${seq}` };
    }
    const found = /[?&]q=([^&]*)/.exec(path);
    if (found) return search(decodeURIComponent(found[1]));
    const known = file.answers[path] ?? file.answers[path.split('?')[0]];
    if (method !== 'GET' || known === undefined) throw new Refused(404, { message: 'this is not in the file', hint: 'look at the run with `ftl serve`' });
    return known;
  }
  const headers = /** @type {Record<string, string>} */ ({ ...more });
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  const answer = await fetch(`/api/v1/${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const document = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, document.error);
  return document;
}

/** Lines of the file's journal that hold a text. @param {string} words */
function search(words) {
  const pages = Object.entries(/** @type {any} */ (file).answers).filter(([path]) => path.includes('/entries?')).map(([, page]) => page);
  const rows = pages.flatMap((page) => page.rows).filter((row) => String(row[4]).toLowerCase().includes(words.toLowerCase()));
  return { rows: rows.slice(0, 500), head: 0, searched: 0, columns: [] };
}

/** @param {string} path @returns {Promise<any>} */
export const get = (path) => ask('GET', path);
/** @param {string} path @param {any} body @param {Record<string, string>} [more] @returns {Promise<any>} */
export const post = (path, body, more) => ask('POST', path, body, more);

/** Opens the session: with the ticket of the address, or with the token of this tab. */
export async function open() {
  if (file) return;
  const ticket = /^#ticket=([0-9a-f]+)$/.exec(location.hash);
  if (ticket) {
    history.replaceState(null, '', location.pathname);
    const session = await post('session', { ticket: ticket[1] });
    sessionStorage.setItem(TOKEN, session.token);
    delete session.token;
    sessionStorage.setItem('ftl-me', JSON.stringify(session));
  }
  Object.assign(me, JSON.parse(sessionStorage.getItem('ftl-me') ?? '{}'));
  await get('runs?open&limit=0');
}

/** Follows what changes until told to stop. After every break everything is read anew.
 * @param {string|null} run @param {(event: string, data: any) => void} hear @returns {() => void} */
export function follow(run, hear) {
  const end = new AbortController();
  const read = async () => {
    let wait = 250;
    let isAgain = false;
    while (!end.signal.aborted) {
      try {
        const headers = { authorization: `Bearer ${sessionStorage.getItem(TOKEN)}` };
        const answer = await fetch(`/api/v1/events${run ? `?run=${run}` : ''}`, { headers, signal: end.signal });
        if (!answer.ok || !answer.body) throw new Refused(answer.status, (await answer.json()).error);
        hear('open', {});
        if (isAgain) hear('resync', {});
        wait = 250;
        await pieces(answer.body.getReader(), hear);
      } catch (error) {
        if (end.signal.aborted) return;
        hear('broken', { status: /** @type {any} */ (error).status });
      }
      isAgain = true;
      await new Promise((done) => { setTimeout(done, wait); });
      wait = Math.min(wait * 2, 5000);
    }
  };
  if (!file) read();
  return () => end.abort();
}

/** @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {(event: string, data: any) => void} hear */
async function pieces(reader, hear) {
  const letters = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += letters.decode(value, { stream: true });
    for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
      const [event, data] = ['event: ', 'data: '].map((word) => text.slice(0, at).split('\n').find((line) => line.startsWith(word))?.slice(word.length));
      text = text.slice(at + 2);
      if (event && data) hear(event, JSON.parse(data));
    }
  }
}
