import {test} from 'node:test';
import assert from 'node:assert/strict';
import {boxesFromItems, boxesFromTree, boxHolding, dropLastRow, flipRows, rowOf, stackBoxes, stepFrom} from '../src/engine/boxes.ts';
import {composeFrame, fitLabel, hitAt, kRunPx} from '../src/engine/frame.ts';
import {linksOf} from '../src/engine/tree.ts';
import {parseProfile} from '../src/profile/parse.ts';
import {symbolFills, treeModel} from '../src/ui/graph_model.ts';
import {kFillFaint, kFillFound, kFillPartly, kFillRun} from '../src/engine/palette.ts';
import {synthetic} from './sample.mjs';

const large = parseProfile(JSON.stringify(synthetic({nodes: 10_000})));
const large_model = treeModel(large, symbolFills(large.symbols), large.tree, 0, false);
const shape = (levels) => ({size: levels.length, level: Int32Array.from(levels), ...linksOf(Int32Array.from(levels))});
const rows = (boxes) => Array.from({length: boxes.rows}, (_, r) =>
  Array.from({length: boxes.first[r + 1] - boxes.first[r]}, (_, k) => {
    const b = boxes.first[r] + k;
    return `${boxes.id[b]}:${boxes.x[b]}+${boxes.width[b]}`;
  }).join(' '));
const view = (over) => ({x_from: 0, x_to: 10, width_px: 1000, height_px: 100, scroll_px: 0, row_px: 20, ...over});
const six = (text) => text.length * 6;
const plain = (labels = {}) => ({
  fills: 2, fill: () => 0, runFill: () => 1, label: (box) => labels[box] ?? `box ${box}`, slanted: () => false,
});

test('children lie side by side from the left edge of their parent', () => {
  const boxes = boxesFromTree(shape([0, 1, 2, 1, 2, 2]), Float64Array.from([10, 4, 3, 5, 1, 2]));
  assert.deepEqual(rows(boxes), ['0:0+10', '1:0+4 3:4+5', '2:0+3 4:4+1 5:5+2']);
  assert.equal(boxes.x_max, 10);
});

test('a child never draws beyond its parent, and no or negative weight has no box', () => {
  const boxes = boxesFromTree(shape([0, 1, 1, 1, 2, 1]), Float64Array.from([10, 8, 5, 0, 7, -3]));
  assert.deepEqual(rows(boxes), ['0:0+10', '1:0+8 2:8+2']);
});

test('a profile without samples has no boxes', () => {
  const boxes = boxesFromTree(shape([0, 1]), new Float64Array(2));
  assert.equal(boxes.rows, 0);
  assert.equal(composeFrame(boxes, view({x_to: 0}), plain(), six).count, 0);
  assert.equal(hitAt(boxes, view({x_to: 0}), 1, 1), null);
});

test('a timeline is boxes too: items in any order become rows, overlaps are cut', () => {
  const boxes = boxesFromItems([
    {row: 2, x: 5, width: 2, id: 7}, {row: 0, x: 4, width: 3, id: 2}, {row: 0, x: 0, width: 5, id: 1},
    {row: 2, x: 1, width: 0, id: 9},
  ], 0, 10);
  assert.deepEqual(rows(boxes), ['1:0+5 2:5+2', '', '7:5+2']);
});

test('flipping puts the root last, twice gives the same, stacking raises ids', () => {
  const boxes = boxesFromTree(shape([0, 1, 2, 1]), Float64Array.from([10, 4, 3, 5]));
  assert.deepEqual(rows(flipRows(boxes)), ['2:0+3', '1:0+4 3:4+5', '0:0+10']);
  assert.deepEqual(rows(flipRows(flipRows(boxes))), rows(boxes));
  assert.deepEqual(rows(stackBoxes(dropLastRow(flipRows(boxes)), boxes, 100)),
                   ['2:0+3', '1:0+4 3:4+5', '100:0+10', '101:0+4 103:4+5', '102:0+3']);
});

test('a point finds its box, a hole finds none', () => {
  const boxes = boxesFromTree(shape([0, 1, 2, 1]), Float64Array.from([10, 4, 3, 5]));
  assert.equal(boxes.id[boxHolding(boxes, 1, 4)], 3);
  assert.equal(boxHolding(boxes, 2, 3.5), -1);
  assert.equal(boxHolding(boxes, 9, 1), -1);
  assert.deepEqual(Array.from(boxes.id, (_, box) => rowOf(boxes, box)), [0, 1, 1, 2]);
});

test('arrow keys walk to neighbours, parent and widest child, and stay at the edge', () => {
  const boxes = boxesFromTree(shape([0, 1, 2, 2, 1]), Float64Array.from([10, 6, 1, 4, 3]));
  const id = (box) => boxes.id[box];
  const of = (node) => boxes.id.indexOf(node);
  assert.equal(id(stepFrom(boxes, of(0), 'down', 0, 10)), 1);
  assert.equal(id(stepFrom(boxes, of(1), 'down', 0, 10)), 3);
  assert.equal(id(stepFrom(boxes, of(3), 'left', 0, 10)), 2);
  assert.equal(id(stepFrom(boxes, of(2), 'left', 0, 10)), 2);
  assert.equal(id(stepFrom(boxes, of(3), 'up', 0, 10)), 1);
  assert.equal(id(stepFrom(boxes, of(0), 'up', 0, 10)), 0);
  assert.equal(id(stepFrom(boxes, of(1), 'right', 0, 6)), 1, 'what the zoom hides is not walked to');
});

test('boxes under two pixels become one rectangle, a hole between them stays', () => {
  const items = Array.from({length: 100}, (_, i) => ({row: 0, x: 1 + i * 0.01, width: 0.01, id: i}));
  items.push({row: 0, x: 2.5, width: 0.01, id: 100}, {row: 0, x: 3, width: 2, id: 101});
  const frame = composeFrame(boxesFromItems(items, 0, 10), view(), plain(), six);
  assert.equal(kRunPx, 2);
  assert.deepEqual([frame.boxes, frame.merged, frame.count], [102, 100, 3]);
  assert.deepEqual(frame.rects[1].map(Math.round), [100, 0, 100]);
  assert.deepEqual(frame.rects[0].map(Math.round), [250, 0, 1, 300, 0, 199]);
});

test('a box of exactly two pixels is not merged', () => {
  const items = Array.from({length: 5}, (_, i) => ({row: 0, x: i * 0.02, width: 0.02, id: i}));
  const frame = composeFrame(boxesFromItems(items, 0, 10), view(), plain(), six);
  assert.deepEqual([frame.merged, frame.count], [0, 5]);
});

test('zoom shows the range only, ancestors as wide as the view', () => {
  const boxes = boxesFromTree(shape([0, 1, 2, 1]), Float64Array.from([10, 4, 3, 5]));
  const frame = composeFrame(boxes, view({x_from: 4, x_to: 9}), plain(), six);
  assert.equal(frame.boxes, 2);
  assert.deepEqual(frame.rects[0], [0, 0, 999, 0, 20, 999]);
});

test('only rows in view are composed', () => {
  const boxes = boxesFromTree(shape(Array.from({length: 1000}, (_, i) => i)), new Float64Array(1000).fill(1));
  const frame = composeFrame(boxes, view({x_to: 1, scroll_px: 500 * 20, height_px: 100}), plain(), six);
  assert.ok(frame.count >= 5 && frame.count <= 6, `${frame.count} rectangles`);
});

test('no label is wider than its box, whatever the name', () => {
  const names = ['a', 'std::vector<std::pair<int, long>>::push_back', '𝒻𝒻𝒻𝒻𝒻𝒻𝒻𝒻', '日本語の関数', '(no name)'];
  for (let width = 0.05; width < 6; width += 0.05) {
    const boxes = boxesFromItems(names.map((_, i) => ({row: i, x: 1, width, id: i})), 0, 10);
    const frame = composeFrame(boxes, view(), plain(names), six);
    for (const label of frame.labels) {
      assert.ok(label.x + six(label.text) <= 100 + width * 100 - 1, `${label.text} in ${width}`);
      assert.doesNotMatch(label.text, /[\ud800-\udbff]…/, 'half a character');
    }
  }
  assert.equal(fitLabel('abcdef', false, 36, six), 'abcdef');
  assert.equal(fitLabel('abcdef', false, 35, six), 'abcd…');
  assert.equal(fitLabel('abcdef', false, 11, six), '');
});

test('a hit on merged boxes tells the run and its widest box', () => {
  const items = Array.from({length: 100}, (_, i) => ({row: 0, x: 1 + i * 0.01, width: 0.01, id: i}));
  items[40].width = 0.0101;
  const boxes = boxesFromItems(items, 0, 10);
  const hit = hitAt(boxes, view(), 150, 5);
  assert.deepEqual([hit.first, hit.last, boxes.id[hit.box]], [0, 99, 40]);
  assert.equal(hitAt(boxes, view(), 400, 5), null);
  assert.equal(hitAt(boxes, view(), 150, 50), null);
});

test('every rectangle of a large profile lies in the view, rows hold no overlap, and merging is worth it', () => {
  const [profile, model] = [large, large_model];
  assert.equal(model.boxes.x.length, 10_000);
  const everything = view({x_to: model.boxes.x_max, width_px: 1280, height_px: 5000});
  for (const matched of [null, new Uint8Array(profile.symbols.count)]) {
    const frame = composeFrame(model.boxes, everything, model.look(matched), six);
    assert.equal(frame.boxes, 10_000);
    assert.ok(frame.count < 6_000, `${frame.count} rectangles`);
    const spans = new Map();
    for (const rects of frame.rects) {
      for (let i = 0; i < rects.length; i += 3) {
        assert.ok(rects[i] >= 0 && rects[i] + rects[i + 2] <= 1280 + 0.75);
        if (!spans.has(rects[i + 1])) spans.set(rects[i + 1], []);
        spans.get(rects[i + 1]).push([rects[i], rects[i] + rects[i + 2]]);
      }
    }
    for (const list of spans.values()) {
      list.sort((a, b) => a[0] - b[0]);
      for (let i = 1; i < list.length; i++) assert.ok(list[i][0] >= list[i - 1][1] - 0.75);
    }
  }
});

test('a run is found, partly found or faint by how much of it matches, and grey without a search', () => {
  const [profile, model] = [large, large_model];
  const matched = new Uint8Array(profile.symbols.count);
  matched[profile.tree.symbol[model.boxes.id[500]]] = 1;
  assert.equal(model.look(matched).runFill(500, 500), kFillFound);
  assert.equal(model.look(matched).runFill(490, 510), kFillPartly);
  assert.equal(model.look(new Uint8Array(profile.symbols.count)).runFill(490, 510), kFillFaint);
  assert.equal(model.look(null).runFill(490, 510), kFillRun);
});
