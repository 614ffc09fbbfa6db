'use strict';
// Has runners of node tell ftl which tests ran. Loaded first into every program of node; only a runner does more than
// hand on what it found. What a runner starts no longer sees the file's name in its environment.
const { basename, join } = require('path');

const file = process.env.FTL_REPORT;

function take() {
  delete process.env.FTL_REPORT;
  for (const name of Object.keys(process.env).filter((name) => name.startsWith('FTL_REPORT_'))) {
    const value = process.env[name];
    delete process.env[name];
    const real = name.slice('FTL_REPORT_'.length);
    if (value) process.env[real] = value;
    else delete process.env[real];
  }
}

// `node --test`: the runner is started again with a reporter of ours on a descriptor of its own.
function startRunner() {
  const { openSync, writeSync } = require('fs');
  const { spawnSync } = require('child_process');
  const id = `node --test-${process.pid}`;
  const report = openSync(file, 'a');
  const say = (...cells) => writeSync(report, `${cells.join('\t')}\n`);
  const given = process.execArgv.filter((word) => word.split('=')[0] === '--test-reporter').length;
  const sent = process.execArgv.filter((word) => word.split('=')[0] === '--test-reporter-destination').length;
  const more = [];
  if (given === 0) more.push(`--test-reporter=${Number(process.versions.node.split('.')[0]) < 23 ? 'tap' : 'spec'}`);
  if (sent === 0) more.push('--test-reporter-destination=stdout');
  more.push(`--test-reporter=${join(__dirname, 'node_reporter.mjs')}`, '--test-reporter-destination=stderr');
  take();
  process.env.FTL_REPORT_ID = id;
  say('start', id, 'node --test');
  const words = [...process.execArgv, ...more, ...process.argv.slice(1)];
  const ended = spawnSync(process.execPath, words, { stdio: ['inherit', 'inherit', 'inherit', report] });
  if (ended.signal) process.kill(process.pid, ended.signal);
  say('end', id, ended.status === null ? 1 : ended.status);
  process.exit(ended.status === null ? 1 : ended.status);
}

function meetRunner() {
  const program = process.argv[1] || '';
  const name = basename(program).replace(/\.[cm]?js$/, '');
  const has = (flag) => process.argv.some((word) => word === flag || word.startsWith(`${flag}=`));
  const isHelp = ['--help', '-h', '--version', '-v', '--listTests', '--showConfig', '--init'].some(has);
  if (name === 'jest' && !isHelp && !has('--testResultsProcessor')) {
    const told = require('./jest_results.cjs');
    process.argv.push(`--testResultsProcessor=${join(__dirname, 'jest_results.cjs')}`);
    globalThis[Symbol.for('ftl.report')] = told.begin(file);
    take();
  } else if (name === 'vitest' && !isHelp && !has('--reporter') && !has('list') && !namesReporters()) {
    process.argv.push('--reporter=default', `--reporter=${join(__dirname, 'vitest_reporter.mjs')}`);
    globalThis[Symbol.for('ftl.report')] = { file };
    take();
  }
}

// Reporters of the settings would be replaced by those of the command line.
function namesReporters() {
  const { readFileSync } = require('fs');
  const names = ['vitest.config', 'vite.config', 'vitest.workspace', 'vitest.projects'];
  const endings = ['ts', 'js', 'mts', 'mjs', 'cts', 'cjs', 'json'];
  return names.flatMap((name) => endings.map((ending) => `${name}.${ending}`)).some((name) => {
    try {
      return /\breporters\b/.test(readFileSync(name, 'utf8'));
    } catch {
      return false;
    }
  });
}

if (file) {
  const isRunner = process.execArgv.includes('--test') && !process.env.NODE_TEST_CONTEXT;
  const isWatching = process.execArgv.some((word) => word.startsWith('--watch'));
  if (isRunner && !isWatching && require('worker_threads').isMainThread) startRunner();
  else if (require('worker_threads').isMainThread) meetRunner();
}
