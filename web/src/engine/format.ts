// Numbers with their units.

const kGroup = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});

/** 1,234,567 */
export function formatCount(value: number): string {
  return kGroup.format(value);
}

function threeDigits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100) return kGroup.format(value);
  return value.toFixed(size >= 10 ? 1 : 2);
}

const kTimeUnits: ReadonlyArray<[number, string]> = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
const kByteUnits: ReadonlyArray<[number, string]> =
    [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
const kCountUnits: ReadonlyArray<[number, string]> = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M']];
const kNanoseconds: Record<string, number> = {nanoseconds: 1, microseconds: 1e3, milliseconds: 1e6, seconds: 1e9};

function scaled(value: number, units: ReadonlyArray<[number, string]>): string | null {
  for (const [size, name] of units) if (Math.abs(value) >= size) return `${threeDigits(value / size)} ${name}`;
  return null;
}

/** 1.52 s, 31.0 MiB, 12,345, 3.10 G; a unit that is not known follows the number. */
export function formatValue(value: number, unit: string): string {
  const factor = kNanoseconds[unit];
  if (factor !== undefined) return scaled(value * factor, kTimeUnits) ?? '0 s';
  if (unit === 'bytes') return scaled(value, kByteUnits) ?? '0 B';
  const number = scaled(value, kCountUnits) ?? (Number.isInteger(value) ? formatCount(value) : threeDigits(value));
  return unit === '' || unit === 'count' ? number : `${number} ${unit}`;
}

/** 12.4 %, 0.04 %, <0.01 %; '–' if there is nothing to take a share of. */
export function formatShare(part: number, whole: number): string {
  if (!(whole > 0)) return '–';
  const percent = (part / whole) * 100;
  if (percent === 0) return '0 %';
  const size = Math.abs(percent);
  if (size < 0.01) return percent < 0 ? '>−0.01 %' : '<0.01 %';
  const text = percent.toFixed(size >= 1 ? 1 : 2).replace(/^-/, '−');
  // 99.96 is not everything.
  return part < whole && text === '100.0' ? '99.9 %' : `${text === '100.0' ? '100' : text} %`;
}

/** +1.20 pp: percentage points between two shares. */
export function formatPoints(share: number, other_share: number): string {
  const points = (share - other_share) * 100;
  const text = Math.abs(points).toFixed(2);
  return text === '0.00' ? '0.00 pp' : `${points > 0 ? '+' : '−'}${text} pp`;
}
