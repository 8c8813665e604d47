package main

import (
	"container/list"
	"sync"
	"unsafe"

	"github.com/RussellLuo/timingwheel"
	"github.com/RussellLuo/timingwheel/delayqueue"
)

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
