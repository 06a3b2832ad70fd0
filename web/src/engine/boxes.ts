// Boxes in rows: what the canvas draws, whatever it means. A call tree becomes boxes (row = depth,
// x = value); a timeline can too (row = thread and depth, x = time). Nothing here knows which.

/** Boxes of row r are first[r] .. first[r + 1] - 1, sorted by x; boxes of one row do not overlap. */
export interface Boxes {
  readonly rows: number;
  readonly first: Int32Array;
  readonly x: Float64Array;
  readonly width: Float64Array;
  /** What the owner knows a box by: for a call tree, the node. */
  readonly id: Int32Array;
  /** The range that the whole picture covers. */
  readonly x_min: number;
  readonly x_max: number;
}

export interface RowItem {
  row: number;
  x: number;
  width: number;
  id: number;
}

/** From items in any order. Items without width are left out; an overlap is cut at the earlier box's end. */
export function boxesFromItems(items: readonly RowItem[], x_min: number, x_max: number): Boxes {
  const kept = items.filter((item) => item.width > 0 && item.row >= 0);
  kept.sort((a, b) => a.row - b.row || a.x - b.x);
  const rows = kept.length > 0 ? kept[kept.length - 1].row + 1 : 0;
  const first = new Int32Array(rows + 1);
  const x = new Float64Array(kept.length);
  const width = new Float64Array(kept.length);
  const id = new Int32Array(kept.length);
  let count = 0;
  let row = 0;
  let row_end = -Infinity;
  for (const item of kept) {
    while (row < item.row) {
      first[++row] = count;
      row_end = -Infinity;
    }
    const start = Math.max(item.x, row_end);
    const stop = item.x + item.width;
    if (stop <= start) continue;
    x[count] = start;
    width[count] = stop - start;
    id[count++] = item.id;
    row_end = stop;
  }
  while (row < rows) first[++row] = count;
  return {rows, first, x: x.slice(0, count), width: width.slice(0, count), id: id.slice(0, count), x_min, x_max};
}

/** The columns of a tree that its boxes come from: see Tree. */
export interface TreeShape {
  readonly size: number;
  readonly level: Int32Array;
  readonly parent: Int32Array;
}

/**
 * Boxes of a preorder tree: row = level, width = weight, children side by side from their parent's left
 * edge, never beyond its right edge whatever the weights say. Nodes without weight get no box.
 */
export function boxesFromTree(tree: TreeShape, weight: Float64Array): Boxes {
  const {size, level, parent} = tree;
  const start = new Float64Array(size);
  const width = new Float64Array(size);
  const used = new Float64Array(size);
  let rows = 0;
  for (let i = 0; i < size; i++) {
    const above = parent[i];
    const wanted = Math.max(0, weight[i]);
    if (above < 0) {
      width[i] = wanted;
    } else {
      start[i] = start[above] + used[above];
      width[i] = Math.min(wanted, Math.max(0, width[above] - used[above]));
      used[above] += width[i];
    }
    if (width[i] > 0 && level[i] >= rows) rows = level[i] + 1;
  }
  const first = new Int32Array(rows + 1);
  for (let i = 0; i < size; i++) if (width[i] > 0) first[level[i] + 1]++;
  for (let r = 0; r < rows; r++) first[r + 1] += first[r];
  const count = rows > 0 ? first[rows] : 0;
  const x = new Float64Array(count);
  const widths = new Float64Array(count);
  const id = new Int32Array(count);
  const next = first.slice();
  for (let i = 0; i < size; i++) {
    if (!(width[i] > 0)) continue;
    const at = next[level[i]]++;
    x[at] = start[i];
    widths[at] = width[i];
    id[at] = i;
  }
  return {rows, first, x, width: widths, id, x_min: 0, x_max: size > 0 ? width[0] : 0};
}

/** The same boxes with row 0 where `rows - 1` was. */
export function flipRows(boxes: Boxes): Boxes {
  const {rows, first} = boxes;
  const flipped = new Int32Array(rows + 1);
  const count = boxes.x.length;
  const x = new Float64Array(count);
  const width = new Float64Array(count);
  const id = new Int32Array(count);
  let at = 0;
  for (let r = 0; r < rows; r++) {
    const from = first[rows - 1 - r];
    const to = first[rows - r];
    x.set(boxes.x.subarray(from, to), at);
    width.set(boxes.width.subarray(from, to), at);
    id.set(boxes.id.subarray(from, to), at);
    at += to - from;
    flipped[r + 1] = at;
  }
  return {...boxes, first: flipped, x, width, id};
}

/** Without the lowest row. */
export function dropLastRow(boxes: Boxes): Boxes {
  if (boxes.rows === 0) return boxes;
  const rows = boxes.rows - 1;
  const count = boxes.first[rows];
  return {
    ...boxes, rows, first: boxes.first.slice(0, rows + 1), x: boxes.x.slice(0, count),
    width: boxes.width.slice(0, count), id: boxes.id.slice(0, count),
  };
}

/** `above` over `below`, ids of `below` raised by `id_offset`. Both must cover the same x range. */
export function stackBoxes(above: Boxes, below: Boxes, id_offset: number): Boxes {
  const count = above.x.length;
  const join = <T extends Float64Array | Int32Array>(a: T, b: T, raise: number): T => {
    const made = new (a.constructor as new (n: number) => T)(a.length + b.length);
    made.set(a, 0);
    for (let i = 0; i < b.length; i++) made[a.length + i] = b[i] + raise;
    return made;
  };
  return {
    rows: above.rows + below.rows,
    first: join(above.first, below.first.slice(1), count),
    x: join(above.x, below.x, 0),
    width: join(above.width, below.width, 0),
    id: join(above.id, below.id, id_offset),
    x_min: Math.min(above.x_min, below.x_min),
    x_max: Math.max(above.x_max, below.x_max),
  };
}

/** The last box of `row` that starts at or before `x`; one before the row's first box if there is none. */
export function lastStartingBefore(boxes: Boxes, row: number, x: number): number {
  let low = boxes.first[row];
  let high = boxes.first[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.x[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The box of `row` that holds `x`, or -1. */
export function boxHolding(boxes: Boxes, row: number, x: number): number {
  if (row < 0 || row >= boxes.rows) return -1;
  const box = lastStartingBefore(boxes, row, x);
  return box >= boxes.first[row] && x < boxes.x[box] + boxes.width[box] ? box : -1;
}

export function rowOf(boxes: Boxes, box: number): number {
  let low = 0;
  let high = boxes.rows;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (boxes.first[middle + 1] <= box) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The box with this id, or -1: ids are not sorted across rows, so owners that ask often keep a table. */
export function boxTable(boxes: Boxes, ids: number): Int32Array {
  const table = new Int32Array(ids).fill(-1);
  for (let box = 0; box < boxes.id.length; box++) table[boxes.id[box]] = box;
  return table;
}

export type Step = 'left' | 'right' | 'up' | 'down';

/**
 * The box to which an arrow key goes, inside x_from .. x_to: sideways to the neighbour in the row, up or
 * down to the box at the middle of this one, else the widest that touches it. The same box if there is none.
 */
export function stepFrom(boxes: Boxes, box: number, step: Step, x_from: number, x_to: number): number {
  const row = rowOf(boxes, box);
  const visible = (at: number) => boxes.x[at] < x_to && boxes.x[at] + boxes.width[at] > x_from;
  if (step === 'left' || step === 'right') {
    const next = box + (step === 'left' ? -1 : 1);
    const inside = next >= boxes.first[row] && next < boxes.first[row + 1];
    return inside && visible(next) ? next : box;
  }
  const to_row = row + (step === 'up' ? -1 : 1);
  if (to_row < 0 || to_row >= boxes.rows) return box;
  const from = Math.max(boxes.x[box], x_from);
  const to = Math.min(boxes.x[box] + boxes.width[box], x_to);
  let best = -1;
  let best_width = 0;
  for (let at = Math.max(lastStartingBefore(boxes, to_row, from), boxes.first[to_row]);
       at < boxes.first[to_row + 1] && boxes.x[at] < to; at++) {
    const shared = Math.min(boxes.x[at] + boxes.width[at], to) - Math.max(boxes.x[at], from);
    if (shared > best_width) {
      best = at;
      best_width = shared;
    }
  }
  return best < 0 ? box : best;
}
