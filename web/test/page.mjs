// The built page in a browser. Started by run_browser.mjs.

import {after, before, test} from 'node:test';
import assert from 'node:assert/strict';
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {gzipSync} from 'node:zlib';
import {chromiumMissing, launch} from './browser.mjs';
import {fillTemplate, kSampleNs, service, synthetic} from './sample.mjs';

const kProgramBytesMax = 120 * 1024;
const template = readFileSync(process.env.PTARMIGAN_TEMPLATE, 'utf8');
const missing = chromiumMissing();
const skip = missing === null ? false : missing;

test('the program is small, and the page has one place for a profile and nothing to load', () => {
  const scripts = [...template.matchAll(/<script type="module">([\s\S]*?)<\/script>/g)].map((match) => match[1]);
  assert.equal(scripts.length, 1);
  const bytes = gzipSync(scripts[0], {level: 9}).length;
  console.log(`program: ${scripts[0].length} bytes, ${bytes} gzip`);
  assert.ok(bytes > 5_000 && bytes <= kProgramBytesMax, `${bytes} bytes`);
  assert.equal(template.split('/*PTARMIGAN_PROFILE*/').length, 2);
  assert.doesNotMatch(template.replace(scripts[0], ''), /\b(src|href)="(?!data:)/);
});

let browser;
before(async () => {
  if (!skip) browser = await launch();
});
after(async () => {
  await browser?.close();
});

function urlOf(name, profile) {
  const path = join(process.env.PTARMIGAN_PAGES, `${name}.html`);
  writeFileSync(path, profile === null ? template : fillTemplate(template, profile));
  return pathToFileURL(path).href;
}

/** Opens a page, hands it to `use`, then asserts that it was silent on the console and on the network. */
async function withPage(url, options, use) {
  const context = await browser.newContext({viewport: {width: 1280, height: 720}, colorScheme: 'light', ...options});
  try {
    const page = await context.newPage();
    // Far above what any step takes: on a busy machine the page is slow, not wrong.
    page.setDefaultTimeout(120_000);
    const noise = [];
    page.on('console', (message) => noise.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => noise.push(`error: ${error.stack}`));
    page.on('request', (request) => {
      const asked = request.url().split('#')[0];
      if (asked !== url.split('#')[0] && !asked.startsWith('data:')) noise.push(`request: ${asked}`);
    });
    await page.goto(url);
    await use(page);
    assert.deepEqual(noise, []);
  } finally {
    await context.close();
  }
}

const drawn = (page, what) => page.$eval('canvas', (canvas, key) => Number(canvas.dataset[key]), what);
const textOf = (page, selector) => page.$eval(selector, (element) => element.textContent.replace(/\s+/g, ' ').trim());
const hashOf = (page) => page.evaluate(() => location.hash);
const details = (page) => textOf(page, '.details');

/** Moves the mouse to the box of a function, found as a person would: by hovering along the rows. */
async function hoverUntil(page, name) {
  const at = await page.$eval('canvas', async (canvas, wanted) => {
    const {left, top, width, height} = canvas.getBoundingClientRect();
    for (let y = top + 10; y < top + height; y += 20) {
      for (let x = left + 3; x < left + width; x += 12) {
        canvas.dispatchEvent(new MouseEvent('mousemove', {clientX: x, clientY: y, bubbles: true}));
        // Longer than the microtask in which the page draws the details.
        await new Promise((resolve) => queueMicrotask(() => queueMicrotask(() => queueMicrotask(resolve))));
        if (document.querySelector('.details').textContent.trim().startsWith(wanted)) return {x, y};
      }
    }
    return null;
  }, name);
  assert.ok(at, `no box of ${name} on the screen`);
  await page.mouse.move(at.x, at.y);
  assert.ok((await details(page)).startsWith(name));
  return at;
}

test('the page has its title, quality line and every box', {skip}, async () => {
  const profile = service();
  await withPage(urlOf('service', profile), {}, async (page) => {
    assert.equal(await page.title(), 'pricing, 30 s at 97 Hz on host-7 · Ptarmigan');
    const boxes = profile.nodes.total[1].filter((value) => value > 0).length;
    assert.equal(await drawn(page, 'boxes'), boxes);
    assert.match(await textOf(page, '.quality'), /1,380 captured.*1,368 kept \(99\.1 %\).*12 lost.*1\.9 % cut stacks/);
    assert.match(await details(page), /^all.*100 % of all.*13\.7 s.*samples 1,368/);
    await page.click('.quality button');
    assert.match(await textOf(page, '.quality dialog'), /1,380 captured = 1,368 kept \+ 12 lost\..*ring full.*larger ring/);
    await page.keyboard.press('Escape');
    assert.equal(await page.$('.quality dialog[open]'), null);
    assert.equal(await page.evaluate(() => document.getElementById('ptarmigan-profile').textContent), '');
  });
});

test('search tells the share that matches, counts nested matches once, and Esc takes it back', {skip}, async () => {
  await withPage(urlOf('search', service()), {}, async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('^json|compress');
    // json::Parser::Value 425 of 1368 samples, compress::Deflate 394.
    assert.equal(await textOf(page, '#search-result'), '59.9 % matched · 4 functions');
    assert.equal(await hashOf(page), '#search=%5Ejson%7Ccompress');
    await page.keyboard.type('(');
    assert.match(await textOf(page, '#search-result'), /not an expression: Unterminated group/);
    await page.keyboard.press('Escape');
    assert.equal(await textOf(page, '#search-result'), '');
    await page.keyboard.press('Escape');
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'BODY');
  });
});

test('a click zooms, Esc and Back undo, and the link shows the same again', {skip}, async () => {
  const url = urlOf('zoom', service());
  await withPage(url, {}, async (page) => {
    const everything = await drawn(page, 'boxes');
    const at = await hoverUntil(page, 'Tls::Write(Bytes)');
    assert.match(await details(page), /src\/tls\.cc:12.*\/opt\/pricing\/bin\/pricing.*15\.9 % of all.*total 2\.18 s.*self 0 s.*samples 218/);
    await page.mouse.click(at.x, at.y);
    await page.waitForSelector('.crumbs li button[aria-current]');
    assert.equal(await textOf(page, '.crumbs li button[aria-current]'), 'Tls::Write(Bytes)');
    const zoomed = await drawn(page, 'boxes');
    assert.equal(zoomed, 15, '7 on the path (the root and itself included), 8 below it');
    const hash = await hashOf(page);
    assert.match(hash, /^#focus=\d+$/);

    await page.keyboard.press('f');
    await page.waitForSelector('#tab-flame[aria-selected=true]');
    assert.equal(await drawn(page, 'boxes'), zoomed);
    await page.goBack();
    await page.waitForSelector('#tab-icicle[aria-selected=true]');
    assert.equal(await hashOf(page), hash);
    await page.keyboard.press('Escape');
    await page.waitForSelector('.crumbs .hint');
    assert.equal(await drawn(page, 'boxes'), everything);

    // The same link in a new tab; and in a tab that has the page open already.
    await page.goto('about:blank');
    await page.goto(`${url}${hash}`);
    assert.equal(await drawn(page, 'boxes'), zoomed);
    await page.evaluate(() => { location.hash = '#view=flame&search=malloc'; });
    await page.waitForSelector('#tab-flame[aria-selected=true]');
    assert.match(await textOf(page, '#search-result'), /^5\.5 % matched · 1 function$/);
    assert.equal(await page.inputValue('input[type=search]'), 'malloc');
    // Esc at the first step of a pasted link clears what it brought.
    await page.goto('about:blank');
    await page.goto(`${url}#focus=5&search=malloc`);
    await page.keyboard.press('Escape');
    await page.waitForSelector('.crumbs .hint');
    assert.equal(await page.inputValue('input[type=search]'), '');
  });
});

test('arrow keys walk the boxes, Enter zooms, s opens the sandwich', {skip}, async () => {
  await withPage(urlOf('keys', service()), {}, async (page) => {
    for (const key of ['ArrowDown', 'ArrowDown']) await page.keyboard.press(key);
    assert.match(await details(page), /^_start/);
    await page.keyboard.press('ArrowRight');
    assert.match(await details(page), /^clone3/);
    await page.keyboard.press('ArrowLeft');
    for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowDown');
    assert.match(await details(page), /^json::Parser::Value/);
    await page.keyboard.press('Enter');
    await page.waitForSelector('.crumbs li button[aria-current]');
    assert.match(await hashOf(page), /focus=6/);
    await page.keyboard.press('s');
    await page.waitForSelector('#tab-sandwich[aria-selected=true]');
    assert.match(await textOf(page, '.crumbs'), /callers above, callees below: ?json::Parser::Value/);
    assert.match(await details(page), /^json::Parser::Value.*31\.1 % of all.*samples 425/);
    // Six callers up to the root, the function, and what it calls: itself twice, 4 others.
    assert.equal(await drawn(page, 'boxes'), 6 + 1 + 2 + 4);
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open]');
    assert.match(await textOf(page, 'dialog[open]'), /undo one step/);
    await page.keyboard.press('Escape');
    assert.equal(await page.$('dialog[open]'), null);
    assert.match(await hashOf(page), /view=sandwich/, 'closing the help undoes nothing else');
  });
});

test('folding makes recursion one box, and the zoom stays on the same function', {skip}, async () => {
  await withPage(`${urlOf('fold', service())}#focus=8`, {}, async (page) => {
    const before_folding = await drawn(page, 'boxes');
    await page.click('.switch input');
    await page.waitForFunction((old) => Number(document.querySelector('canvas').dataset.boxes) !== old, before_folding);
    assert.equal(await textOf(page, '.crumbs li button[aria-current]'), 'json::Parser::Value(std::string_view, int)');
    assert.match(await details(page), /31\.1 % of all/);
  });
});

test('the table says the same as the graph, sorts, and makes rows only where they are seen', {skip}, async () => {
  const profile = synthetic({nodes: 20_000});
  await withPage(`${urlOf('table', profile)}#view=table`, {}, async (page) => {
    const sums = new Map();
    profile.nodes.name.forEach((name, i) => {
      const key = `${name}/${profile.nodes.object[i]}`;
      sums.set(key, (sums.get(key) ?? 0) + profile.nodes.self[1][i]);
    });
    sums.delete(`${profile.nodes.name[0]}/-1`);
    const [key, self] = [...sums].sort((a, b) => b[1] - a[1])[0];
    const cells = await page.$$eval('.table tbody tr:first-child > *', (all) => all.map((cell) => cell.textContent));
    assert.equal(cells[0], profile.names[Number(key.split('/')[0])]);
    assert.equal(cells[1], `${(100 * self / profile.nodes.total[1][0]).toFixed(self / profile.nodes.total[1][0] >= 0.01 ? 1 : 2)} %`);
    assert.equal(await page.$eval('.table table', (table) => table.getAttribute('aria-rowcount')), String(sums.size + 1));
    assert.ok(await page.$$eval('.table tbody tr', (rows) => rows.length) < 80);

    await page.click('.table thead .function button');
    assert.equal(await page.$eval('.table thead .function', (cell) => cell.getAttribute('aria-sort')), 'ascending');
    assert.match(await hashOf(page), /sort=%2Bname/);
    const names = await page.$$eval('.table tbody .function', (all) => all.map((cell) => cell.textContent));
    assert.deepEqual(names, [...names].sort());
    // The keyboard goes to rows that are not made yet.
    await page.focus('[data-row="0"]');
    await page.keyboard.press('End');
    const last = String(sums.size - 1);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.row), last);
    await page.keyboard.press('ArrowUp');
    assert.equal(await page.evaluate(() => document.activeElement.dataset.row), String(sums.size - 2));
    await page.keyboard.press('Enter');
    await page.waitForSelector('#tab-sandwich[aria-selected=true]');
    assert.ok(await drawn(page, 'boxes') > 1);
  });
});

test('the sample type changes every figure', {skip}, async () => {
  await withPage(urlOf('types', service()), {}, async (page) => {
    await page.selectOption('.type select', '0');
    assert.match(await details(page), /total 1,368/);
    assert.equal(await hashOf(page), '#type=samples');
  });
});

test('a comparison is coloured by change, and says both sides', {skip}, async () => {
  await withPage(urlOf('diff', service({compared: true})), {}, async (page) => {
    await hoverUntil(page, 'Old::Encode(Span)');
    assert.match(await details(page), /total 0 s.*pricing 2\.4\.0: 1\.20 s \(9\.5 %\) ?change −9\.54 pp/);
    assert.match(await textOf(page, '.legend'), /less than in pricing 2\.4\.0 ?more; width = mean/);
    await page.keyboard.press('t');
    await page.click('.table thead button:has-text("Δ self")');
    const first = await page.$$eval('.table tbody tr:first-child > *', (all) => all.map((cell) => cell.textContent).join(' '));
    assert.match(first, /^Old::Encode\(Span\) 0 %.*−9\.54 pp/);
  });
});

test('no label is drawn beyond its box, nor beyond the canvas', {skip}, async () => {
  const context = await browser.newContext({viewport: {width: 1280, height: 720}});
  try {
    const page = await context.newPage();
    await page.addInitScript(() => {
      globalThis.rects = [];
      globalThis.texts = [];
      const {fillRect, fillText} = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillRect = function (x, y, w, h) {
        globalThis.rects.push([x, y, w, h]);
        fillRect.call(this, x, y, w, h);
      };
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        globalThis.texts.push([text, x, y, this.measureText(text).width]);
        fillText.call(this, text, x, y);
      };
    });
    await page.goto(urlOf('labels', synthetic({nodes: 20_000})));
    const {rects, texts} = await page.evaluate(() => ({rects: globalThis.rects, texts: globalThis.texts}));
    assert.ok(texts.length > 40, `${texts.length} labels`);
    for (const [text, x, y, width] of texts) {
      const box = rects.find(([left, top, w, h]) => x >= left && x < left + w && y > top && y < top + h);
      assert.ok(box, `${text} is in no box`);
      assert.ok(x + width <= box[0] + box[2], `${text}: ${width} wide at ${x} in a box that ends at ${box[0] + box[2]}`);
    }
  } finally {
    await context.close();
  }
});

test('nothing moves when things are hovered, searched and zoomed', {skip}, async () => {
  for (const viewport of [{width: 1280, height: 720}, {width: 390, height: 780}]) {
    await withPage(`${urlOf('still', service())}#view=icicle`, {viewport}, async (page) => {
      const places = () => page.$$eval('.page > *, .toolbar > *', (all) => all.map((element) => {
        const {x, y, width, height} = element.getBoundingClientRect();
        return [element.className.split(' ')[0] || element.tagName, x, y, width, height].join(' ');
      }));
      const still = await places();
      await hoverUntil(page, 'Server::Handle');
      assert.deepEqual(await places(), still);
      await page.mouse.down();
      await page.mouse.up();
      await page.keyboard.press('/');
      await page.keyboard.type('parse(');
      await page.keyboard.press('Enter');
      assert.deepEqual(await places(), still);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), viewport.width, 'no sideways scrolling');
    });
  }
});

test('a narrow screen starts with the table', {skip}, async () => {
  await withPage(urlOf('narrow', service()), {viewport: {width: 390, height: 780}}, async (page) => {
    assert.equal(await page.$eval('#tab-table', (tab) => tab.getAttribute('aria-selected')), 'true');
    assert.match(await textOf(page, '.table tbody tr:first-child .function'), /compress::Deflate/);
  });
});

test('pages without a profile, with a damaged one and without samples say so', {skip}, async () => {
  await withPage(urlOf('unfilled', null), {}, async (page) => {
    assert.match(await textOf(page, '[role=alert]'), /holds no profile yet.*ptarmigan convert IN -o OUT\.html/);
  });
  await withPage(urlOf('damaged', '{"version": 1'), {}, async (page) => {
    assert.match(await textOf(page, '[role=alert]'), /damaged.*export it again/);
  });
  const none = service();
  none.nodes.total[1].fill(0);
  none.nodes.self[1].fill(0);
  await withPage(urlOf('none', none), {}, async (page) => {
    assert.match(await textOf(page, '.empty'), /No samples of cpu in this profile\. ?It has samples/);
    await page.click('.empty button');
    await page.waitForSelector('canvas');
    assert.match(await details(page), /total 1,368/);
  });
  await withPage(`${urlOf('nomatch', service())}#view=table&search=zzz`, {}, async (page) => {
    await page.click('.empty button');
    await page.waitForSelector('.table tbody tr');
  });
});

test('50,000 nodes: first picture, redraw and search', {skip}, async () => {
  const url = urlOf('large', synthetic({nodes: 50_000}));
  await withPage(url, {}, async (page) => {
    const first = await page.evaluate(() => performance.getEntriesByName('ptarmigan-shown')[0].startTime);
    assert.ok(await drawn(page, 'merged') > 0);
    const rectangles = await drawn(page, 'rectangles');
    const boxes = await drawn(page, 'boxes');
    const redraw = await page.evaluate(async () => {
      const scroller = document.querySelector('.boxes');
      const times = [];
      for (let i = 0; i < 40; i++) {
        scroller.scrollTop = (i % 2) * 200;
        const start = performance.now();
        scroller.dispatchEvent(new Event('scroll'));
        times.push(performance.now() - start);
        await new Promise((resolve) => requestAnimationFrame(resolve));
      }
      return times.sort((a, b) => a - b);
    });
    const search = await page.evaluate(async () => {
      const input = document.querySelector('input[type=search]');
      const start = performance.now();
      input.value = 'parse|read';
      input.dispatchEvent(new Event('input', {bubbles: true}));
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - start;
    });
    assert.match(await textOf(page, '#search-result'), /% matched · \d+ functions/);
    console.log(`50,000 nodes: first picture ${first.toFixed(0)} ms after navigation (goal 1,500); ` +
        `${boxes} boxes in view as ${rectangles} rectangles; redraw p50 ${redraw[20].toFixed(1)} ms, p95 ${redraw[38].toFixed(1)} ms ` +
        `(goal 50); search ${search.toFixed(0)} ms`);
  });
});

test('values in nanoseconds are those of the profile', {skip}, async () => {
  await withPage(urlOf('values', service()), {}, async (page) => {
    await hoverUntil(page, 'malloc');
    assert.match(await details(page), new RegExp(`total ${(75 * kSampleNs) / 1e6} ms`));
  });
});
