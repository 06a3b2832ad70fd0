import {test} from 'node:test';
import assert from 'node:assert/strict';
import {kNodesMax, parseProfile, ProfileError} from '../src/profile/parse.ts';
import {functionRows, sortRows} from '../src/profile/rows.ts';
import {fillTemplate, kSampleNs, parseFolded, profileOf, sampleQuality, service, synthetic} from './sample.mjs';

/** The sentence that a damaged profile gets. */
function sentence(damage) {
  const profile = service({compared: true});
  damage(profile);
  return sentenceOf(JSON.stringify(profile));
}

function sentenceOf(text) {
  try {
    parseProfile(text);
  } catch (error) {
    assert.ok(error instanceof ProfileError, `not a sentence for people: ${error.stack}`);
    return error.message;
  }
  return assert.fail('it was read');
}

test('a profile is read with its types, symbols, places and both sides', () => {
  const profile = parseProfile(JSON.stringify(service({compared: true})));
  assert.equal(profile.title, 'pricing 2.4.1 against 2.4.0');
  assert.equal(profile.other_title, 'pricing 2.4.0');
  assert.deepEqual(profile.sample_types[profile.default_type], {type: 'cpu', unit: 'nanoseconds'});
  const parse = profile.symbols.name.indexOf('json::Parser::Value(std::string_view, int)');
  assert.equal(profile.symbols.place[parse], 'src/json.cc:210');
  assert.equal(profile.symbols.object[parse], '/opt/pricing/bin/pricing');
  assert.equal(profile.tree.series[0].total[0], 1368);
  assert.equal(profile.tree.series[1].total[0], 1368 * kSampleNs);
  assert.equal(profile.tree.other[0].total[0], 1258);
});

test('the example of the format document is read', () => {
  const text = EXAMPLE;
  const profile = parseProfile(text);
  assert.equal(profile.tree.size, 3);
  assert.deepEqual([...profile.tree.inlined], [0, 0, 1]);
  assert.deepEqual(profile.quality.lost, [{label: 'decode: ring overrun', count: 2, remedy: ''}]);
  assert.deepEqual(profile.pruned, {nodes: 812, total: [3, 31000000]});
  // It is what its own rules ask for.
  for (const series of [...profile.tree.series, ...profile.tree.other]) {
    for (let i = 0; i < profile.tree.size; i++) {
      let kids = 0;
      for (let k = 0; k < profile.tree.size; k++) if (profile.tree.parent[k] === i) kids += series.total[k];
      assert.equal(series.total[i], series.self[i] + kids);
    }
  }
});

test('functions of one name in two objects are two, in one object one', () => {
  const profile = parseProfile(JSON.stringify(profileOf(parseFolded('a@x;init@x 1\na@x;init@y 2\nb@x;init@x 4'))));
  const inits = profile.symbols.name.filter((name) => name === 'init').length;
  assert.equal(inits, 2);
});

test('keys that are not known are ignored, keys that are optional may be absent', () => {
  const profile = service();
  delete profile.quality;
  delete profile.pruned;
  profile.future = {anything: [1]};
  const read = parseProfile(JSON.stringify(profile));
  assert.equal(read.quality, null);
  assert.equal(read.pruned, null);
  assert.equal(read.tree.other, null);
});

test('losses come largest first, with stage, reason and remedy', () => {
  const quality = sampleQuality(1000);
  quality.lost.push({stage: 'unwind', reason: 'no code', count: 40});
  const read = parseProfile(JSON.stringify({...service(), quality})).quality;
  assert.deepEqual(read.lost.map((entry) => entry.label), ['unwind: no code', 'capture: ring full']);
  assert.match(read.lost[1].remedy, /larger ring/);
});

test('every kind of damage gets a sentence', () => {
  assert.match(sentenceOf('/*PLACE*/'), /holds no profile yet/);
  assert.match(sentenceOf(''), /holds no profile yet/);
  assert.match(sentenceOf('{"version": 1,'), /damaged/);
  assert.match(sentenceOf('[]'), /not an object/);
  assert.match(sentenceOf('null'), /not an object/);
  assert.match(sentenceOf('{}'), /does not say its version/);
  assert.match(sentence((p) => { p.version = 2; }), /version 2.*up to 1/);
  assert.match(sentence((p) => { p.sample_types = []; }), /sample_types/);
  assert.match(sentence((p) => { p.sample_types = [{}, {}]; }), /no type at 0/);
  assert.match(sentence((p) => { delete p.nodes; }), /"nodes" is missing/);
  assert.match(sentence((p) => { p.nodes.level = []; }), /"nodes" is empty/);
  assert.match(sentence((p) => { p.nodes.level[0] = 1; }), /starts with 1/);
  assert.match(sentence((p) => { p.nodes.level[3] = 9; }), /from 2 to 9 at node 3/);
  assert.match(sentence((p) => { p.nodes.level[3] = 0; }), /from 2 to 0 at node 3/);
  assert.match(sentence((p) => { p.nodes.name[2] = 1e6; }), /"nodes.name" is 1000000 at node 2/);
  assert.match(sentence((p) => { p.nodes.name[2] = -1; }), /"nodes.name" is -1/);
  assert.match(sentence((p) => { p.nodes.object[2] = -2; }), /"nodes.object" is -2/);
  assert.match(sentence((p) => { p.nodes.file[2] = 0.5; }), /"nodes.file" is 0.5/);
  assert.match(sentence((p) => { p.nodes.inlined[2] = 2; }), /"nodes.inlined" is 2/);
  assert.match(sentence((p) => { p.nodes.line.pop(); }), /"nodes.line" has/);
  assert.match(sentence((p) => { p.nodes.total.pop(); }), /"nodes.total" needs one list for each of the 2/);
  assert.match(sentence((p) => { p.nodes.self[1][3] = null; }), /"nodes.self\[1\]" holds something that is not a number, at 3/);
  assert.match(sentence((p) => { p.other.total[0].push(1); }), /"other.total\[0\]" has/);
  assert.match(sentence((p) => { p.names[1] = 7; }), /"names" holds/);
  assert.match(sentence((p) => { p.files = {}; }), /"files" is not a list/);
});

test('the limit of nodes holds at the limit', () => {
  const nodes = (count) => `{"version":1,"sample_types":[{"type":"x"}],"nodes":{"level":[0${',1'.repeat(count - 1)}]}}`;
  assert.match(sentenceOf(nodes(kNodesMax)), /"names" is not a list/);
  assert.match(sentenceOf(nodes(kNodesMax + 1)), /more than the 5000000/);
});

test('a default type that is not there becomes the first', () => {
  assert.equal(parseProfile(JSON.stringify({...service(), default_type: 9})).default_type, 0);
  assert.equal(parseProfile(JSON.stringify({...service(), default_type: -1})).default_type, 0);
});

test('a name that would end the page does not', () => {
  const evil = '</script><!--<script>alert(1)</script>';
  const page = fillTemplate('<p>/*PTARMIGAN_PROFILE*/</p>', profileOf([[[evil], 1]]));
  assert.ok(!page.includes('<!--') && !page.includes('</script'));
  const read = parseProfile(page.slice(3, -4));
  assert.ok(read.symbols.name.includes(evil));
});

test('the synthetic profile has the nodes asked for and adds up', () => {
  const profile = parseProfile(JSON.stringify(synthetic({nodes: 5000})));
  assert.equal(profile.tree.size, 5000);
  const {total, self} = profile.tree.series[0];
  assert.equal(self.reduce((sum, value) => sum + value, 0), total[0]);
});

test('rows of the table carry self, total, samples and change', () => {
  const stacks = [[['m', 'f'], 6, 1], [['m', 'g'], 4, 1], [['m', 'gone'], 0, 2]];
  const profile = parseProfile(JSON.stringify(profileOf(stacks, {other_title: 'before'})));
  const rows = functionRows(profile, profile.tree, 1, 0, null);
  const row = (name) => rows.find(({symbol}) => profile.symbols.name[symbol] === name);
  assert.deepEqual({...row('f'), symbol: 0},
                   {symbol: 0, self: 6 * kSampleNs, total: 6 * kSampleNs, samples: 6, self_change: 0.6 - 0.25, total_change: 0.6 - 0.25});
  assert.equal(row('m').self, 0);
  assert.equal(row('m').total_change, 0);
  assert.equal(row('gone').self_change, -0.5);
  assert.equal(row('all'), undefined);
  const names = (key, ascending) => sortRows(rows, key, ascending, profile.symbols.name).map(({symbol}) => profile.symbols.name[symbol]).join(' ');
  assert.equal(names('self', false), 'f g gone m');
  assert.equal(names('total', false), 'm f g gone');
  assert.equal(names('name', true), 'f g gone m');
  assert.equal(names('self_change', false), 'gone f g m');
});

test('the table lists only what a search found, below the zoom only', () => {
  const profile = parseProfile(JSON.stringify(profileOf([[['m', 'f'], 6], [['n', 'f'], 3], [['n', 'g'], 1]])));
  const matched = Uint8Array.from(profile.symbols.name, (name) => (name === 'f' ? 1 : 0));
  const n = profile.symbols.name.indexOf('n');
  const node = [...profile.tree.symbol].indexOf(n);
  const rows = functionRows(profile, profile.tree, 0, node, matched);
  assert.deepEqual(rows.map(({symbol, self}) => [profile.symbols.name[symbol], self]), [['f', 3]]);
});
