// Builds dist/report.html: one file that holds its styles and its program, and a place for a profile.

import {defineConfig} from 'vite';

/** Puts the bundle into the page; nothing else is left to load. */
function inlineEverything() {
  return {
    name: 'inline-everything',
    enforce: 'post',
    generateBundle(_, bundle) {
      const page = bundle['report.html'];
      if (!page) this.error('report.html is not part of the build');
      let html = page.source;
      for (const [name, part] of Object.entries(bundle)) {
        if (part === page) continue;
        // Functions as replacements: a string would have its $ signs interpreted.
        if (part.type === 'chunk') {
          const tag = new RegExp(`<script[^>]*src="[^"]*${name}"[^>]*></script>`);
          if (!tag.test(html)) this.error(`${name} is not loaded by report.html`);
          const code = part.code.trim().replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
          html = html.replace(tag, '').replace('</body>', () => `<script type="module">${code}</script>\n</body>`);
        } else if (name.endsWith('.css')) {
          const tag = new RegExp(`<link[^>]*href="[^"]*${name}"[^>]*>`);
          if (!tag.test(html)) this.error(`${name} is not loaded by report.html`);
          html = html.replace(tag, () => `<style>${String(part.source).trim().replace(/<\/(style)/gi, '<\\/$1')}</style>`);
        } else {
          this.error(`${name} cannot be put into one page`);
        }
        delete bundle[name];
      }
      page.source = html.replace(/\n{2,}/g, '\n');
    },
  };
}

export default defineConfig({
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
  build: {
    target: 'es2020',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {input: 'report.html'},
  },
  plugins: [inlineEverything()],
});
