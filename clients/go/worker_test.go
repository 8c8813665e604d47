package tickwheel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

const itemCount = 60

func makeItems(t *testing.T, c *Client, count int) (string, []string) {
	queue := randomKey()[:12]
	n := 0
	results, err := c.Batch(context.Background(), func() (Create, bool) {
		n++
		return Create{Target: "queue:" + queue, After: "0ms", Payload: n - 1}, n <= count
	})
	if err != nil || len(results) != count {
		t.Fatal(results, err)
	}
	ids := []string{}
	for _, result := range results {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		ids = append(ids, result.ID)
	}
	return queue, ids
}

func finalState(t *testing.T, c *Client, id string) string {
	var gone *Problem
	timer, err := c.Get(context.Background(), ID(id))
	if errors.As(err, &gone) && gone.Timer != nil {
		timer, err = gone.Timer, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return timer.State
}

// Every tenth item is refused for good, every third once; the others are done.
func TestWorker(t *testing.T) {
	c := testClient(t)
	queue, ids := makeItems(t, c, itemCount)
	wanted := itemCount
	for n := 0; n < itemCount; n++ {
		if n%3 == 0 && n%10 != 0 {
			wanted++
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var lock sync.Mutex
	seen, calls, running, most := map[int]int{}, 0, 0, 0
	worker := Worker{Client: c, Queue: queue, Concurrency: 5, Log: log.New(io.Discard, "", 0),
		Function: func(_ context.Context, item *Item) error {
			var n int
			if err := json.Unmarshal(item.Payload, &n); err != nil {
				return err
			}
			lock.Lock()
			seen[n]++
			calls++
			running++
			if running > most {
				most = running
			}
			if calls == wanted {
				stop()
			}
			lock.Unlock()
			defer func() { lock.Lock(); running--; lock.Unlock() }()
			switch {
			case n%10 == 0:
				return fmt.Errorf("%w: tenth", ErrDead)
			case n%3 == 0 && item.Attempt == 1:
				return &RetryAfter{0, "third"}
			}
			return nil
		}}
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for n, id := range ids {
		state, times := "fired", 1
		if n%10 == 0 {
			state = "dead"
		} else if n%3 == 0 {
			times = 2
		}
		if got := finalState(t, c, id); got != state || seen[n] != times {
			t.Errorf("item %d is %s after %d calls", n, got, seen[n])
		}
	}
	if most > 5 {
		t.Errorf("%d at a time", most)
	}
}

func TestWorkerExtendsLeasesAndSurvivesPanics(t *testing.T) {
	c := testClient(t)
	queue, ids := makeItems(t, c, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var attempts []int
	worker := Worker{Client: c, Queue: queue, Concurrency: 2, LeaseTime: 3 * time.Second, Log: log.New(io.Discard, "", 0),
		Function: func(_ context.Context, item *Item) error {
			attempts = append(attempts, item.Attempt)
			if item.Attempt == 1 {
				panic("the first time")
			}
			<-time.After(4 * time.Second) // longer than the lease
			stop()
			return nil
		}}
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if len(attempts) != 2 || finalState(t, c, ids[0]) != "fired" {
		t.Errorf("attempts %v, %s", attempts, finalState(t, c, ids[0]))
	}
}

// A function that ends neither by itself nor with its context does not keep Run: the log names its
// item, which comes again when its lease ends.
func TestWorkerThatHangsIsNamed(t *testing.T) {
	c := testClient(t)
	queue, ids := makeItems(t, c, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var text strings.Builder
	over := make(chan struct{})
	defer close(over)
	worker := Worker{Client: c, Queue: queue, LeaseTime: time.Second, Drain: 200 * time.Millisecond,
		Log: log.New(&text, "", 0), Function: func(context.Context, *Item) error {
			stop()
			<-over
			return nil
		}}
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "item "+ids[0]+" still runs after 200ms") {
		t.Error(text.String())
	}
	items, err := c.Lease(context.Background(), queue, 1, 20*time.Second, 30*time.Second)
	if err != nil || len(items) != 1 || items[0].ID != ids[0] {
		t.Fatal(items, err)
	}
}

func TestWorkerRefusesWhatCannotWork(t *testing.T) {
	c, err := New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, *Item) error { return nil }
	for _, worker := range []*Worker{{}, {Client: c, Function: nothing, LeaseTime: time.Millisecond},
		{Client: c, Function: nothing, Concurrency: -1}} {
		if worker.Run(context.Background()) == nil {
			t.Error("it ran")
		}
	}
}

func TestRefusalsOfNew(t *testing.T) {
	for _, address := range []string{"shop", "ftp://shop", "http://", "://"} {
		if _, err := New(address); err == nil {
			t.Error(address)
		}
	}
	for _, secret := range []string{"", "whsec_", "whsec_%"} {
		if _, err := NewVerifier(secret); err == nil {
			t.Error(secret)
		}
	}
}

// A webhook of the daemon reaches the handler with its body; others do not.
func TestHandler(t *testing.T) {
	c := testClient(t)
	verifier, err := NewVerifier(os.Getenv("TICKWHEEL_SECRET"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := make(chan string, 10)
	server := httptest.NewServer(verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.WriteHeader(http.StatusNoContent)
	})))
	defer server.Close()
	if _, err := c.Create(context.Background(), Create{Target: server.URL + "/hook", After: "0ms",
		Payload: json.RawMessage(`{"order": 42}`)}); err != nil {
		t.Fatal(err)
	}
	select {
	case body := <-bodies:
		if body != `{"order":42}` && body != `{"order": 42}` {
			t.Error(body)
		}
	case <-time.After(time.Minute):
		t.Fatal("no webhook came")
	}
	for body, status := range map[string]int{"": 401, strings.Repeat("x", 3<<20): 413} {
		response, err := http.Post(server.URL, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Error(response.StatusCode, status)
		}
	}
	if len(bodies) != 0 {
		t.Error("one without a signature came through")
	}
}
