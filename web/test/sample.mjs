// Profiles for tests and for looking at the page: folded text to the shape of docs/formats/html-data.md,
// and synthetic trees from a seed. make_sample.mjs makes pages of them.

export const kSampleNs = 10_000_000;

/** Deterministic numbers in [0, 1). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** "a;b;c N" lines to [["a","b","c"], N]; a line without a count is an error. */
export function parseFolded(text) {
  return text.split('\n').filter((line) => line.trim() !== '').map((line) => {
    const match = /^(.*) (\d+)$/.exec(line);
    if (!match) throw new Error(`not a folded line: ${line}`);
    return [match[1].split(';'), Number(match[2])];
  });
}

/**
 * A frame may be "name", "name@object", "name@object@file:line"; a trailing "~" marks it inlined.
 * Stacks may carry a second count for the profile compared against.
 */
export function profileOf(stacks, {title = 'sample', other_title = null, quality = null, extra = {}} = {}) {
  const root = {frame: 'all', kids: new Map(), mine: [0, 0], theirs: [0, 0]};
  for (const [frames, mine, theirs = 0] of stacks) {
    let node = root;
    root.mine[0] += mine;
    root.theirs[0] += theirs;
    for (const frame of frames) {
      let kid = node.kids.get(frame);
      if (!kid) node.kids.set(frame, kid = {frame, kids: new Map(), mine: [0, 0], theirs: [0, 0]});
      kid.mine[0] += mine;
      kid.theirs[0] += theirs;
      node = kid;
    }
    node.mine[1] += mine;
    node.theirs[1] += theirs;
  }
  const table = () => {
    const list = [];
    const known = new Map();
    return {list, index: (text) => {
      if (text === '') return -1;
      if (!known.has(text)) known.set(text, list.push(text) - 1);
      return known.get(text);
    }};
  };
  const names = table();
  const files = table();
  const objects = table();
  const nodes = {level: [], name: [], file: [], line: [], object: [], inlined: [], total: [[], []], self: [[], []]};
  const other = {total: [[], []], self: [[], []]};
  const open = [[root, 0]];
  while (open.length > 0) {
    const [node, level] = open.pop();
    const inlined = node.frame.endsWith('~');
    const [name, object = '', place = ''] = node.frame.replace(/~$/, '').split('@');
    const [file, line = '0'] = place.split(':');
    nodes.level.push(level);
    nodes.name.push(names.index(name));
    nodes.object.push(objects.index(object));
    nodes.file.push(files.index(file));
    nodes.line.push(Number(line));
    nodes.inlined.push(inlined ? 1 : 0);
    for (const [column, at] of [['total', 0], ['self', 1]]) {
      nodes[column][0].push(node.mine[at]);
      nodes[column][1].push(node.mine[at] * kSampleNs);
      other[column][0].push(node.theirs[at]);
      other[column][1].push(node.theirs[at] * kSampleNs);
    }
    const kids = [...node.kids.values()];
    kids.sort((a, b) => b.mine[0] - a.mine[0] || (a.frame < b.frame ? -1 : 1));
    for (const kid of kids.reverse()) open.push([kid, level + 1]);
  }
  return {
    version: 1, title,
    sample_types: [{type: 'samples', unit: 'count'}, {type: 'cpu', unit: 'nanoseconds'}],
    default_type: 1,
    names: names.list, files: files.list, objects: objects.list, nodes,
    ...(other_title === null ? {} : {other: {title: other_title, ...other}}),
    ...(quality === null ? {} : {quality}),
    ...extra,
  };
}

const kObjects = [
  ['pricing', '/opt/pricing/bin/pricing'], ['engine', '/opt/pricing/bin/pricing'], ['json', '/opt/pricing/bin/pricing'],
  ['std', '/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30'], ['c', '/usr/lib/x86_64-linux-gnu/libc.so.6'],
  ['ssl', '/usr/lib/x86_64-linux-gnu/libssl.so.3'], ['sys', '[kernel.kallsyms]'], ['', ''],
];

/** A tree of exactly `nodes` nodes (the root included), flat and deep at once: a hard case for drawing. */
export function synthetic({nodes = 50_000, seed = 1, names = 4_000, depth = 57, compared = false} = {}) {
  const random = randomFrom(seed);
  const words = ['parse', 'handle', 'serve', 'compress', 'read', 'write', 'lookup', 'hash', 'copy', 'merge', 'poll'];
  const frame = (n) => {
    const [space, object] = kObjects[n % kObjects.length];
    const name = `${space}${space ? '::' : ''}${words[n % words.length]}_${n}`;
    return `${name}@${object}@${object === '' ? '' : `src/${space}.cc:${(n % 900) + 1}`}${n % 13 === 0 ? '~' : ''}`;
  };
  const paths = [[]];
  const taken = new Set(['']);
  while (paths.length < nodes) {
    const from = paths[Math.floor(random() ** 0.7 * paths.length)];
    if (from.length >= depth) continue;
    const path = [...from, Math.floor(random() ** 2 * names)];
    const key = path.join(';');
    if (taken.has(key)) continue;
    taken.add(key);
    paths.push(path);
  }
  const stacks = paths.slice(1).map((path) => {
    const mine = 1 + Math.floor(random() ** 6 * 40);
    return [path.map(frame), mine, compared ? Math.floor(mine * (0.5 + random())) : 0];
  });
  const total = stacks.reduce((sum, [, count]) => sum + count, 0);
  return profileOf(stacks, {
    title: `synthetic service, ${nodes.toLocaleString('en')} nodes`,
    other_title: compared ? 'before' : null,
    quality: sampleQuality(total),
  });
}

export function sampleQuality(kept) {
  const cut = Math.round(kept * 0.019);
  return {
    captured: kept + 12, kept,
    lost: [{stage: 'capture', reason: 'ring full', count: 12, remedy: 'Record with a larger ring or a lower rate.'}],
    stacks: {complete: kept - cut, cut: [{reason: 'stack beyond the dump', count: cut - 3}, {reason: 'no unwind entry', count: 3}]},
    frames: {symbolized: kept * 9, unsymbolized: [{object: '/opt/vendor/libblob.so', reason: 'no symbols', count: Math.round(kept * 0.08)}]},
  };
}

/** A small service as a person would see it, with every kind of code, recursion and inlined frames. */
export function service({compared = false} = {}) {
  const own = '/opt/pricing/bin/pricing';
  const libc = '/usr/lib/x86_64-linux-gnu/libc.so.6';
  const cxx = '/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30';
  const ssl = '/usr/lib/x86_64-linux-gnu/libcrypto.so.3';
  const kernel = '[kernel.kallsyms]';
  const f = (name, object, place = '') => `${name}@${object}@${place}`;
  const main = [f('_start', own), f('__libc_start_main', libc), f('main', own, 'src/main.cc:41')];
  const serve = [...main, f('Server::Run()', own, 'src/server.cc:88'), f('Server::Handle(Request const&)', own, 'src/server.cc:130')];
  const worker = [f('clone3', libc), f('start_thread', libc), f('Worker::Loop()', own, 'src/worker.cc:25')];
  const parse = f('json::Parser::Value(std::string_view, int)', own, 'src/json.cc:210');
  const entry = [f('entry_SYSCALL_64_after_hwframe', kernel), f('do_syscall_64', kernel)];
  const stacks = [
    [[...serve, parse], 120, 150],
    [[...serve, parse, parse], 90, 100],
    [[...serve, parse, parse, parse, `${f('json::Parser::SkipSpace()', own, 'src/json.cc:95')}~`], 140, 60],
    [[...serve, parse, parse, f('json::Parser::String()', own, 'src/json.cc:300'), f('operator new(unsigned long)', cxx), f('malloc', libc)], 75, 80],
    [[...serve, f('Quote::Price(Book const&, Instant)', own, 'src/quote.cc:61'), `${f('Curve::At(double)', own, 'src/curve.cc:19')}~`], 210, 205],
    [[...serve, f('Quote::Price(Book const&, Instant)', own, 'src/quote.cc:61'), f('std::_Rb_tree_increment(std::_Rb_tree_node_base*)', cxx)], 66, 70],
    [[...serve, f('Tls::Write(Bytes)', own, 'src/tls.cc:12'), f('EVP_EncryptUpdate', ssl), f('aesni_gcm_encrypt', ssl)], 130, 128],
    [[...serve, f('Tls::Write(Bytes)', own, 'src/tls.cc:12'), f('__send', libc), ...entry, f('__x64_sys_sendto', kernel), f('tcp_sendmsg', kernel), f('skb_copy_datagram_from_iter', kernel)], 88, 90],
    [[...worker, f('compress::Deflate(Span, Span)', own, 'src/compress.cc:402')], 300, 180],
    [[...worker, f('compress::Deflate(Span, Span)', own, 'src/compress.cc:402'), f('__memcpy_avx_unaligned_erms', libc)], 94, 60],
    [[...worker, f('0x7f21a4b01c', ''), f('0x7f21a4b188', '')], 14, 15],
    [[...worker, f('Queue::Pop()', own, 'src/queue.cc:33'), f('pthread_cond_wait@@GLIBC_2.3.2'.split('@')[0], libc), ...entry, f('futex_wait', kernel), f('schedule', kernel)], 41, 0],
    [[...worker, f('Old::Encode(Span)', own, 'src/old.cc:7')], 0, 120],
  ];
  const kept = stacks.reduce((sum, [, mine]) => sum + mine, 0);
  return profileOf(stacks, {
    title: compared ? 'pricing 2.4.1 against 2.4.0' : 'pricing, 30 s at 97 Hz on host-7',
    other_title: compared ? 'pricing 2.4.0' : null,
    quality: sampleQuality(kept),
    extra: compared ? {} : {pruned: {nodes: 812, total: [3, 3 * kSampleNs]}},
  });
}

/** The page with a profile in it, as an exporter makes it. */
export function fillTemplate(template, profile) {
  const json = (typeof profile === 'string' ? profile : JSON.stringify(profile)).replaceAll('<', '\\u003c');
  const parts = template.split('/*PTARMIGAN_PROFILE*/');
  if (parts.length !== 2) throw new Error(`the template has ${parts.length - 1} placeholders, not 1`);
  return parts.join(json);
}
