// Puts a frame on a canvas: rectangles in batches of one colour, then labels in batches of one font and ink.

import {Frame, LabelMeasure} from './frame';
import {css, inkOn, Rgb} from './palette';

export const kFontPx = 12;
const kFamily = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

export function fontOf(slanted: boolean): string {
  return `${slanted ? 'italic ' : ''}${kFontPx}px ${kFamily}`;
}

/**
 * Adds up widths of single characters, each measured once: thousands of labels a frame would be too many
 * calls of measureText. Kerning only makes text narrower, so a label never outgrows its sum.
 */
export function charMeasure(context: CanvasRenderingContext2D): LabelMeasure {
  const known = [new Map<string, number>(), new Map<string, number>()];
  return (text, slanted) => {
    const widths = known[slanted ? 1 : 0];
    let sum = 0;
    for (const char of text) {
      let width = widths.get(char);
      if (width === undefined) {
        context.save();
        context.font = fontOf(slanted);
        width = context.measureText(char).width;
        context.restore();
        widths.set(char, width);
      }
      sum += width;
    }
    return sum;
  };
}

export interface Paper {
  readonly width_px: number;
  readonly height_px: number;
  /** Device pixels per CSS pixel. */
  readonly density: number;
}

export function paintFrame(context: CanvasRenderingContext2D, frame: Frame, paper: Paper, palette: readonly Rgb[]): void {
  const {density} = paper;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, Math.ceil(paper.width_px * density), Math.ceil(paper.height_px * density));
  const height = Math.max(1, Math.round(frame.rect_px * density));
  frame.rects.forEach((rects, fill) => {
    if (rects.length === 0) return;
    context.fillStyle = css(palette[fill]);
    for (let i = 0; i < rects.length; i += 3) {
      // Whole device pixels: sharp edges, and no seams where boxes touch.
      const left = Math.round(rects[i] * density);
      const right = Math.max(left + 1, Math.round((rects[i] + rects[i + 2]) * density));
      context.fillRect(left, Math.round(rects[i + 1] * density), right - left, height);
    }
  });

  context.setTransform(density, 0, 0, density, 0, 0);
  context.textBaseline = 'middle';
  const inks = palette.map((fill) => css(inkOn(fill)));
  for (const slanted of [false, true]) {
    context.font = fontOf(slanted);
    let ink = '';
    for (const label of frame.labels) {
      if (label.slanted !== slanted) continue;
      if (inks[label.fill] !== ink) context.fillStyle = ink = inks[label.fill];
      context.fillText(label.text, label.x, label.y + 0.5);
    }
  }
}
