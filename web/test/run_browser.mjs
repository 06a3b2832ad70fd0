// Builds the page, then drives it in headless Chromium: a file:// page with no network at all.
// PTARMIGAN_TEMPLATE names a report.html that is built already. Skips, with the reason, without a browser.

import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const out = mkdtempSync(join(tmpdir(), 'ptarmigan-page-'));
try {
  let template = process.env.PTARMIGAN_TEMPLATE;
  if (!template) {
    const {build} = await import('vite');
    await build({root, logLevel: 'warn', build: {outDir: join(out, 'dist'), emptyOutDir: true}});
    template = join(out, 'dist/report.html');
  }
  const run = spawnSync(process.execPath, ['--test', join(root, 'test/page.mjs')], {
    stdio: 'inherit', timeout: 580_000, env: {...process.env, PTARMIGAN_TEMPLATE: template, PTARMIGAN_PAGES: out},
  });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(out, {recursive: true, force: true});
}
