// Calls `turn`, which always takes the same way, as often as its argument says (3 times without one). Without a C library, so
// that stepping through it is quick and nothing else runs: a jump table, calls through pointers, loops, recursion.
static volatile unsigned long g_sum;

static __attribute__((noinline)) unsigned step(unsigned x) {
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
      return 0U - x;
    case 5:
      return x >> 2;
    case 6:
      return x + 11;
    default:
      return 1;
  }
}

static __attribute__((noinline)) unsigned odd(unsigned x) { return x % 3 == 0 ? step(x) : x; }

static __attribute__((noinline)) unsigned deep(unsigned x) {
  if (x == 0) return 1;
  const unsigned below = deep(x - 1);
  return x % 2 == 0 ? below + step(x) : below;
}

typedef unsigned (*Call)(unsigned);
static const Call calls[3] = {odd, deep, step};

__attribute__((noinline)) void turn(void) {
  unsigned sum = 0;
  for (unsigned i = 0; i < 24; ++i) {
    sum += step(i);
    if (i % 3 == 0) sum ^= calls[i / 3 % 3](i % 7);
  }
  g_sum += sum;
}

__attribute__((noinline)) void run(const unsigned long* stack) {
  unsigned long turns = 3;
  if (stack[0] > 1) {
    turns = 0;
    for (const char* digit = (const char*)stack[2]; *digit; ++digit) {
      turns = turns * 10 + (unsigned long)(*digit - '0');
    }
  }
  for (; turns > 0; --turns) turn();
  __asm__ volatile("syscall" : : "a"(60L), "D"(0L) : "rcx", "r11", "memory");
  __builtin_unreachable();
}

__asm__(".globl _start\n.type _start, @function\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call run\n");
