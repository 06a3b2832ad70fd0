import {test} from 'node:test';
import assert from 'node:assert/strict';
import {
  changeFill, changeOf, contrast, inkOn, kChangeSteps, kFillChange, kFills, kKindColours, kPlain, kShades, paletteOf, shadeOf,
} from '../src/engine/palette.ts';
import {kindOf, kKinds} from '../src/engine/kinds.ts';
import {formatCount, formatPoints, formatShare, formatValue} from '../src/engine/format.ts';
import {defaultState, hashOf, stateOf} from '../src/ui/view_state.ts';
import {parseProfile} from '../src/profile/parse.ts';
import {service} from './sample.mjs';

// Machado, Oliveira, Fernandes 2009: full protanopia, deuteranopia, tritanopia on linear RGB.
const kBlindness = {
  none: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deutan: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritan: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

function lab(colour, matrix) {
  const linear = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const seen = [0, 3, 6].map((row) => Math.min(1, Math.max(0, linear.reduce((sum, c, i) => sum + matrix[row + i] * c, 0))));
  const [r, g, b] = seen;
  const xyz = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047, 0.2126 * r + 0.7152 * g + 0.0722 * b,
               (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883];
  const [x, y, z] = xyz.map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const distance = (a, b, matrix) => Math.hypot(...lab(a, matrix).map((v, i) => v - lab(b, matrix)[i]));

test('kinds of code stay apart for every kind of colour blindness, in both themes', () => {
  for (const theme of ['light', 'dark']) {
    for (const [blindness, matrix] of Object.entries(kBlindness)) {
      kKinds.forEach((a, i) => kKinds.slice(i + 1).forEach((b) => {
        const apart = distance(kKindColours[theme][a], kKindColours[theme][b], matrix);
        assert.ok(apart >= 18, `${a} and ${b} are ${apart.toFixed(1)} apart, ${theme}, ${blindness}`);
      }));
    }
  }
});

test('less and more stay apart for every kind of colour blindness, and from no change', () => {
  for (const theme of ['light', 'dark']) {
    const {less, same, more} = kPlain[theme];
    for (const matrix of Object.values(kBlindness)) {
      for (const [a, b] of [[less, more], [less, same], [more, same]]) assert.ok(distance(a, b, matrix) >= 25);
    }
  }
});

test('the ink on every fill has contrast for text', () => {
  for (const theme of ['light', 'dark']) {
    const fills = paletteOf(theme);
    assert.equal(fills.length, kFills);
    fills.forEach((fill, i) => assert.ok(contrast(fill, inkOn(fill)) >= 4.5, `${theme} fill ${i}: ${contrast(fill, inkOn(fill)).toFixed(2)}`));
  }
});

test('change runs from gone to new', () => {
  assert.equal(changeOf(0.2, 0.2), 0);
  assert.equal(changeOf(0, 0.1), -1);
  assert.equal(changeOf(0.1, 0), 1);
  assert.equal(changeOf(0, 0), 0);
  assert.equal(changeFill(-1), kFillChange);
  assert.equal(changeFill(0), kFillChange + (kChangeSteps - 1) / 2);
  assert.equal(changeFill(9), kFillChange + kChangeSteps - 1);
  assert.ok(shadeOf('malloc') < kShades);
});

test('objects tell what kind of code a function is', () => {
  const cases = [
    ['main', '/opt/app/bin/app', 'own'], ['f', '/opt/app/lib/libengine.so.2', 'own'], ['f', 'app', 'own'],
    ['Hot.leaf', '[jit]', 'own'], ['x', '/tmp/perf-123.map', 'own'], ['x', '//anon', 'own'],
    ['malloc', '/usr/lib/x86_64-linux-gnu/libc.so.6', 'libc'], ['malloc', '/lib/aarch64-linux-gnu/libc-2.31.so', 'libc'],
    ['_dl_start', '/lib64/ld-linux-x86-64.so.2', 'libc'], ['sin', 'libm.so.6', 'libc'], ['x', '/lib/ld-musl-aarch64.so.1', 'libc'],
    ['__vdso_gettime', '[vdso]', 'libc'],
    ['operator new(unsigned long)', '/usr/lib/x86_64-linux-gnu/libstdc++.so.6', 'runtime'],
    ['std::sort<int*>', '/opt/app/bin/app', 'runtime'], ['runtime.mallocgc', '/opt/app/bin/goapp', 'runtime'],
    ['core::fmt::write', '/opt/app/bin/rs', 'runtime'], ['runtimeConfig', '/opt/app/bin/app', 'own'],
    ['main.main', '/opt/app/bin/goapp', 'own'], ['stdlib_wrapper', '/opt/app/bin/app', 'own'],
    ['_PyEval_EvalFrameDefault', '/usr/bin/python3.11', 'runtime'], ['f', '/opt/jdk/lib/server/libjvm.so', 'runtime'],
    ['SSL_read', '/usr/lib/x86_64-linux-gnu/libssl.so.3', 'library'], ['zcat', '/usr/bin/zcat', 'own'],
    ['do_syscall_64', '[kernel.kallsyms]', 'kernel'], ['x', '[kernel.kallsyms]_text', 'kernel'],
    ['nft_do_chain', '[nf_tables]', 'kernel'], ['x', '/lib/modules/6.1/kernel/net/tls.ko.xz', 'kernel'],
    ['bpf_prog_6deef7357e7b4530_sd_fw', '[bpf]', 'kernel'], ['vfs_read_[k]', '', 'kernel'],
    ['0x7f01', '', 'unknown'], ['x', '[unknown]', 'unknown'],
  ];
  for (const [name, object, kind] of cases) assert.equal(kindOf(name, object), kind, `${name} in ${object}`);
});

test('numbers carry their units', () => {
  assert.equal(formatCount(1234567), '1,234,567');
  assert.equal(formatValue(1_523_000_000_000, 'nanoseconds'), '1,523 s');
  assert.equal(formatValue(31_000, 'nanoseconds'), '31.0 µs');
  assert.equal(formatValue(0, 'nanoseconds'), '0 s');
  assert.equal(formatValue(2, 'milliseconds'), '2.00 ms');
  assert.equal(formatValue(3 * 2 ** 20, 'bytes'), '3.00 MiB');
  assert.equal(formatValue(0, 'bytes'), '0 B');
  assert.equal(formatValue(12_345, 'count'), '12,345');
  assert.equal(formatValue(3_100_000_000, 'count'), '3.10 G');
  assert.equal(formatValue(500, 'cycles'), '500 cycles');
  assert.equal(formatValue(-2_000_000, 'nanoseconds'), '-2.00 ms');
});

test('shares never say everything or nothing when it is not', () => {
  assert.equal(formatShare(1, 8), '12.5 %');
  assert.equal(formatShare(1, 1), '100 %');
  assert.equal(formatShare(9_999_999, 10_000_000), '99.9 %');
  assert.equal(formatShare(1, 10_000_000), '<0.01 %');
  assert.equal(formatShare(0, 10), '0 %');
  assert.equal(formatShare(0, 0), '–');
  assert.equal(formatPoints(0.5, 0.488), '+1.20 pp');
  assert.equal(formatPoints(0.1, 0.2), '−10.00 pp');
  assert.equal(formatPoints(0.1, 0.1), '0.00 pp');
});

test('the hash holds the view and gives it back', () => {
  const profile = parseProfile(JSON.stringify(service()));
  const start = defaultState(profile, false);
  assert.equal(hashOf(start, start, profile), '');
  const state = {view: 'sandwich', type: 0, search: 'a|b&c=d #+ü', focus: 3, symbol: 5, fold: true, sort: 'name', ascending: true};
  assert.deepEqual(stateOf(`#${hashOf(state, start, profile)}`, start, profile), state);
  const sorted = {...start, sort: 'total', ascending: false};
  assert.deepEqual(stateOf(hashOf(sorted, start, profile), start, profile), sorted);
});

test('a hash from elsewhere leaves what this profile does not have at its start', () => {
  const profile = parseProfile(JSON.stringify(service()));
  const start = defaultState(profile, false);
  for (const hash of ['view=3d', 'type=latency', 'focus=99999', 'focus=-1', 'focus=1e3', 'function=x', 'sort=magic', '%%%', 'fold=yes']) {
    assert.deepEqual(stateOf(hash, start, profile), start, hash);
  }
  assert.equal(defaultState(profile, true).view, 'table');
});

test('two sample types of one name have two names in the hash', () => {
  const json = service();
  json.sample_types = [{type: 'latency', unit: 'cycles'}, {type: 'latency', unit: 'nanoseconds'}];
  json.default_type = 0;
  const profile = parseProfile(JSON.stringify(json));
  const start = defaultState(profile, false);
  const hash = hashOf({...start, type: 1}, start, profile);
  assert.equal(stateOf(hash, start, profile).type, 1);
});
