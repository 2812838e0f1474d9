// Two instances of one template, in a namespace. Argument: CPU seconds.
#include <cstdlib>
#include <ctime>

namespace shapes {
template <typename Number> __attribute__((noinline)) Number sum(long rounds)
{
	Number sum = 1;
	for (long round = 0; round < rounds; round++) {
		sum = sum * 3 + 1;
		asm volatile("" : : "r"(&sum) : "memory");
	}
	return sum;
}
} // namespace shapes

int main(int argc, char **argv)
{
	clock_t end = clock() + clock_t((argc > 1 ? std::atof(argv[1]) : 1) * CLOCKS_PER_SEC);
	double total = 0;
	while (clock() < end)
		total += double(shapes::sum<unsigned>(100000)) + shapes::sum<double>(100000);
	return total == 0.5;
}
