// Package tickwheel is a client of tickwheeld, the durable timer service.
//
//	timers, err := tickwheel.New("http://localhost:8463")
//	timer, err := timers.Create(ctx, tickwheel.Create{Target: "https://shop.example/recheck",
//		After: tickwheel.After(30 * time.Minute), Payload: map[string]int{"order": 42}})
//	_, err = timers.Cancel(ctx, tickwheel.ID(timer.ID))
//
// Retries: a request that was not answered, or that a busy server refused, is sent again after a
// random pause that doubles, or as long as Retry-After says. Every create has an Idempotency-Key, so
// that a repetition makes no second timer. A batch is a stream and is not sent again: give its timers
// a Key, then repeating it is harmless.
//
// Errors: *Problem for what the server refused, to be matched with errors.Is and ErrGone and the like;
// ErrUnreachable, ErrUnknownOutcome and ErrBadAnswer where there was no answer to believe.
//
// A Client and a Worker may be used by several goroutines.
package tickwheel
