// Measuring in turns, as in benches/js: every store gets a slice, then each again.

/** Runs `work`, which says how many it did, again and again for so many milliseconds; says how many a second. */
export async function perSecond(work, sliceMs) {
  const began = performance.now();
  let done = 0;
  let elapsed = 0;
  do {
    done += await work();
    elapsed = performance.now() - began;
  } while (elapsed < sliceMs);
  return (done / elapsed) * 1000;
}

/** Measures subjects, by name, in turns; the first round warms up and doesn't count. Says the figures of each round. */
export async function inTurns(subjects, rounds, sliceMs) {
  const names = Object.keys(subjects);
  const figures = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (let at = 0; at < names.length; at++) {
      // Each round begins with another one, so that nobody always follows the same.
      const name = names[(at + round) % names.length];
      const figure = await subjects[name](sliceMs);
      if (round > 0) figures[name].push(figure);
    }
  }
  return figures;
}
