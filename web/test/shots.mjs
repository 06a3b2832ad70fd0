// Pictures of the page to look at: node test/shots.mjs TEMPLATE OUT_FOLDER [NAME...]

import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';
import {launch} from './browser.mjs';
import {fillTemplate, service, synthetic} from './sample.mjs';

const [template_path, out, ...only] = process.argv.slice(2);
if (!template_path || !out) {
  console.error('usage: node test/shots.mjs TEMPLATE OUT_FOLDER [NAME...]');
  process.exit(2);
}
mkdirSync(out, {recursive: true});
const template = readFileSync(template_path, 'utf8');
const page_of = (name, profile) => {
  const path = resolve(join(out, `${name}.html`));
  writeFileSync(path, profile === null ? template : fillTemplate(template, profile));
  return pathToFileURL(path).href;
};
const empty = {...service(), nodes: {level: [0], name: [0], file: [-1], line: [0], object: [-1], inlined: [0], total: [[0], [0]], self: [[0], [0]]}};
const pages = {
  service: page_of('service', service()), diff: page_of('diff', service({compared: true})),
  large: page_of('large', synthetic({nodes: 50_000})), large_diff: page_of('large_diff', synthetic({nodes: 50_000, compared: true})),
  empty: page_of('empty', empty), unfilled: page_of('unfilled', null), damaged: page_of('damaged', '{"version": 1,'),
};
const service_profile = service();
const function_of = (name) => {
  // Functions are numbered in order of first appearance of (name, object), as the page does.
  const seen = [];
  service_profile.nodes.name.forEach((n, i) => {
    const key = `${n}/${service_profile.nodes.object[i]}`;
    if (!seen.includes(key)) seen.push(key);
  });
  return seen.findIndex((key) => service_profile.names[Number(key.split('/')[0])] === name);
};
const hashes = {
  icicle: ['service', 'view=icicle'], flame: ['service', 'view=flame'],
  search: ['service', 'view=icicle&search=json'], table: ['service', 'view=table'],
  zoom: ['service', 'view=icicle&focus=7'], fold: ['service', 'view=icicle&fold=1'],
  sandwich: ['service', `view=sandwich&function=${function_of('Server::Handle(Request const&)')}`],
  choose: ['service', 'view=sandwich'],
  diff: ['diff', 'view=icicle'], diff_table: ['diff', 'view=table&sort=self_change'],
  large: ['large', 'view=icicle'], large_flame: ['large', 'view=flame'], large_search: ['large', 'view=icicle&search=parse'],
  large_diff: ['large_diff', 'view=icicle'], large_table: ['large', 'view=table'],
  bad_search: ['service', 'view=icicle&search=('], no_match: ['service', 'view=table&search=zzz'],
  empty: ['empty', ''], unfilled: ['unfilled', ''], damaged: ['damaged', ''],
};
const browser = await launch();
try {
  for (const [width, height] of [[1280, 720], [390, 780]]) {
    for (const theme of ['light', 'dark']) {
      const context = await browser.newContext({viewport: {width, height}, colorScheme: theme});
      for (const [name, [page_name, hash]] of Object.entries(hashes).filter(([key]) => only.length === 0 || only.includes(key))) {
        const page = await context.newPage();
        await page.goto(`${pages[page_name]}#${hash}`);
        await page.waitForTimeout(50);
        if (name === 'icicle') await page.mouse.move(width / 2, height / 2 - 60);
        await page.screenshot({path: join(out, `${name}-${width}-${theme}.png`)});
        if (name === 'icicle') {
          await page.keyboard.press('?');
          await page.screenshot({path: join(out, `help-${width}-${theme}.png`)});
          await page.keyboard.press('Escape');
          await page.click('.quality button.plain');
          await page.screenshot({path: join(out, `quality-${width}-${theme}.png`)});
          await page.keyboard.press('Escape');
          await page.mouse.click(width / 2, height / 2 - 60, {button: 'right'});
          await page.screenshot({path: join(out, `menu-${width}-${theme}.png`)});
        }
        await page.close();
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
}
