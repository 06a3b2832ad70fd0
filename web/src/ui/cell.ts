// A value that changes often and that few components show: setting it redraws only those.

import {useLayoutEffect, useState} from 'preact/hooks';

export class Cell<T> {
  private readonly listeners = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    this.listeners.forEach((listener) => listener(value));
  }

  subscribe(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.get());
  useLayoutEffect(() => {
    setValue(() => cell.get());
    return cell.subscribe((next) => setValue(() => next));
  }, [cell]);
  return value;
}
