// Colours. Six kinds of code that stay apart for every common kind of colour blindness (tests/palette
// simulates them), a scale for change from blue (less) through grey to orange (more), and what search uses.

import {Kind, kKinds} from './kinds';

export type Rgb = readonly [number, number, number];
export type Theme = 'light' | 'dark';

/** Neighbours of one kind differ a little, by the function's name. */
export const kShades = 3;
/** Steps of the scale of change, odd: the middle one is "no change". */
export const kChangeSteps = 11;

export const kKindColours: Record<Theme, Record<Kind, Rgb>> = {
  light: {
    own: [246, 196, 92],
    runtime: [79, 169, 139],
    libc: [161, 215, 255],
    library: [165, 140, 222],
    kernel: [221, 118, 81],
    unknown: [210, 210, 210],
  },
  dark: {
    own: [222, 172, 70],
    runtime: [78, 150, 115],
    libc: [123, 192, 234],
    library: [134, 125, 207],
    kernel: [204, 110, 66],
    unknown: [181, 181, 181],
  },
};

interface Plain {
  /** Runs of narrow boxes. */
  run: Rgb;
  /** What a search did not match. */
  faint: Rgb;
  found: Rgb;
  /** Runs of which less than half matches. */
  partly: Rgb;
  less: Rgb;
  same: Rgb;
  more: Rgb;
}

export const kPlain: Record<Theme, Plain> = {
  light: {
    run: [178, 178, 178], faint: [226, 226, 226], found: [204, 121, 190], partly: [228, 190, 221],
    less: [70, 148, 214], same: [222, 222, 222], more: [226, 110, 20],
  },
  dark: {
    run: [104, 108, 114], faint: [58, 62, 69], found: [214, 128, 198], partly: [120, 84, 117],
    less: [86, 164, 230], same: [82, 86, 93], more: [240, 140, 50],
  },
};

/** Fill numbers, as frames use them. */
export const kFillRun = kKinds.length * kShades;
export const kFillFaint = kFillRun + 1;
export const kFillFound = kFillRun + 2;
export const kFillPartly = kFillRun + 3;
export const kFillChange = kFillRun + 4;
export const kFills = kFillChange + kChangeSteps;

export function kindFill(kind: number, shade: number): number {
  return kind * kShades + shade;
}

/** `change` from -1 (gone) to 1 (new). */
export function changeFill(change: number): number {
  const middle = (kChangeSteps - 1) / 2;
  return kFillChange + middle + Math.round(Math.max(-1, Math.min(1, change)) * middle);
}

/** -1 (gone) to 1 (new): the difference of two shares against the larger one. */
export function changeOf(share: number, other_share: number): number {
  const larger = Math.max(share, other_share);
  return larger > 0 ? (share - other_share) / larger : 0;
}

function mix(a: Rgb, b: Rgb, part: number): Rgb {
  return [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, a[2] + (b[2] - a[2]) * part];
}

export function paletteOf(theme: Theme): Rgb[] {
  const fills: Rgb[] = [];
  for (const kind of kKinds) {
    const base = kKindColours[theme][kind];
    for (let shade = 0; shade < kShades; shade++) fills.push(mix(base, [255, 255, 255], shade * 0.09));
  }
  const {run, faint, found, partly, less, same, more} = kPlain[theme];
  fills.push(run, faint, found, partly);
  const middle = (kChangeSteps - 1) / 2;
  for (let step = 0; step < kChangeSteps; step++) {
    fills.push(step <= middle ? mix(less, same, step / middle) : mix(same, more, (step - middle) / middle));
  }
  return fills;
}

function linear(channel: number): number {
  const part = channel / 255;
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}

export function luminance(colour: Rgb): number {
  return 0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2]);
}

/** WCAG contrast, 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

export const kInkDark: Rgb = [16, 18, 22];
export const kInkLight: Rgb = [250, 250, 250];

/** The ink that is easier to read on `fill`. */
export function inkOn(fill: Rgb): Rgb {
  return contrast(fill, kInkDark) >= contrast(fill, kInkLight) ? kInkDark : kInkLight;
}

export function css(colour: Rgb): string {
  return `rgb(${colour.map((channel) => Math.round(channel)).join(' ')})`;
}

/** A small stable number from a name: the same function has the same shade in every picture. */
export function shadeOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % kShades;
}
