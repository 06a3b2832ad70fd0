// Without a C library, so that it can be stepped through quickly: a jump table, calls through pointers, inlined calls, and
// a function `step` of its own, as branchy_other.c has one.
extern int other(int);
static __attribute__((noinline)) int step(unsigned x) {
  switch (x % 8) {
    case 0:
      return 3 + x;
    case 1:
      return x & 5;
    case 2:
      return x * 3;
    case 3:
      return x ^ 9;
    case 4:
      return -(int)x;
    case 5:
      return x >> 2;
    case 6:
      return x + 11;
    default:
      return 1;
  }
}
static inline int mix(int a, int b) {
  if (a > b) return a - b;
  return a ^ b;
}
static __attribute__((noinline)) int rare(int x) { return x % 13 == 0 ? step((unsigned)x) : x; }
typedef int (*Call)(int);
int work(int n) {
  static const Call calls[3] = {rare, other, rare};
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += mix(step((unsigned)i), i % 5);
    if (i % 3 == 0) sum ^= calls[i % 9 / 3](sum & 63);
    if (i % 50 == 49) {
      for (int k = 0; k < 4; ++k) sum += mix(sum, k);
    }
  }
  return sum;
}
void _start(void) {
  int result = work(300) & 127;
  __asm__ volatile("syscall" : : "a"(60L), "D"((long)result) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
