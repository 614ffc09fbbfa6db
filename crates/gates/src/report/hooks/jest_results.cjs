'use strict';
// Writes what jest found in the process that started the workers, once all have ended.
const { openSync, writeSync } = require('fs');
const { relative } = require('path');

const cell = (text) => String(text).replace(/\t/g, ' ').replace(/\n/g, '\\n').replace(/\r/g, '\\r');

module.exports = function tell(results) {
  const report = globalThis[Symbol.for('ftl.report')];
  if (!report) return results;
  const from = process.cwd();
  let count = 0;
  for (const one of results.testResults) {
    const file = relative(from, one.testFilePath);
    for (const test of one.testResults) {
      if (test.status === 'todo') continue;
      const outcome = test.status === 'passed' ? 'passed' : test.status === 'failed' ? 'failed' : 'skipped';
      report.say('test', report.id, outcome, file, [file, ...test.ancestorTitles, test.title].join(' > '));
      count += 1;
    }
    if (one.testExecError || (one.failureMessage && one.testResults.length === 0)) {
      report.say('test', report.id, 'failed', file, file);
    }
  }
  report.say('collected', report.id, count);
  report.say('end', report.id, results.success ? 0 : 1);
  return results;
};

module.exports.begin = function begin(path) {
  const file = openSync(path, 'a');
  const say = (...cells) => writeSync(file, `${cells.map(cell).join('\t')}\n`);
  const id = `jest-${process.pid}`;
  say('start', id, 'jest');
  return { id, say };
};
