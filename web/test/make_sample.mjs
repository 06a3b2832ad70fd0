// Makes a page to look at: node test/make_sample.mjs TEMPLATE OUT.html [--nodes N] [--diff] [--folded FILE]

import {readFileSync, writeFileSync} from 'node:fs';
import {fillTemplate, parseFolded, profileOf, service, synthetic} from './sample.mjs';

const [template, out, ...flags] = process.argv.slice(2);
if (!template || !out) {
  console.error('usage: node test/make_sample.mjs TEMPLATE OUT.html [--nodes N] [--diff] [--folded FILE]');
  process.exit(2);
}
const valueOf = (flag) => (flags.includes(flag) ? flags[flags.indexOf(flag) + 1] : null);
const compared = flags.includes('--diff');
const folded = valueOf('--folded');
const profile = folded !== null ? profileOf(parseFolded(readFileSync(folded, 'utf8')), {title: folded})
    : valueOf('--nodes') !== null ? synthetic({nodes: Number(valueOf('--nodes')), compared})
    : service({compared});
writeFileSync(out, fillTemplate(readFileSync(template, 'utf8'), profile));
