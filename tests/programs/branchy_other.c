// The other half of branchy.c.
static __attribute__((noinline)) int step(int x) { return x > 20 ? x - 20 : x + 1; }
int other(int x) {
  int y = step(x);
  while (y > 40) y = step(y);
  return y;
}
