// Reads the profile that stands in the page and shows it, or says in one sentence why it cannot.

import {render} from 'preact';
import {parseProfile, Profile, ProfileError} from '../profile/parse';
import {useTheme} from '../ui/theme';
import {Report} from './report';
import './report.css';

function Failure({sentence}: {sentence: string}) {
  useTheme();
  return (
    <div class="failure" role="alert">
      <strong class="brand">Ptarmigan</strong>
      <h1>No profile to show</h1>
      <p>{sentence}</p>
    </div>
  );
}

function main(): void {
  const place = document.getElementById('app');
  const element = document.getElementById('ptarmigan-profile');
  if (!place) return;
  let profile: Profile;
  try {
    profile = parseProfile(element?.textContent ?? '');
  } catch (error) {
    if (!(error instanceof ProfileError)) throw error;
    place.textContent = '';
    render(<Failure sentence={error.message} />, place);
    return;
  }
  // The text is no longer needed, and it is the largest thing in the page.
  if (element) element.textContent = '';
  document.title = `${profile.title} · Ptarmigan`;
  place.textContent = '';
  render(<Report profile={profile} />, place);
  performance.mark('ptarmigan-shown');
}

main();
