/* The code of a shared object. */
volatile unsigned library_sink;
__attribute__((noinline)) void library_hot(unsigned n)
{
    unsigned x = n;
    for (unsigned i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        library_sink = x;
    }
}
__attribute__((noinline)) void library_cold(unsigned n)
{
    unsigned x = n;
    for (unsigned i = 0; i < n; i++) {
        x = x * 22695477u + 1u;
        library_sink = x;
    }
}
