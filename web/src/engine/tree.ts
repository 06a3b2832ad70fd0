// A call tree as columns in preorder, and the operations that make one tree from another.
// Everything here is plain data: no drawing, no DOM. All walks are loops, so depth has no limit.

/** One kind of value (samples, nanoseconds, ...) over all nodes of a tree. */
export interface Series {
  readonly total: Float64Array;
  readonly self: Float64Array;
}

export interface Tree {
  readonly size: number;
  readonly level: Int32Array;
  /** Index into the profile's symbols. */
  readonly symbol: Int32Array;
  readonly inlined: Uint8Array;
  /** -1 for the root. */
  readonly parent: Int32Array;
  /** One past the last descendant. */
  readonly end: Int32Array;
  /** The node of the file that this one stands for (the first one, if several were merged). */
  readonly origin: Int32Array;
  /** One per sample type. */
  readonly series: readonly Series[];
  /** The profile compared against, one per sample type. */
  readonly other: readonly Series[] | null;
}

export interface Links {
  readonly parent: Int32Array;
  readonly end: Int32Array;
}

/** Parents and subtree ends of a preorder level column. The caller has checked the levels. */
export function linksOf(level: Int32Array): Links {
  const size = level.length;
  const parent = new Int32Array(size).fill(-1);
  const end = new Int32Array(size);
  const path: number[] = [];
  for (let i = 0; i < size; i++) {
    const depth = level[i];
    while (path.length > depth) end[path.pop()!] = i;
    if (depth > 0) parent[i] = path[depth - 1];
    path.push(i);
  }
  for (const open of path) end[open] = size;
  return {parent, end};
}

/** The nodes from the root to `node`, both included. */
export function pathTo(tree: Tree, node: number): number[] {
  const path: number[] = [];
  for (let i = node; i >= 0; i = tree.parent[i]) path.push(i);
  return path.reverse();
}

/** Grows a tree by (parent, symbol, inlined); equal children are one node. */
class MergingTree {
  readonly parent: number[] = [];
  readonly symbol: number[] = [];
  readonly inlined: number[] = [];
  readonly origin: number[] = [];
  private readonly children = new Map<number, number>();

  constructor(private readonly symbols: number) {}

  child(parent: number, symbol: number, inlined: number, origin: number): number {
    const key = ((parent + 1) * this.symbols + symbol) * 2 + inlined;
    const known = this.children.get(key);
    if (known !== undefined) return known;
    const made = this.parent.length;
    this.children.set(key, made);
    this.parent.push(parent);
    this.symbol.push(symbol);
    this.inlined.push(inlined);
    this.origin.push(origin);
    return made;
  }

  /** Preorder of what was grown; siblings by `weight`, largest first, else in order of arrival. */
  finish(series: readonly GrowingSeries[], other: readonly GrowingSeries[] | null, weight: number[] | null): Grown {
    const size = this.parent.length;
    const kids: number[][] = Array.from({length: size}, () => []);
    for (let i = 1; i < size; i++) kids[this.parent[i]].push(i);
    if (weight) for (const list of kids) list.sort((a, b) => weight[b] - weight[a] || a - b);
    const order = new Int32Array(size);
    const place = new Int32Array(size);
    const level = new Int32Array(size);
    const open: Array<[number, number]> = size > 0 ? [[0, 0]] : [];
    for (let next = 0; open.length > 0; next++) {
      const [node, depth] = open.pop()!;
      order[next] = node;
      place[node] = next;
      level[next] = depth;
      const list = kids[node];
      for (let k = list.length - 1; k >= 0; k--) open.push([list[k], depth + 1]);
    }
    const pick = (from: number[]) => Float64Array.from(order, (node) => from[node] ?? 0);
    const seriesOf = (from: GrowingSeries): Series => ({total: pick(from.total), self: pick(from.self)});
    const tree = {
      size, level,
      symbol: Int32Array.from(order, (node) => this.symbol[node]),
      inlined: Uint8Array.from(order, (node) => this.inlined[node]),
      origin: Int32Array.from(order, (node) => this.origin[node]),
      ...linksOf(level),
      series: series.map(seriesOf),
      other: other ? other.map(seriesOf) : null,
    };
    return {tree, place};
  }
}

interface Grown {
  readonly tree: Tree;
  /** Where each grown node is in the tree, by order of growth. */
  readonly place: Int32Array;
}

interface GrowingSeries {
  total: number[];
  self: number[];
}

const growing = (count: number): GrowingSeries[] => Array.from({length: count}, () => ({total: [], self: []}));

function add(to: number[], at: number, value: number): void {
  to[at] = (to[at] ?? 0) + value;
}

export interface Folded {
  readonly tree: Tree;
  /** For each node of the tree before: its node after. */
  readonly node: Int32Array;
}

/**
 * Folds direct recursion: a function called by itself becomes part of its caller, and what it called
 * becomes its caller's children. Totals of the root and of every function stay what they were.
 */
export function foldRecursion(tree: Tree, symbols: number): Folded {
  const grown = new MergingTree(symbols);
  const target = new Int32Array(tree.size);
  const series = growing(tree.series.length);
  const other = tree.other ? growing(tree.other.length) : null;
  for (let i = 0; i < tree.size; i++) {
    const parent = tree.parent[i];
    const folded = parent > 0 && tree.symbol[parent] === tree.symbol[i];
    const to = folded ? target[parent]
        : grown.child(parent < 0 ? -1 : target[parent], tree.symbol[i], tree.inlined[i], tree.origin[i]);
    target[i] = to;
    // The caller's total already holds what a folded call took.
    addNode(series, tree.series, to, i, !folded);
    if (other) addNode(other, tree.other!, to, i, !folded);
  }
  const made = grown.finish(series, other, null);
  return {tree: made.tree, node: target.map((node) => made.place[node])};
}

function addNode(into: GrowingSeries[], from: readonly Series[], to: number, node: number, total: boolean): void {
  for (let t = 0; t < from.length; t++) {
    add(into[t].self, to, from[t].self[node]);
    if (total) add(into[t].total, to, from[t].total[node]);
  }
}

function addTotals(into: GrowingSeries[], from: readonly Series[], to: number, node: number): void {
  for (let t = 0; t < from.length; t++) add(into[t].total, to, from[t].total[node]);
}

/** Nodes of `symbol` that are not below another node of the same symbol. */
export function outermost(tree: Tree, symbol: number): number[] {
  const found: number[] = [];
  for (let i = 0; i < tree.size;) {
    if (tree.symbol[i] === symbol) {
      found.push(i);
      i = tree.end[i];
    } else {
      i++;
    }
  }
  return found;
}

/** Who called a function, and what it called, each merged over the whole tree. */
export interface Sandwich {
  /** Node 0 is the function; a node's child is a caller of it. */
  readonly callers: Tree;
  /** Node 0 is the function; a node's child is called by it. */
  readonly callees: Tree;
}

/**
 * Counts the outermost calls of a recursive function only, so that both sides add up to the function's
 * total. Siblings are ordered by `type`. Null if the function is not in the tree.
 */
export function sandwichOf(tree: Tree, symbols: number, symbol: number, type: number): Sandwich | null {
  const roots = outermost(tree, symbol);
  if (roots.length === 0) return null;
  const types = tree.series.length;
  const made = () => ({
    tree: new MergingTree(symbols), series: growing(types), other: tree.other ? growing(types) : null,
  });
  const down = made();
  const up = made();
  const target = new Int32Array(tree.size);
  for (const root of roots) {
    for (let i = root; i < tree.end[root]; i++) {
      const to = i === root ? down.tree.child(-1, symbol, 0, tree.origin[i])
          : down.tree.child(target[tree.parent[i]], tree.symbol[i], tree.inlined[i], tree.origin[i]);
      target[i] = to;
      addNode(down.series, tree.series, to, i, true);
      if (down.other) addNode(down.other, tree.other!, to, i, true);
    }
    let at = -1;
    for (let i = root; i >= 0; i = tree.parent[i]) {
      at = up.tree.child(at, tree.symbol[i], i === root ? 0 : tree.inlined[i], tree.origin[i]);
      addTotals(up.series, tree.series, at, root);
      if (up.other) addTotals(up.other, tree.other!, at, root);
    }
  }
  const finish = (side: typeof up) => side.tree.finish(side.series, side.other, side.series[type].total).tree;
  return {callers: finish(up), callees: finish(down)};
}

/**
 * Self and total per symbol below `root` (a root other than node 0 counts too); of recursive calls only the
 * outermost counts towards the total.
 */
export function sumBySymbol(tree: Tree, symbols: number, series: Series, root: number): Series {
  const total = new Float64Array(symbols);
  const self = new Float64Array(symbols);
  const open = new Int32Array(symbols);
  const path: number[] = [];
  const from = Math.max(root, 1);
  const depth = tree.size > from ? tree.level[from] : 0;
  for (let i = from; i < tree.end[root]; i++) {
    while (path.length > tree.level[i] - depth) open[path.pop()!]--;
    const symbol = tree.symbol[i];
    self[symbol] += series.self[i];
    if (open[symbol] === 0) total[symbol] += series.total[i];
    open[symbol]++;
    path.push(symbol);
  }
  return {total, self};
}
