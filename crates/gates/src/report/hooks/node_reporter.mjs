// Writes one line for each test that ended to the descriptor that the runner's parent opened.
import { writeSync } from 'node:fs';
import { relative } from 'node:path';

const id = process.env.FTL_REPORT_ID;
delete process.env.FTL_REPORT_ID;
const from = process.cwd();
const cell = (text) => String(text).replace(/\t/g, ' ').replace(/\n/g, '\\n').replace(/\r/g, '\\r');
const say = (...cells) => writeSync(3, `${cells.map(cell).join('\t')}\n`);
const above = new Map();

export default async function* report(source) {
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      const stack = above.get(data.file) ?? [];
      stack[data.nesting] = data.name;
      stack.length = data.nesting + 1;
      above.set(data.file, stack);
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite') continue;
    const file = data.file ? relative(from, data.file) : '';
    const skipped = data.skip !== undefined || data.todo !== undefined;
    const outcome = skipped ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed';
    const names = (above.get(data.file) ?? []).slice(0, data.nesting);
    // A file without tests is run as one test that has its path as name: it counts only where it fails.
    if (data.nesting === 0 && data.file && data.name === data.file) {
      if (outcome === 'failed') say('test', id, outcome, file, file);
      continue;
    }
    say('test', id, outcome, file, [file, ...names, data.name].join(' > '));
  }
}
