// Light or dark: what the system says until the person says otherwise.

import {useEffect, useState} from 'preact/hooks';
import {Theme} from '../engine/palette';

const kKey = 'ptarmigan-theme';

function stored(): Theme | null {
  try {
    const value = localStorage.getItem(kKey);
    return value === 'light' || value === 'dark' ? value : null;
  } catch {
    return null;  // Storage is closed to this page: the choice lasts as long as the tab.
  }
}

export function useTheme(): {theme: Theme; toggle: () => void} {
  const [query] = useState(() => matchMedia('(prefers-color-scheme: dark)'));
  const [chosen, setChosen] = useState<Theme | null>(stored);
  const [system, setSystem] = useState<Theme>(query.matches ? 'dark' : 'light');
  useEffect(() => {
    const listen = () => setSystem(query.matches ? 'dark' : 'light');
    query.addEventListener('change', listen);
    return () => query.removeEventListener('change', listen);
  }, [query]);
  const theme = chosen ?? system;
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme;
  }, [theme]);
  const toggle = () => {
    const next = theme === 'dark' ? 'light' : 'dark';
    setChosen(next);
    try {
      localStorage.setItem(kKey, next);
    } catch {
      // As above.
    }
  };
  return {theme, toggle};
}
