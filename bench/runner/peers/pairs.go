// Go's timers under the load of runner_bench.c, whose rows it prints: pairs WINDOWS newest|random THREADS. A timer is a
// time.AfterFunc, stopped again; the runtime keeps a heap of timers for each processor.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	outstanding  = 100000
	pairsPerLook = 256
	window       = 5 * time.Millisecond
	warm         = 300 * time.Millisecond
)

func draw(random *uint64) uint64 {
	*random ^= *random << 13
	*random ^= *random >> 7
	*random ^= *random << 17
	return *random * 2685821657736338717
}

func schedule(random *uint64) *time.Timer {
	return time.AfterFunc(time.Duration(10000+(draw(random)>>32)%60000)*time.Millisecond, func() {})
}

// How long the thread has waited for a processor.
func waitedNs(schedstat *os.File) uint64 {
	var bytes [80]byte
	length, _ := schedstat.ReadAt(bytes[:], 0)
	words := strings.Fields(string(bytes[:length]))
	if len(words) < 2 {
		return 0
	}
	waited, _ := strconv.ParseUint(words[1], 10, 64)
	return waited
}

func cpuNs() int64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

func work(number, threads, windows int, isRandom bool, ready *sync.WaitGroup, start chan time.Time) string {
	runtime.LockOSThread()
	schedstat, _ := os.Open("/proc/thread-self/schedstat")
	random := uint64(88172645463325252 + number)
	timers := make([]*time.Timer, outstanding/threads)
	for i := range timers {
		timers[i] = schedule(&random)
	}
	ready.Done()
	grid := <-start
	run := func() {
		for i := 0; i < pairsPerLook; i++ {
			timer := schedule(&random)
			if isRandom {
				which := draw(&random) >> 32 % uint64(len(timers))
				timers[which], timer = timer, timers[which]
			}
			timer.Stop()
		}
	}
	now := time.Now()
	for ; now.Before(grid); now = time.Now() {
		run()
	}
	var rows strings.Builder
	for {
		which := int(now.Sub(grid) / window)
		if which >= windows {
			return rows.String()
		}
		began, waited, pairs := now, waitedNs(schedstat), 0
		for end := grid.Add(time.Duration(which+1) * window); now.Before(end); now = time.Now() {
			run()
			pairs += pairsPerLook
		}
		fmt.Fprintln(&rows, number, which, pairs, now.Sub(began).Nanoseconds(), waitedNs(schedstat)-waited)
	}
}

func main() {
	windows, _ := strconv.Atoi(os.Args[1])
	threads, _ := strconv.Atoi(os.Args[3])
	var ready sync.WaitGroup
	ready.Add(threads)
	start, rows := make(chan time.Time), make(chan string)
	for i := 0; i < threads; i++ {
		go func() { rows <- work(i, threads, windows, os.Args[2] == "random", &ready, start) }()
	}
	ready.Wait()
	grid := time.Now().Add(warm)
	for i := 0; i < threads; i++ {
		start <- grid
	}
	time.Sleep(time.Until(grid))
	began := cpuNs()
	for i := 0; i < threads; i++ {
		fmt.Print(<-rows)
	}
	fmt.Println("cpu", cpuNs()-began)
}
