/* Spends its time in a shared object. */
#include <stdio.h>
void library_hot(unsigned n);
void library_cold(unsigned n);
int main(void)
{
    printf("main=%p\n", (void *)main);
    fflush(stdout);
    for (;;) {
        library_hot(60000);
        library_cold(30000);
    }
}
