package tickwheel

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"
)

const (
	waitFirst     = 5 * time.Second // how long a lease waits for its first item
	pauseFailed   = time.Second     // after the service was not reachable, beyond the client's retries
	errorBytesMax = 159             // of the reason of a failure, which the service stores
)

// RetryAfter is an error of a worker's function: the item comes again after Delay.
type RetryAfter struct {
	Delay  time.Duration
	Reason string
}

func (r *RetryAfter) Error() string { return r.Reason }

// ErrDead, wrapped in the error of a worker's function, makes a dead letter at once.
var ErrDead = errors.New("dead")

// Worker leases the items of a queue, runs a function for each, and acknowledges: an item whose
// function returns nil is done; with an error it is given back, and comes again as the timer's Retry
// says. Leases are extended while the function runs. An item comes at least once: drop known ids in
// the transaction of the work.
type Worker struct {
	Client      *Client
	Queue       string
	Function    func(context.Context, *Item) error
	Concurrency int           // items at a time; 0: one
	LeaseTime   time.Duration // extended at a third of it; 0: 30 seconds; at least a second
	Drain       time.Duration // how long a stop waits for what was begun; 0: 30 seconds
	Log         *log.Logger   // nil: the standard one

	lock     sync.Mutex
	underWay map[string]string // receipts, with the ids of their items
}

func (w *Worker) logf(format string, arguments ...any) {
	logger := w.Log
	if logger == nil {
		logger = log.Default()
	}
	logger.Printf("tickwheel: "+format, arguments...)
}

// Run works until ctx is done; then it finishes what was begun, within Drain, and returns nil. The
// context of the functions ends when Drain is over. Items left then are named in the log, and come
// again when their lease ends.
func (w *Worker) Run(ctx context.Context) error {
	if w.Concurrency == 0 {
		w.Concurrency = 1
	}
	if w.LeaseTime == 0 {
		w.LeaseTime = 30 * time.Second
	}
	if w.Drain == 0 {
		w.Drain = 30 * time.Second
	}
	if w.Concurrency < 0 || w.LeaseTime < time.Second || w.Client == nil || w.Function == nil {
		return errors.New("tickwheel: a worker needs a client, a function, a concurrency of 1 or more, and a lease " +
			"of a second or more")
	}
	w.underWay = map[string]string{}
	work, endWork := context.WithCancel(context.Background())
	defer endWork()
	go w.extend(work)

	free := make(chan struct{}, w.Concurrency)
	for i := 0; i < w.Concurrency; i++ {
		free <- struct{}{}
	}
	var running sync.WaitGroup
	for ctx.Err() == nil {
		places := takePlaces(ctx, free)
		items := w.leaseItems(ctx, places)
		for i := range items {
			running.Add(1)
			go func(item *Item) {
				defer running.Done()
				defer func() { free <- struct{}{} }()
				w.handle(work, item)
			}(&items[i])
		}
		for i := len(items); i < places; i++ {
			free <- struct{}{}
		}
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(w.Drain):
		w.nameLeft()
	}
	return nil
}

// nameLeft logs the items whose functions still run when Drain is over.
func (w *Worker) nameLeft() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, id := range w.underWay {
		w.logf("item %s still runs after %v: it comes again when its lease ends", id, w.Drain)
	}
}

// takePlaces waits for a free place, and takes all that are free; 0 when ctx is done.
func takePlaces(ctx context.Context, free chan struct{}) int {
	select {
	case <-ctx.Done():
		return 0
	case <-free:
	}
	for places := 1; ; places++ {
		select {
		case <-free:
		default:
			return places
		}
	}
}

func (w *Worker) leaseItems(ctx context.Context, max int) []Item {
	if max == 0 {
		return nil
	}
	// Not with ctx: a lease that is broken off may have given items, which would wait for its end.
	items, err := w.Client.Lease(context.Background(), w.Queue, max, waitFirst, w.LeaseTime)
	if err != nil {
		w.logf("lease of %s: %v", w.Queue, err)
		select {
		case <-time.After(pauseFailed):
		case <-ctx.Done():
		}
		return nil
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	for i := range items {
		w.underWay[items[i].Receipt] = items[i].ID
	}
	return items
}

// call runs the function; a panic is an error of the item, not the end of the worker.
func (w *Worker) call(ctx context.Context, item *Item) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return w.Function(ctx, item)
}

func (w *Worker) handle(ctx context.Context, item *Item) {
	err := w.call(ctx, item)
	var results []string
	var sent error
	if err == nil {
		results, sent = w.Client.Ack(context.Background(), w.Queue, item.Receipt)
	} else {
		w.logf("item %s failed: %v", item.ID, err)
		results, sent = w.Client.Nack(context.Background(), w.Queue, refusal(err), item.Receipt)
	}
	if sent != nil {
		w.logf("item %s: its end could not be told, so it comes again: %v", item.ID, sent)
	} else if len(results) != 1 || results[0] != "ok" {
		w.logf("item %s: its lease was over (%v); it may come again", item.ID, results)
	}
	w.lock.Lock()
	delete(w.underWay, item.Receipt)
	w.lock.Unlock()
}

func refusal(err error) Nack {
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > errorBytesMax {
		text = strings.ToValidUTF8(text[:errorBytesMax], "")
	}
	nack := Nack{Error: text, Dead: errors.Is(err, ErrDead)}
	var again *RetryAfter
	if errors.As(err, &again) {
		nack.Delay = After(again.Delay)
	}
	return nack
}

func (w *Worker) extend(ctx context.Context) {
	ticks := time.NewTicker(w.LeaseTime / 3)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		w.lock.Lock()
		receipts := make([]string, 0, len(w.underWay))
		for receipt := range w.underWay {
			receipts = append(receipts, receipt)
		}
		w.lock.Unlock()
		for len(receipts) > 0 {
			n := len(receipts)
			if n > 1000 {
				n = 1000
			}
			if _, err := w.Client.Extend(ctx, w.Queue, w.LeaseTime, receipts[:n]...); err != nil && ctx.Err() == nil {
				w.logf("leases could not be extended: %v", err)
			}
			receipts = receipts[n:]
		}
	}
}
