// Freestanding, for objects that are not linked or of other machines: a known inline chain.
static inline __attribute__((always_inline)) int Innermost(int value) {
  return value * 3 + (value >> 2);  // line 3
}

static inline __attribute__((always_inline)) int Middle(int value) {
  return Innermost(value + 1) ^ 5;  // line 7
}

__attribute__((noinline)) int Outer(int value) {
  int result = Middle(value);  // line 11
  return result + 1;
}

__attribute__((section(".text.cold_part"), noinline)) int Cold(int value) {
  return Outer(value) - 2;  // line 16
}

void _start(void) {
  volatile int sink = Cold(4);  // line 20
  for (;;) sink = sink + 1;
}
