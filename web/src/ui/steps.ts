// Steps that can be undone: the browser's own history where the page may write it (also from file://), so
// that Esc and the Back button do the same; a list in memory where it may not (a sandboxed frame).

interface Mark {
  ptarmigan: number;
}

export class Steps {
  private depth = 0;
  private readonly memory: string[] = [];
  private current: string;

  constructor(private readonly apply: (hash: string) => void) {
    this.current = location.hash.replace(/^#/, '');
    this.depth = markOf(history.state);
    addEventListener('popstate', (event) => {
      this.depth = markOf(event.state);
      this.current = location.hash.replace(/^#/, '');
      this.apply(this.current);
    });
  }

  /** A new step, or with `replace` a change of the present one. */
  go(hash: string, replace: boolean): void {
    if (hash === this.current) return;
    const depth = replace ? this.depth : this.depth + 1;
    const mark: Mark = {ptarmigan: depth};
    try {
      // A bare '#' instead of nothing: an empty URL would mean the one with the old hash.
      if (replace) history.replaceState(mark, '', `#${hash}`);
      else history.pushState(mark, '', `#${hash}`);
      this.depth = depth;
    } catch {
      if (!replace) this.memory.push(this.current);
    }
    this.current = hash;
  }

  canGoBack(): boolean {
    return this.depth > 0 || this.memory.length > 0;
  }

  /** One step back; false if this is the first. */
  back(): boolean {
    const remembered = this.memory.pop();
    if (remembered !== undefined) {
      this.current = remembered;
      this.apply(remembered);
      return true;
    }
    if (this.depth === 0) return false;
    history.back();
    return true;
  }
}

function markOf(state: unknown): number {
  const mark = state as Mark | null;
  return typeof mark === 'object' && mark !== null && typeof mark.ptarmigan === 'number' ? mark.ptarmigan : 0;
}
