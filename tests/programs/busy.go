// busy_go [CPU_MS]: main.main -> main.run -> main.alpha, main.beta or main.gamma (60 : 30 : 10) -> main.workUnit.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

const workUnitSteps = 10000

var sink uint64

//go:noinline
func workUnit(state uint64) uint64 {
	for i := 0; i < workUnitSteps; i++ {
		state = state*6364136223846793005 + 1442695040888963407
	}
	return state
}

//go:noinline
func alpha(seed uint64) { sink = workUnit(seed + 1) }

//go:noinline
func beta(seed uint64) { sink = workUnit(seed + 2) }

//go:noinline
func gamma(seed uint64) { sink = workUnit(seed + 3) }

type units struct{ alpha, beta, gamma uint64 }

func cpuMilliseconds() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return (usage.Utime.Nano() + usage.Stime.Nano()) / 1_000_000
}

//go:noinline
func run(limitMilliseconds int64) units {
	var counts units
	random := uint64(88172645463325252)
	end := cpuMilliseconds() + limitMilliseconds
	for cpuMilliseconds() < end {
		for seed := uint64(0); seed < 500; seed++ {
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			switch percent := (random >> 33) % 100; {
			case percent < 60:
				alpha(seed)
				counts.alpha++
			case percent < 90:
				beta(seed)
				counts.beta++
			default:
				gamma(seed)
				counts.gamma++
			}
		}
	}
	return counts
}

func main() {
	milliseconds := int64(1000)
	if len(os.Args) > 1 {
		if number, err := strconv.ParseInt(os.Args[1], 10, 64); err == nil {
			milliseconds = number
		}
	}
	counts := run(milliseconds)
	fmt.Printf("{\"program\":\"busy_go\",\"units\":{\"alpha\":%d,\"beta\":%d,\"gamma\":%d},\"total\":%d}\n",
		counts.alpha, counts.beta, counts.gamma, counts.alpha+counts.beta+counts.gamma)
}
