// From boxes and a view to what one frame paints: a display list, made without a canvas so that it can be
// tested. Runs of boxes narrower than kRunPx become one rectangle, in every colouring.

import {Boxes, lastStartingBefore} from './boxes';

/** Narrower boxes are merged with their narrow neighbours. */
export const kRunPx = 2;
/** A hole of this size between two narrow boxes stays visible. */
export const kRunGapPx = 1;
export const kLabelPaddingPx = 4;
/** Below this width not even one letter and an ellipsis are readable. */
export const kLabelWidthMinPx = 22;

export interface View {
  /** The range of x that the width shows. */
  readonly x_from: number;
  readonly x_to: number;
  readonly width_px: number;
  readonly height_px: number;
  readonly scroll_px: number;
  readonly row_px: number;
}

/** How the owner wants boxes to look. Fills are small integers that the painter maps to colours. */
export interface BoxLook {
  readonly fills: number;
  fill(box: number): number;
  /** The fill of a run of narrow boxes first .. last. */
  runFill(first: number, last: number): number;
  label(box: number): string;
  slanted(box: number): boolean;
}

export interface LabelMeasure {
  /** Width of `text` in pixels; an upper bound is fine. */
  (text: string, slanted: boolean): number;
}

export interface Label {
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly slanted: boolean;
  readonly fill: number;
}

export interface Frame {
  /** By fill: x, y, width of each rectangle, one after another. */
  readonly rects: readonly (readonly number[])[];
  readonly labels: readonly Label[];
  readonly rect_px: number;
  /** Boxes that the view shows, and those of them that went into runs of two or more. */
  readonly boxes: number;
  readonly merged: number;
  readonly count: number;
}

/** `text` cut so that it fits `room_px`, with an ellipsis; empty if nothing readable fits. */
export function fitLabel(text: string, slanted: boolean, room_px: number, measure: LabelMeasure): string {
  if (room_px <= 0) return '';
  if (measure(text, slanted) <= room_px) return text;
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(text.slice(0, middle) + '…', slanted) <= room_px) low = middle;
    else high = middle - 1;
  }
  // Do not cut a surrogate pair in two.
  if (low > 0 && /[\ud800-\udbff]/.test(text[low - 1])) low--;
  return low > 0 && measure(text.slice(0, low) + '…', slanted) <= room_px ? text.slice(0, low) + '…' : '';
}

export function scaleOf(view: View): number {
  const range = view.x_to - view.x_from;
  return range > 0 ? view.width_px / range : 0;
}

export function composeFrame(boxes: Boxes, view: View, look: BoxLook, measure: LabelMeasure): Frame {
  const scale = scaleOf(view);
  const rects: number[][] = Array.from({length: look.fills}, () => []);
  const labels: Label[] = [];
  const height = view.row_px - 1;
  let shown = 0;
  let merged = 0;
  let count = 0;
  const first_row = Math.max(0, Math.floor(view.scroll_px / view.row_px));
  const last_row = Math.min(boxes.rows - 1, Math.floor((view.scroll_px + view.height_px) / view.row_px));

  for (let row = first_row; scale > 0 && row <= last_row; row++) {
    const y = row * view.row_px - view.scroll_px;
    const stop = boxes.first[row + 1];
    let run_first = -1;
    let run_last = -1;
    let run_from = 0;
    let run_to = 0;
    const flush = () => {
      if (run_first < 0) return;
      const fill = run_first === run_last ? look.fill(run_first) : look.runFill(run_first, run_last);
      rects[fill].push(run_from, y, Math.max(run_to - run_from, 0.75));
      count++;
      if (run_last > run_first) merged += run_last - run_first + 1;
      run_first = -1;
    };
    for (let box = Math.max(lastStartingBefore(boxes, row, view.x_from), boxes.first[row]); box < stop; box++) {
      const x = boxes.x[box];
      if (x >= view.x_to) break;
      if (x + boxes.width[box] <= view.x_from) continue;
      shown++;
      const from = Math.max((x - view.x_from) * scale, 0);
      const to = Math.min((x + boxes.width[box] - view.x_from) * scale, view.width_px);
      if (boxes.width[box] * scale < kRunPx) {
        if (run_first >= 0 && from - run_to > kRunGapPx) flush();
        if (run_first < 0) {
          run_first = box;
          run_from = from;
        }
        run_last = box;
        run_to = to;
        continue;
      }
      flush();
      // One pixel of background between neighbours; a narrow box cannot spare it.
      const width = to - from > 4 ? to - from - 1 : to - from;
      const fill = look.fill(box);
      rects[fill].push(from, y, width);
      count++;
      if (width >= kLabelWidthMinPx) {
        const slanted = look.slanted(box);
        const text = fitLabel(look.label(box), slanted, width - 2 * kLabelPaddingPx, measure);
        if (text) labels.push({x: from + kLabelPaddingPx, y: y + height / 2, text, slanted, fill});
      }
    }
    flush();
  }
  return {rects, labels, rect_px: height, boxes: shown, merged, count};
}

/** What lies under a point of the view: a box, or a run of narrow boxes first .. last. */
export interface Hit {
  readonly box: number;
  readonly first: number;
  readonly last: number;
  readonly row: number;
}

export function hitAt(boxes: Boxes, view: View, x_px: number, y_px: number): Hit | null {
  const scale = scaleOf(view);
  const row = Math.floor((y_px + view.scroll_px) / view.row_px);
  if (!(scale > 0) || row < 0 || row >= boxes.rows || x_px < 0 || x_px > view.width_px) return null;
  const x = view.x_from + x_px / scale;
  const row_first = boxes.first[row];
  const row_stop = boxes.first[row + 1];
  const end = (box: number) => boxes.x[box] + boxes.width[box];
  let box = lastStartingBefore(boxes, row, x);
  const near = kRunGapPx / scale;
  if (box < row_first || x >= end(box)) {
    // A drawn hairline is wider than what it stands for: accept the nearest within a pixel.
    if (box >= row_first && x - end(box) <= near) {
      // keep box
    } else if (box + 1 < row_stop && boxes.x[box + 1] - x <= near) {
      box++;
    } else {
      return null;
    }
  }
  const narrow = (at: number) => boxes.width[at] * scale < kRunPx;
  if (!narrow(box)) return {box, first: box, last: box, row};
  let first = box;
  let last = box;
  while (first > row_first && narrow(first - 1) && end(first - 1) > view.x_from &&
         boxes.x[first] - end(first - 1) <= near) first--;
  while (last + 1 < row_stop && narrow(last + 1) && boxes.x[last + 1] < view.x_to &&
         boxes.x[last + 1] - end(last) <= near) last++;
  let widest = box;
  for (let at = first; at <= last; at++) if (boxes.width[at] > boxes.width[widest]) widest = at;
  return {box: widest, first, last, row};
}
