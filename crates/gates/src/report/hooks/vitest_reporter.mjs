// Writes what vitest found, in the process that starts its workers: one line for each test as its file ends.
import { openSync, writeSync } from 'node:fs';
import { relative } from 'node:path';

const given = globalThis[Symbol.for('ftl.report')];
const cell = (text) => String(text).replace(/\t/g, ' ').replace(/\n/g, '\\n').replace(/\r/g, '\\r');

export default class Report {
  constructor() {
    if (!given) return;
    this.file = openSync(given.file, 'a');
    this.id = `vitest-${process.pid}`;
    this.say('start', this.id, 'vitest');
  }

  say(...cells) {
    if (this.file !== undefined) writeSync(this.file, `${cells.map(cell).join('\t')}\n`);
  }

  onFinished(files = [], errors = []) {
    const from = process.cwd();
    let failed = errors.length;
    for (const one of files) {
      const path = relative(from, one.filepath ?? one.name);
      const count = this.tell(one.tasks ?? [], path, [path]);
      failed += count.failed;
      if (one.result?.state === 'fail' && count.failed === 0) {
        this.say('test', this.id, 'failed', path, path);
        failed += 1;
      }
    }
    this.say('end', this.id, failed > 0 ? 1 : 0);
  }

  tell(tasks, path, above) {
    const count = { failed: 0 };
    for (const task of tasks) {
      const names = [...above, task.name];
      if (task.type === 'suite') {
        count.failed += this.tell(task.tasks, path, names).failed;
        continue;
      }
      const state = task.result?.state;
      const outcome = state === 'pass' ? 'passed' : state === 'fail' ? 'failed' : 'skipped';
      if (outcome === 'failed') count.failed += 1;
      if (task.mode !== 'todo') this.say('test', this.id, outcome, path, names.join(' > '));
    }
    return count;
  }

  onTestRunEnd(modules = [], errors = []) {
    const files = modules.map((one) => one.task).filter(Boolean);
    this.onFinished(files, errors);
  }
}
