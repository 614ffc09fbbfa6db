// Looks at the page in a real browser: `node tools/web/look.mjs SCENE JSON`. The last line of what it prints is what it found.
// Scenes: pages, answers, plan, work, live, file, bench. Pictures go to $FTL_PICTURES.

import { createRequire } from 'node:module';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(new URL('../../target/web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');
const [scene, text] = process.argv.slice(2);
const what = JSON.parse(text);
const pictures = process.env.FTL_PICTURES ?? fileURLToPath(new URL('../../target/web/pictures', import.meta.url));
mkdirSync(pictures, { recursive: true });
const faults = [];
const found = { faults, pages: 0 };

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const profile = mkdtempSync(join(tmpdir(), 'ftl-look-'));

/** A browser with a new profile. */
async function browser(options = {}) {
  const context = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args: FLAGS, viewport: { width: 1280, height: 900 }, ...options });
  const page = context.pages()[0] ?? await context.newPage();
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(`console: ${message.text()}`); });
  page.on('dialog', (dialog) => { faults.push(`somebody's script ran: ${dialog.message()}`); dialog.dismiss(); });
  page.setDefaultTimeout(20000);
  // The page as it stands in the tree, not in the binary: for whoever changes it.
  if (process.env.FTL_ASSETS) {
    const kinds = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html' };
    await context.route((url) => !url.pathname.startsWith('/api/') && url.protocol === 'http:', (route) => {
      const name = new URL(route.request().url()).pathname.slice(1) || 'index.html';
      const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; require-trusted-types-for 'script'; trusted-types 'none'";
      route.fulfill({ path: join(process.env.FTL_ASSETS, name), contentType: kinds[name.split('.').pop()], headers: { 'content-security-policy': policy } });
    });
  }
  return { context, page };
}

/** Goes to a place of the page and waits until it is shown. */
async function go(page, hash) {
  await page.evaluate((to) => { delete document.getElementById('main').dataset.ready; location.hash = to; }, hash);
  await page.waitForFunction((to) => document.getElementById('main').dataset.ready === to, hash);
  await page.waitForTimeout(150);
}

/** What axe-core finds. */
async function access(page, name) {
  // The policy of the page forbids other scripts: this one comes by the debugger.
  await page.evaluate(require('node:fs').readFileSync(axe, 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
  for (const one of violations) faults.push(`${name}: ${one.id}: ${one.nodes.slice(0, 2).map((node) => `${node.target} ${node.failureSummary.replace(/\s+/g, ' ').slice(0, 160)}`).join(' | ')}`);
  found.pages += 1;
}

const picture = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });

const scenes = {
  async pages() {
    const { context, page } = await browser();
    await page.goto(what.address);
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    const places = [['you', '#/'], ['runs', '#/runs'], ...['graph', 'tasks', 'timeline', 'money', 'journal', 'changes', 'report'].map((tab) => [tab, `#/runs/${what.run}/${tab}`]), ['task', `#/runs/${what.run}/tasks/001`], ['then', `#/runs/${what.run}/tasks?at=60`], ['blocked', `#/runs/${what.run}/tasks/004`], ['lessons', '#/lessons'], ['lesson', '#/lessons/shell-reads-08-as-octal'], ['protocols', '#/protocols'], ['protocol', '#/protocols/builder'], ['new', '#/new'], ['system', '#/system']];
    for (const scheme of ['light', 'dark']) {
      await page.evaluate((to) => { document.documentElement.dataset.theme = to; localStorage.setItem('ftl-theme', to); }, scheme);
      for (const [name, hash] of places) {
        await go(page, hash);
        await access(page, `${name} ${scheme}`);
        for (const width of [1280, ...(['you', 'graph', 'task', 'changes', 'protocol', 'timeline'].includes(name) ? [360, 1920] : [])]) {
          await page.setViewportSize({ width, height: 900 });
          await page.waitForTimeout(80);
          await picture(page, `${name}-${scheme}-${width}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (wide > 0) faults.push(`${name} at ${width}: it is ${wide} px too wide`);
        }
        await page.setViewportSize({ width: 1280, height: 900 });
      }
    }
    await go(page, `#/runs/${what.run}/tasks`);
    const before = await page.locator('main').innerText();
    await page.locator('input[type=range]').fill('40');
    await page.waitForFunction(() => document.querySelector('.then'));
    if ((await page.locator('main').innerText()) === before) faults.push('the slider moved nothing');
    if (!page.url().includes('at=40')) faults.push(`the address is no link to the moment: ${page.url()}`);
    await page.keyboard.press('Escape');
    await page.locator('h1').first().click();
    await page.keyboard.press('g');
    await page.keyboard.press('r');
    await page.waitForFunction(() => document.title.startsWith('Runs') || / Runs /.test(document.title));
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
    await access(page, 'keys');
    await context.close();
  },

  async answers() {
    const { context, page } = await browser();
    await page.goto(what.address);
    const card = page.locator('section.need.question');
    await card.waitFor();
    const words = await page.locator('main').innerText();
    if (await page.locator('main b').count()) faults.push('hostile words became markup');
    if (!words.includes('</script><b>') || !words.includes('⟨U+202E⟩')) faults.push(`hostile words are not shown as they are: ${words}`);
    await picture(page, 'answers');
    await card.getByRole('button', { name: 'yes' }).click();
    await card.waitFor({ state: 'detached' });
    await go(page, `#/runs/${what.spent}/graph`);
    const raise = page.getByRole('button', { name: /^Raise/ });
    await raise.click();
    const dialog = page.locator('dialog[open]');
    await access(page, 'dialog');
    await dialog.locator('#ask-reason').fill('one more round');
    await dialog.locator('#ask-name').fill('Somebody');
    await dialog.locator('button[type=submit]').click();
    await page.getByText('Type your name as it stands').waitFor();
    await dialog.locator('#ask-name').fill(what.name);
    await dialog.locator('button[type=submit]').click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'yes' }).waitFor();
    await picture(page, 'raised');
    await context.close();
  },

  /** A flow is planned only, its plan is shown, and built with a button. */
  async plan() {
    const { context, page } = await browser();
    await page.goto(what.address);
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    await go(page, '#/new');
    await page.locator('#objective').fill('make the till work');
    await page.getByRole('button', { name: 'Plan only' }).click();
    const build = page.getByRole('button', { name: 'Build this plan' });
    await build.waitFor();
    await access(page, 'plan');
    await picture(page, 'plan');
    await build.click();
    await page.waitForFunction(() => /#\/runs\/[a-z0-9]+\/graph/.test(location.hash));
    await page.getByText('001 count-money').first().waitFor({ state: 'attached' });
    found.run = page.url().split('/').at(-2);
    await context.close();
  },

  /** A held run is overridden, a blocked one looked at: its diff, its kept work. */
  async work() {
    const { context, page } = await browser();
    await page.goto(what.address);
    const blocked = page.locator('section.need.blocked');
    await blocked.waitFor();
    await picture(page, 'inbox');
    await access(page, 'inbox');
    if (!(await blocked.innerText()).includes('002 bad')) faults.push('the card of a blocked task does not name it');
    await blocked.getByRole('link', { name: 'What was kept' }).click();
    const back = page.getByRole('button', { name: 'Bring it back on a branch' });
    await back.waitFor();
    const shown = await page.locator('main').innerText();
    if (!shown.includes('<img src=x') || !shown.includes('⟨U+202E⟩')) faults.push(`a hostile diff is not shown as it is: ${shown}`);
    if (await page.locator('main img').count()) faults.push('a hostile diff became markup');
    await page.getByRole('button', { name: 'Side by side' }).click();
    await page.locator('.diff.split-view').first().waitFor();
    await access(page, 'diff');
    await picture(page, 'diff');
    await page.keyboard.press('n');
    await back.click();
    await page.getByText(/It is on the branch salvage/).waitFor();
    await go(page, `#/runs/${what.held}/graph`);
    await page.getByRole('button', { name: /^Override to DONE/ }).click();
    const dialog = page.locator('dialog[open]');
    await dialog.locator('#ask-reason').fill('it is known');
    await dialog.locator('#ask-name').fill(what.name);
    await dialog.locator('button[type=submit]').click();
    await dialog.waitFor({ state: 'detached' });
    await page.locator('.pill', { hasText: 'complete' }).first().waitFor();
    await go(page, '#/');
    await page.locator('section.need.blocked').getByRole('button', { name: 'Put it away' }).click();
    await page.locator('section.need.blocked').waitFor({ state: 'detached' });
    await context.close();
  },

  /** A campaign is watched while it runs; its driver is killed, and the page lets it go on. */
  async live() {
    const { context, page } = await browser();
    await page.goto(what.address);
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    await go(page, `#/runs/${what.run}/tasks`);
    const stands = (word) => page.locator('.pill', { hasText: word }).first().waitFor();
    await page.getByText('▸ at work').waitFor();
    await picture(page, 'live');
    process.kill(what.pid, 'SIGKILL');
    await stands('interrupted');
    writeFileSync(what.meet, '');
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByText('✓ landed').waitFor();
    await stands('complete');
    await access(page, 'live');
    await context.close();
  },

  async file() {
    const { context, page } = await browser();
    const foreign = [];
    page.on('request', (request) => { if (!/^(file|data):/.test(request.url())) foreign.push(request.url()); });
    await page.goto(`file://${what.whole}`);
    await page.locator('#chain.good').waitFor();
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    await access(page, 'file');
    await picture(page, 'file');
    await page.getByRole('link', { name: 'Journal' }).click();
    await page.locator('.virtual .line').first().waitFor();
    if (foreign.length) faults.push(`the file asked for ${foreign}`);
    await page.goto(`file://${what.changed}`);
    await page.locator('#chain.bad').waitFor();
    const text = await page.locator('#chain').innerText();
    if (!/breaks at entry \d+/.test(text)) faults.push(`the change was not found: ${text}`);
    await context.close();
  },

  /** The figures of docs/serve.md. */
  async bench() {
    const { context, page } = await browser();
    const at = (list, part) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))];
    let bytes = 0;
    page.on('response', async (response) => { bytes += (await response.body().catch(() => '')).length; });
    await page.goto(what.address);
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    bytes = 0;
    const began = await page.evaluate(() => { sessionStorage.setItem('x', '1'); return 0; });
    await page.reload();
    await page.waitForFunction(() => document.getElementById('main').dataset.ready);
    found.first_picture_ms = await page.evaluate(() => Math.round(performance.now())) - began;
    await page.waitForTimeout(300);
    found.first_picture_bytes = bytes;
    if (what.wide) {
      const start = Date.now();
      await go(page, `#/runs/${what.wide}/graph`);
      await page.locator('canvas').waitFor();
      found.graph_ready_ms = Date.now() - start;
      const frames = await page.evaluate(async () => {
        const surface = document.querySelector('canvas');
        const times = [];
        for (let step = 0; step < 120; step += 1) {
          const before = performance.now();
          surface.dispatchEvent(new WheelEvent('wheel', { deltaX: 20, deltaY: step % 7, bubbles: true, cancelable: true }));
          await new Promise((done) => { surface.parentElement.addEventListener('drawn', done, { once: true }); });
          times.push(performance.now() - before);
        }
        return times;
      });
      [found.pan_p50_ms, found.pan_p95_ms] = [at(frames, 0.5), at(frames, 0.95)];
      await picture(page, 'wide');
      const whole = await page.evaluate(async () => {
        // The same graph as one drawing, as a yardstick.
        const [graph, tasks] = await Promise.all(['graph', 'tasks'].map(async (part) => (await fetch(`/api/v1/runs/${location.hash.split('/')[2]}/${part}`, { headers: { authorization: `Bearer ${sessionStorage.getItem('ftl-token')}` } })).json()));
        const start = performance.now();
        const { drawing } = await import('/graph.js');
        const node = drawing(graph, tasks.rows, () => '#');
        document.getElementById('main').replaceChildren(node);
        await new Promise((done) => { requestAnimationFrame(() => setTimeout(done, 0)); });
        return performance.now() - start;
      });
      found.whole_svg_ms = Math.round(whole);
    }
    if (what.long) {
      await go(page, `#/runs/${what.long}/journal`);
      const jumps = await page.evaluate(async () => {
        const list = document.querySelector('.virtual');
        const times = [];
        for (let step = 0; step < 100; step += 1) {
          const before = performance.now();
          list.scrollTop = ((step * 7919) % 100) / 100 * list.scrollHeight;
          await new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });
          times.push(performance.now() - before);
        }
        return { times, nodes: list.querySelectorAll('*').length };
      });
      [found.scroll_p50_ms, found.scroll_p95_ms, found.scroll_nodes] = [at(jumps.times, 0.5), at(jumps.times, 0.95), jumps.nodes];
      const seeks = await page.evaluate(async () => {
        const run = location.hash.split('/')[2];
        const headers = { authorization: `Bearer ${sessionStorage.getItem('ftl-token')}` };
        const head = (await (await fetch(`/api/v1/runs/${run}`, { headers })).json()).head;
        const times = [];
        for (let step = 1; step <= 20; step += 1) {
          const before = performance.now();
          await (await fetch(`/api/v1/runs/${run}/tasks?at=${Math.floor((head * ((step * 13) % 20)) / 20) + 1}`, { headers })).json();
          times.push(performance.now() - before);
        }
        return { times, head };
      });
      // The slider itself, until the page shows the moment.
      await go(page, `#/runs/${what.long}/tasks`);
      const moved = await page.evaluate(async () => {
        const slider = document.querySelector('input[type=range]');
        const times = [];
        for (let step = 1; step <= 15; step += 1) {
          const to = Math.floor((Number(slider.max) * ((step * 7) % 15)) / 15) + 1;
          const before = performance.now();
          slider.value = String(to);
          slider.dispatchEvent(new Event('input'));
          while (!document.querySelector('.then')?.textContent.includes(`entry ${to}.`)) await new Promise((done) => { setTimeout(done, 4); });
          times.push(performance.now() - before);
        }
        return times;
      });
      [found.slider_p50_ms, found.slider_p95_ms] = [at(moved, 0.5), at(moved, 0.95)];
      [found.seek_p50_ms, found.seek_p95_ms, found.entries] = [at(seeks.times, 0.5), at(seeks.times, 0.95), seeks.head];
    }
    await context.close();
  },
};

try {
  await scenes[scene]();
} catch (error) {
  faults.push(`${scene}: ${error.message}`);
} finally {
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify(found));
process.exit(0);
