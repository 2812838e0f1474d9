// One function that uses nearly all of the time. Argument: seconds.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func spin(rounds uint64) uint64 {
	sum := uint64(1)
	for round := uint64(0); round < rounds; round++ {
		sum = sum*6364136223846793005 + round
	}
	return sum
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	sum := uint64(0)
	for time.Now().Before(end) {
		sum += spin(1000000)
	}
	fmt.Println("sum", sum)
}
