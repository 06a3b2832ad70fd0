// What can be done with a box: on right-click or `m`.

import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';

export interface MenuItem {
  readonly text: string;
  run(): void;
}

export interface MenuPlace {
  readonly x: number;
  readonly y: number;
  readonly title: string;
  readonly items: readonly MenuItem[];
}

export function BoxMenu({place, onClose}: {place: MenuPlace; onClose: () => void}) {
  const menu = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState({x: place.x, y: place.y});
  useLayoutEffect(() => {
    const element = menu.current;
    if (!element) return;
    setAt({x: Math.max(4, Math.min(place.x, innerWidth - element.offsetWidth - 4)),
           y: Math.max(4, Math.min(place.y, innerHeight - element.offsetHeight - 4))});
    element.querySelector('button')?.focus();
  }, [place]);
  useEffect(() => {
    const outside = (event: Event) => {
      if (!menu.current?.contains(event.target as Node)) onClose();
    };
    addEventListener('pointerdown', outside, true);
    return () => removeEventListener('pointerdown', outside, true);
  }, [onClose]);
  const keys = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === 'Escape') onClose();
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    const buttons = [...menu.current!.querySelectorAll('button')];
    const now = buttons.indexOf(document.activeElement as HTMLButtonElement);
    buttons[(now + (event.key === 'ArrowDown' ? 1 : buttons.length - 1)) % buttons.length]?.focus();
  };
  return (
    <div class="menu" role="menu" ref={menu} onKeyDown={keys} style={{left: `${at.x}px`, top: `${at.y}px`}}>
      <div class="menu-title">{place.title}</div>
      {place.items.map((item) => (
        <button key={item.text} role="menuitem" class="plain" onClick={() => {
          onClose();
          item.run();
        }}>{item.text}</button>
      ))}
    </div>
  );
}

/** True if the text is on the clipboard now. Pages from file:// may lack the modern interface. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.style.position = 'fixed';
    area.style.opacity = '0';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}
