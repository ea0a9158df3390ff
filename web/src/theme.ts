// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system says, until it is switched here.
const kKey = 'pillion-theme';
type Theme = 'light' | 'dark';

function kept(): Theme | null {
  try {
    const theme = localStorage.getItem(kKey);
    return theme === 'light' || theme === 'dark' ? theme : null;
  } catch {
    return null;  // storage may be forbidden
  }
}

export function setUpTheme(button: HTMLButtonElement): void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = kept();
  const apply = () => {
    const theme: Theme = chosen ?? (system.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = theme;
    const other = theme === 'dark' ? 'light' : 'dark';
    button.textContent = theme === 'dark' ? '☀ Light' : '☾ Dark';
    button.setAttribute('aria-label', `Switch to the ${other} theme`);
    button.onclick = () => {
      chosen = other;
      try {
        localStorage.setItem(kKey, other);
      } catch {
        // it holds until the page is left
      }
      apply();
    };
  };
  system.addEventListener('change', apply);
  apply();
}
