import {test} from 'node:test';
import assert from 'node:assert/strict';
import {foldRecursion, linksOf, outermost, pathTo, sandwichOf, sumBySymbol} from '../src/engine/tree.ts';
import {matchedTotal, searchNames} from '../src/engine/search.ts';
import {parseProfile} from '../src/profile/parse.ts';
import {parseFolded, profileOf, randomFrom, synthetic} from './sample.mjs';

const load = (folded, options) => parseProfile(JSON.stringify(profileOf(parseFolded(folded), options)));
const symbolNamed = (profile, name) => profile.symbols.name.indexOf(name);

/** "name total self" per node, indented by level: easy to read in a failure. */
function picture(profile, tree, type = 0) {
  return Array.from({length: tree.size}, (_, i) =>
    `${' '.repeat(tree.level[i])}${profile.symbols.name[tree.symbol[i]]} ${tree.series[type].total[i]} ${tree.series[type].self[i]}`);
}

test('links of a preorder name each parent and each subtree end', () => {
  const {parent, end} = linksOf(Int32Array.from([0, 1, 2, 2, 1, 2, 3]));
  assert.deepEqual([...parent], [-1, 0, 1, 1, 0, 4, 5]);
  assert.deepEqual([...end], [7, 4, 3, 4, 7, 7, 7]);
});

test('a path of half a million levels is walked without recursion', () => {
  const {parent, end} = linksOf(Int32Array.from({length: 500_000}, (_, i) => i));
  assert.equal(parent[499_999], 499_998);
  assert.equal(end[0], 500_000);
});

test('path to a node runs from the root', () => {
  const {tree, symbols} = load('a;b;c 3\na;d 1');
  assert.deepEqual(pathTo(tree, 3).map((i) => symbols.name[tree.symbol[i]]), ['all', 'a', 'b', 'c']);
});

test('folding makes direct recursion one frame and keeps every total', () => {
  const profile = load('f;f;f 1\nf;f;g 2\nf;g 4\nf;h;f 8');
  const {tree, node} = foldRecursion(profile.tree, profile.symbols.count);
  assert.deepEqual(picture(profile, tree), ['all 15 0', ' f 15 1', '  h 8 0', '   f 8 8', '  g 6 6']);
  // Every node is found again: all f, f;f and f;f;f are the one f.
  const names = [...node].map((to) => profile.symbols.name[tree.symbol[to]]);
  assert.deepEqual(names, [...profile.tree.symbol].map((symbol) => profile.symbols.name[symbol]));
});

test('folding a random tree changes no self sum and no function total', () => {
  const random = randomFrom(7);
  const lines = Array.from({length: 400}, () => {
    const depth = 1 + Math.floor(random() * 12);
    return `${Array.from({length: depth}, () => 'abc'[Math.floor(random() * 3)]).join(';')} ${1 + Math.floor(random() * 9)}`;
  });
  const profile = load(lines.join('\n'));
  const {tree} = foldRecursion(profile.tree, profile.symbols.count);
  assert.ok(tree.size < profile.tree.size);
  for (const type of [0, 1]) {
    assert.deepEqual(sumBySymbol(tree, profile.symbols.count, tree.series[type], 0),
                     sumBySymbol(profile.tree, profile.symbols.count, profile.tree.series[type], 0));
  }
  for (let i = 1; i < tree.size; i++) assert.notEqual(tree.parent[i] > 0 && tree.symbol[tree.parent[i]], tree.symbol[i]);
});

test('a recursive function counts once towards its total', () => {
  const profile = load('m;f;g;f 5\nm;f 2\nm;g 1');
  const sums = sumBySymbol(profile.tree, profile.symbols.count, profile.tree.series[0], 0);
  const at = (name) => [sums.self[symbolNamed(profile, name)], sums.total[symbolNamed(profile, name)]];
  assert.deepEqual(at('m'), [0, 8]);
  assert.deepEqual(at('f'), [7, 7]);
  assert.deepEqual(at('g'), [1, 6]);
});

test('sums below a node hold that subtree only, the node included', () => {
  const profile = load('m;f;g 5\nm;f 2\nm;g 1');
  const f = [...profile.tree.symbol].indexOf(symbolNamed(profile, 'f'));
  const sums = sumBySymbol(profile.tree, profile.symbols.count, profile.tree.series[0], f);
  assert.equal(sums.total[symbolNamed(profile, 'm')], 0);
  assert.equal(sums.total[symbolNamed(profile, 'f')], 7);
  assert.equal(sums.self[symbolNamed(profile, 'g')], 5);
});

test('sandwich merges callers and callees over the tree, outermost calls of recursion only', () => {
  const profile = load('a;f;x 1\na;f;f;y 2\nb;f;x 4\nb;c 8');
  const f = symbolNamed(profile, 'f');
  assert.equal(outermost(profile.tree, f).length, 2);
  const {callers, callees} = sandwichOf(profile.tree, profile.symbols.count, f, 0);
  assert.deepEqual(picture(profile, callees), ['f 7 0', ' x 5 5', ' f 2 0', '  y 2 2']);
  assert.deepEqual(picture(profile, callers), ['f 7 0', ' b 4 0', '  all 4 0', ' a 3 0', '  all 3 0']);
  assert.equal(sandwichOf(profile.tree, profile.symbols.count, profile.symbols.count, 0), null);
});

test('sandwich of every function of a large profile adds up to its total', () => {
  const profile = parseProfile(JSON.stringify(synthetic({nodes: 3000, names: 60})));
  const sums = sumBySymbol(profile.tree, profile.symbols.count, profile.tree.series[0], 0);
  for (let symbol = 1; symbol < profile.symbols.count; symbol++) {
    const {callers, callees} = sandwichOf(profile.tree, profile.symbols.count, symbol, 0);
    assert.equal(callers.series[0].total[0], sums.total[symbol]);
    assert.equal(callees.series[0].total[0], sums.total[symbol]);
  }
});

test('search counts nested matches once', () => {
  const profile = load('a;read;read_all 3\na;write 4\nb;read 2');
  const found = searchNames(profile.symbols.name, '^read');
  assert.equal(found.symbols, 2);
  assert.equal(matchedTotal(profile.tree, profile.tree.series[0].total, found.matched), 5);
});

test('search ignores case unless a capital letter is given, and escapes are no capitals', () => {
  const names = ['parseJson', 'ParseXml', 'x y'];
  const matches = (pattern) => [...searchNames(names, pattern).matched].join('');
  assert.equal(matches('parse'), '110');
  assert.equal(matches('Parse'), '010');
  assert.equal(matches('parse\\S'), '110');
  assert.equal(searchNames(names, '').matched, null);
});

test('an expression that is none says why and matches nothing', () => {
  const search = searchNames(['a'], '(');
  assert.equal(search.matched, null);
  assert.match(search.error, /group/i);
  assert.match(searchNames(['a'], 'a'.repeat(1001)).error, /longer/);
  assert.equal(searchNames(['a'], 'a'.repeat(1000)).error, '');
});
