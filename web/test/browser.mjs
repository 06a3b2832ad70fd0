// A headless Chromium with a fresh profile folder that does nothing on its own.

import {existsSync} from 'node:fs';
import {chromium} from 'playwright-core';

export const kChromium = process.env.PTARMIGAN_CHROMIUM ?? '/usr/bin/chromium';

export function chromiumMissing() {
  return existsSync(kChromium) ? null : `${kChromium} is not there; install chromium or set PTARMIGAN_CHROMIUM`;
}

/** Playwright gives it an empty user-data-dir under the temporary folder and removes that at the end. */
export function launch() {
  return chromium.launch({
    executablePath: kChromium, headless: true, timeout: 180_000,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
           '--disable-component-update', '--disable-sync'],
  });
}
