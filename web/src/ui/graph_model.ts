// What the canvas shows for a profile in a given state: boxes, their look, and what a box stands for.

import {Boxes, boxesFromTree, boxTable, dropLastRow, flipRows, stackBoxes} from '../engine/boxes';
import {BoxLook} from '../engine/frame';
import {kindOf, kKinds} from '../engine/kinds';
import {
  changeFill, changeOf, kFillFaint, kFillFound, kFillPartly, kFillRun, kFills, kindFill, shadeOf,
} from '../engine/palette';
import {Sandwich, Series, Tree} from '../engine/tree';
import {Profile, Symbols} from '../profile/parse';

/** What a box id stands for. Figures are of every sample type. */
export interface BoxFacts {
  readonly symbol: number;
  readonly inlined: boolean;
  readonly origin: number;
  readonly series: readonly {readonly total: number; readonly self: number}[];
  readonly other: readonly {readonly total: number; readonly self: number}[] | null;
}

export interface GraphModel {
  readonly boxes: Boxes;
  /** Box of an id, -1 where it has no width. */
  readonly box_of: Int32Array;
  /** True: the picture stands on the bottom of the view. */
  readonly from_bottom: boolean;
  /** The row that a person sees first. */
  readonly first_row: number;
  facts(id: number): BoxFacts;
  /** Colours and labels; `matched` is 1 for symbols that a search found, null without a search. */
  look(matched: Uint8Array | null): BoxLook;
}

/** Width of every node: its value, or with a second profile the sum of both shares. */
export function weightsOf(tree: Tree, type: number, whole: number, other_whole: number): Float64Array {
  const mine = tree.series[type].total;
  if (!tree.other) return mine;
  const theirs = tree.other[type].total;
  const scale = whole > 0 ? 1 / whole : 0;
  const other_scale = other_whole > 0 ? 1 / other_whole : 0;
  return mine.map((value, i) => Math.max(0, value) * scale + Math.max(0, theirs[i]) * other_scale);
}

interface Part {
  readonly tree: Tree;
  readonly offset: number;
}

/** Kind and shade of every symbol, worked out once per profile. */
export function symbolFills(symbols: Symbols): Int32Array {
  return Int32Array.from({length: symbols.count}, (_, i) =>
    kindFill(kKinds.indexOf(kindOf(symbols.name[i], symbols.object[i])), shadeOf(symbols.name[i])));
}

function modelOf(profile: Profile, fills: Int32Array, boxes: Boxes, parts: readonly Part[], type: number,
                 start: {from_bottom: boolean; first_row: number}): GraphModel {
  const {symbols} = profile;
  const ids = parts.reduce((sum, part) => sum + part.tree.size, 0);
  const whole = profile.tree.series[type].total[0];
  const other_whole = profile.tree.other ? profile.tree.other[type].total[0] : 0;
  const partOf = (id: number) => (parts.length > 1 && id >= parts[1].offset ? parts[1] : parts[0]);
  const symbolOf = (box: number) => {
    const part = partOf(boxes.id[box]);
    return part.tree.symbol[boxes.id[box] - part.offset];
  };
  const shares = (box: number): [number, number] => {
    const {tree, offset} = partOf(boxes.id[box]);
    const node = boxes.id[box] - offset;
    return [whole > 0 ? tree.series[type].total[node] / whole : 0,
            other_whole > 0 ? tree.other![type].total[node] / other_whole : 0];
  };
  const change = (box: number) => {
    const [share, other_share] = shares(box);
    return changeFill(changeOf(share, other_share));
  };
  const compared = profile.tree.other !== null;

  const look = (matched: Uint8Array | null): BoxLook => ({
    fills: kFills,
    fill(box) {
      const symbol = symbolOf(box);
      if (matched && !matched[symbol]) return kFillFaint;
      if (compared) return change(box);
      return matched ? kFillFound : fills[symbol];
    },
    runFill(first, last) {
      if (!matched && !compared) return kFillRun;
      let largest = -1;
      let largest_change = -1;
      let found = 0;
      let all = 0;
      for (let box = first; box <= last; box++) {
        all += boxes.width[box];
        if (matched && !matched[symbolOf(box)]) continue;
        found += boxes.width[box];
        if (!compared) continue;
        const [share, other_share] = shares(box);
        if (Math.abs(share - other_share) > largest_change) {
          largest = box;
          largest_change = Math.abs(share - other_share);
        }
      }
      if (largest >= 0) return change(largest);
      return found === 0 ? kFillFaint : found * 2 < all ? kFillPartly : kFillFound;
    },
    label: (box) => symbols.name[symbolOf(box)],
    slanted(box) {
      const part = partOf(boxes.id[box]);
      return part.tree.inlined[boxes.id[box] - part.offset] === 1;
    },
  });

  const at = (series: readonly Series[], node: number) =>
    series.map(({total, self}) => ({total: total[node], self: self[node]}));
  return {
    boxes, box_of: boxTable(boxes, ids), ...start, look,
    facts(id) {
      const {tree, offset} = partOf(id);
      const node = id - offset;
      return {
        symbol: tree.symbol[node], inlined: tree.inlined[node] === 1, origin: tree.origin[node],
        series: at(tree.series, node), other: tree.other ? at(tree.other, node) : null,
      };
    },
  };
}

export function treeModel(profile: Profile, fills: Int32Array, tree: Tree, type: number, flame: boolean): GraphModel {
  const other_whole = tree.other ? tree.other[type].total[0] : 0;
  const boxes = boxesFromTree(tree, weightsOf(tree, type, tree.series[type].total[0], other_whole));
  return modelOf(profile, fills, flame ? flipRows(boxes) : boxes, [{tree, offset: 0}], type,
                 {from_bottom: flame, first_row: flame ? boxes.rows - 1 : 0});
}

/** Callers above, the function, what it calls below. */
export function sandwichModel(profile: Profile, fills: Int32Array, {callers, callees}: Sandwich, type: number): GraphModel {
  const whole = profile.tree.series[type].total[0];
  const other_whole = profile.tree.other ? profile.tree.other[type].total[0] : 0;
  const boxesOf = (tree: Tree) => boxesFromTree(tree, weightsOf(tree, type, whole, other_whole));
  const above = dropLastRow(flipRows(boxesOf(callers)));
  const boxes = stackBoxes(above, boxesOf(callees), callers.size);
  const parts = [{tree: callers, offset: 0}, {tree: callees, offset: callers.size}];
  return modelOf(profile, fills, boxes, parts, type, {from_bottom: false, first_row: above.rows});
}
