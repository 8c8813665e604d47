// The workloads of workloads.h for RussellLuo/timingwheel: wheel_go [timers]. Time is what this thread has run, as for the
// others: what the collector does on threads of its own is not in it.
package main

import (
	"container/list"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/RussellLuo/timingwheel"
	"github.com/RussellLuo/timingwheel/delayqueue"
)

const (
	hour       = 3600000
	timeout    = 30000
	periodMax  = 10000
	opsPerTick = 1000
	churnOps   = 1 << 25
	checked    = 16
	picks      = 1 << 22
	start      = int64(1000000007)
	patience   = int64(1500000000) // nanoseconds
	slowStep   = int64(200000)     // nanoseconds
)

type bench struct {
	count                  int
	delays, order, periods []int32
	picks                  []int32
	state                  uint64
	figures                []string
	cut                    []string
	churned, refired       int
	late                   int64
}

func newBench(count int) *bench {
	b := &bench{count: count, state: 0x9e3779b97f4a7c15}
	b.delays, b.order = make([]int32, count), make([]int32, count)
	b.periods, b.picks = make([]int32, count), make([]int32, picks)
	for i := range b.delays {
		b.delays[i] = 1 + b.below(hour)
		b.periods[i] = 1 + b.below(periodMax)
		b.order[i] = int32(i)
	}
	for i := count - 1; i > 0; i-- {
		j := b.below(i + 1)
		b.order[i], b.order[j] = b.order[j], b.order[i]
	}
	for i := range b.picks {
		b.picks[i] = b.below(count)
	}
	return b
}

func (b *bench) below(bound int) int32 {
	b.state ^= b.state << 13
	b.state ^= b.state >> 7
	b.state ^= b.state << 17
	return int32((b.state * 2685821657736338717 >> 32) * uint64(bound) >> 32)
}

func must(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "bench:", what)
		os.Exit(1)
	}
}

func cpuTime() int64 {
	const threadCPU = 3
	var at syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func (b *bench) found(key string, figure float64) {
	b.figures = append(b.figures, fmt.Sprintf("\"%s\": %.3f", key, figure))
}

func (b *bench) foundTime(key string, began int64, operations int) {
	b.found(key, float64(cpuTime()-began)/float64(operations))
}

func used() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (b *bench) fill(t *timers) {
	for i := range b.delays {
		t.place(int32(i), start+int64(b.delays[i]))
	}
}

func (b *bench) fillAndCancel() {
	before := used()
	t := newTimers(b.count, start)
	began := cpuTime()
	b.fill(t)
	b.foundTime("fill", began, b.count)
	b.found("bytes", float64(used()-before)/float64(b.count)-4) // less fired
	began = cpuTime()
	for _, id := range b.order {
		t.cancel(id)
	}
	b.foundTime("cancel", began, b.count)
}

func (b *bench) expire() {
	t := newTimers(b.count, start)
	b.fill(t)
	sum, mix := 0, int32(0)
	began := cpuTime()
	for now := start; now <= start+hour; now++ {
		t.advance(now)
		for _, id := range t.fired {
			mix ^= id
		}
		sum += len(t.fired)
		t.fired = t.fired[:0]
	}
	b.foundTime("expire", began, b.count)
	must(sum == b.count && mix != -1, "expire: not all fired")
}

func (b *bench) slowSteps() {
	t := newTimers(b.count, start)
	b.fill(t)
	slow, last := 0, cpuTime()
	for now := start; now <= start+hour; now++ {
		t.advance(now)
		at := cpuTime()
		if at-last > slowStep {
			slow++
		}
		last = at
		if len(t.fired) > 0 {
			for _, id := range t.fired {
				late := now - start - int64(b.delays[id])
				must(late >= 0, "expire: early")
				b.late = max(b.late, late)
			}
			t.fired = t.fired[:0]
			last = cpuTime()
		}
	}
	b.found("slow_steps", float64(slow))
}

func (b *bench) churnSome(t *timers, now *int64) int {
	end := cpuTime() + patience
	for op := 0; op < churnOps; {
		for k := 0; k < opsPerTick; k++ {
			t.move(b.picks[(op+k)&(picks-1)], *now+timeout)
		}
		*now++
		t.advance(*now)
		for _, id := range t.fired {
			t.place(id, *now+timeout)
		}
		t.fired = t.fired[:0]
		op += opsPerTick
		if *now%checked == 0 && cpuTime() > end {
			return op
		}
	}
	return churnOps
}

func (b *bench) churn() {
	t, now := newTimers(b.count, start), start
	for i, delay := range b.delays {
		t.place(int32(i), now+1+int64(delay)%timeout)
	}
	isCut := b.churnSome(t, &now) < churnOps
	began := cpuTime()
	b.churned = b.churnSome(t, &now)
	b.foundTime("churn", began, b.churned)
	if isCut || b.churned < churnOps {
		b.cut = append(b.cut, "\"churn\"")
	}
}

func (b *bench) periodicSome(t *timers, tick, end int64) int64 {
	stop, again := cpuTime()+patience, []int32{}
	b.refired = 0
	for ; tick < end && (tick%checked != 0 || cpuTime() < stop); tick++ {
		t.advance(start + tick)
		again = append(again[:0], t.fired...)
		t.fired = t.fired[:0]
		b.refired += len(again)
		for _, id := range again {
			t.place(id, start+tick+int64(b.periods[id]))
		}
	}
	return tick
}

func (b *bench) periodic() {
	t := newTimers(b.count, start)
	for i, delay := range b.delays {
		t.place(int32(i), start+1+int64(delay%b.periods[i]))
	}
	tick := b.periodicSome(t, 1, periodMax/5)
	isCut := tick < periodMax/5
	began := cpuTime()
	tick = b.periodicSome(t, tick, periodMax+1)
	b.foundTime("periodic", began, b.refired)
	if isCut || tick <= periodMax {
		b.cut = append(b.cut, "\"periodic\"")
	}
}

func (b *bench) burst() {
	t := newTimers(b.count, start)
	for _, id := range b.order {
		t.place(id, start+1000)
	}
	t.advance(start + 999)
	must(len(t.fired) == 0, "burst: early")
	mix := int32(0)
	began := cpuTime()
	t.advance(start + 1000)
	for _, id := range t.fired {
		mix ^= id
	}
	b.foundTime("burst", began, b.count)
	must(len(t.fired) == b.count && mix != -1, "burst: not all fired")
}

func (b *bench) run() {
	for _, work := range []func(){
		b.fillAndCancel, b.expire, b.slowSteps, b.churn, b.periodic, b.burst,
	} {
		work()
		runtime.GC()
	}
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if strings.HasSuffix(module.Path, "/timingwheel") {
			return strings.Split(module.Version, "-")[2][:7] + ", " + runtime.Version()
		}
	}
	return runtime.Version()
}

func main() {
	runtime.LockOSThread()
	count := 1000000
	if len(os.Args) > 1 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	b := newBench(count)
	b.run()
	fmt.Printf("{\"name\": \"RussellLuo/timingwheel\", \"kind\": \"peer\", \"note\": \"1 ms x 512; "+
		"virtual time; without its goroutines\", \"version\": \"%s\", \"late_ticks\": %d, "+
		"\"churn_count\": %d, "+
		"\"fired_count\": %d, \"cut\": [%s], \"figures\": {%s}}\n", version(), b.late, b.churned, b.refired,
		strings.Join(b.cut, ", "), strings.Join(b.figures, ", "))
}

// timers drives a timingwheel without its goroutines, in virtual time: what Start does with each
// bucket is done here. The parts that takes are private, hence the linknames and the copies of
// structures, which hold for the version in go.mod.
type timers struct {
	wheel *timingwheel.TimingWheel
	queue *delayqueue.DelayQueue
	items []*timingwheel.Timer
	tasks []func()
	fired []int32
}

// As timingwheel.Timer.
type timer struct {
	expiration int64
	task       func()
	bucket     unsafe.Pointer
	element    *list.Element
}

// As the beginning of delayqueue.DelayQueue.
type delayQueue struct {
	c     chan interface{}
	mutex sync.Mutex
	heap  []unsafe.Pointer
}

// As delayqueue.item.
type item struct {
	value    interface{}
	priority int64
	index    int
}

type bucket interface {
	Expiration() int64
	Flush(reinsert func(*timingwheel.Timer))
}

//go:linkname newTimingWheel github.com/RussellLuo/timingwheel.newTimingWheel
func newTimingWheel(tick, size, start int64, queue *delayqueue.DelayQueue) *timingwheel.TimingWheel

//go:linkname wheelAdd github.com/RussellLuo/timingwheel.(*TimingWheel).add
func wheelAdd(wheel *timingwheel.TimingWheel, timer *timingwheel.Timer) bool

//go:linkname wheelAdvance github.com/RussellLuo/timingwheel.(*TimingWheel).advanceClock
func wheelAdvance(wheel *timingwheel.TimingWheel, expiration int64)

//go:linkname peekAndShift github.com/RussellLuo/timingwheel/delayqueue.(*priorityQueue).PeekAndShift
func peekAndShift(heap *[]unsafe.Pointer, max int64) (*item, int64)

func newTimers(count int, start int64) *timers {
	t := &timers{
		queue: delayqueue.New(512),
		items: make([]*timingwheel.Timer, count),
		tasks: make([]func(), count),
		fired: make([]int32, 0, count),
	}
	t.wheel = newTimingWheel(1, 512, start, t.queue)
	for i := range t.tasks {
		id := int32(i)
		t.tasks[i] = func() { t.fired = append(t.fired, id) }
	}
	return t
}

// The library would start a goroutine for each task; here it is called.
func (t *timers) addOrRun(item *timingwheel.Timer) {
	if !wheelAdd(t.wheel, item) {
		(*timer)(unsafe.Pointer(item)).task()
	}
}

func (t *timers) place(id int32, deadline int64) {
	made := &timer{expiration: deadline, task: t.tasks[id]}
	t.items[id] = (*timingwheel.Timer)(unsafe.Pointer(made))
	t.addOrRun(t.items[id])
}

func (t *timers) cancel(id int32) {
	t.items[id].Stop()
}

func (t *timers) move(id int32, deadline int64) {
	t.items[id].Stop()
	t.place(id, deadline)
}

func (t *timers) advance(now int64) {
	queue := (*delayQueue)(unsafe.Pointer(t.queue))
	for {
		queue.mutex.Lock()
		found, _ := peekAndShift(&queue.heap, now)
		queue.mutex.Unlock()
		if found == nil {
			return
		}
		due := found.value.(bucket)
		wheelAdvance(t.wheel, due.Expiration())
		due.Flush(t.addOrRun)
	}
}
