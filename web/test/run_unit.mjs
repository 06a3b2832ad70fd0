// Bundles each test with esbuild (a part of vite) and hands the bundles to node's own test runner.

import {spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
// The document's own example is a test: a format is what its description says.
const document = readFileSync(
    process.env.PTARMIGAN_FORMAT_DOCUMENT ?? join(here, '../../docs/formats/html-data.md'), 'utf8');
const example = /```json\n([\s\S]*?)```/.exec(document)[1];
const out = mkdtempSync(join(tmpdir(), 'ptarmigan-web-'));
try {
  await build({
    entryPoints: readdirSync(here).filter((name) => name.endsWith('_test.mjs')).map((name) => join(here, name)),
    bundle: true, platform: 'node', format: 'esm', target: 'node18', outdir: out,
    outExtension: {'.js': '.mjs'}, logLevel: 'warning', define: {EXAMPLE: JSON.stringify(example)}, sourcemap: 'inline',
  });
  const tests = readdirSync(out).filter((name) => name.endsWith('.mjs')).map((name) => join(out, name));
  const run = spawnSync(process.execPath, ['--enable-source-maps', '--test', ...tests], {stdio: 'inherit', timeout: 580_000});
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(out, {recursive: true, force: true});
}
